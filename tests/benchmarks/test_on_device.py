"""Parts of benchmarks/gpu.py: the schedule of the measurements, the table, the generated rows."""

import json
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.on_device import masking, models, rows, schedule
from benchmarks.on_device.lines import Figure, ResultLine, Table, format_number
from benchmarks.on_device.schedule import RESERVE, Measurement, Outcome, Schedule, sort_by_wave
from benchmarks.on_device.setting import Setting, setting_of
from benchmarks.on_device.stops import Ended, Stops, TooLong
from curriculum.train.masking_cost import Round, compare
from schemas.errors import JobError

CPU = torch.device("cpu")
Work = Callable[[float], Outcome]


class Clock:
    """Seconds that pass only where a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def working(self, seconds: float, shares: list[float] | None = None) -> Work:
        def work(share: float) -> Outcome:
            self.now += seconds
            if shares is not None:
                shares.append(share)
            return Outcome(figures=(Figure(name="seconds", value=seconds),))

        return work


def planned(
    section: str, work: Work, *, wave: int = 1, weight: float = 1.0, name: str = ""
) -> Measurement:
    line = ResultLine(section=section, subject=name or section, row_length=128, documents="mean 3")
    return Measurement(wave=wave, line=line, weight=weight, work=work, build=lambda: "")


def tabled(folder: Path) -> Table:
    return Table(folder, (("device", "cpu"),))


def test_a_second_run_measures_only_what_has_no_figures_yet(tmp_path: Path) -> None:
    clock, stops = Clock(), Stops()
    first = planned("a", clock.working(1))
    Schedule(tabled(tmp_path), stops, 60, clock=clock).run([first])
    again: list[float] = []
    table = tabled(tmp_path)
    both = [planned("a", clock.working(1, again)), planned("b", clock.working(1, again))]
    Schedule(table, stops, 60, clock=clock).run(both)
    assert [line.section for line in table.lines] == ["a", "b"]
    assert len(again) == 1


def test_a_table_of_another_device_is_not_appended_to(tmp_path: Path) -> None:
    tabled(tmp_path)
    with pytest.raises(JobError, match=r"gpu\.json: cpu; .* another device than H100"):
        Table(tmp_path, (("device", "H100"),))


def test_no_measurement_gets_more_than_its_limit(tmp_path: Path) -> None:
    clock, shares = Clock(), list[float]()
    schedule = Schedule(tabled(tmp_path), Stops(), 6000, clock=clock, limit=45)
    schedule.run([planned("a", clock.working(1, shares))])
    assert shares == [27]


def test_lines_come_in_waves_and_within_a_wave_in_the_order_of_sections() -> None:
    work = Clock().working(0)
    given = [planned("a", work), planned("a", work, wave=2), planned("b", work), planned("c", work)]
    assert [(cell.section, cell.wave) for cell in sort_by_wave(given)] == [
        ("a", 1),
        ("b", 1),
        ("c", 1),
        ("a", 2),
    ]


def test_a_share_of_the_time_goes_by_weight_and_what_is_left_over_to_later_lines(
    tmp_path: Path,
) -> None:
    clock, shares = Clock(), list[float]()
    Schedule(tabled(tmp_path), Stops(), 100, clock).run(
        [
            planned("a", clock.working(10, shares), weight=3),
            planned("b", clock.working(10, shares)),
            planned("c", clock.working(10, shares)),
        ]
    )
    assert shares == [60, 45, 80]


def test_a_costly_section_leaves_time_for_a_line_of_every_other(tmp_path: Path) -> None:
    clock, table = Clock(), tabled(tmp_path)
    greedy = [planned("a", clock.working(40), name=f"a{number}") for number in range(5)]
    others = [planned(name, clock.working(RESERVE * 100)) for name in ("b", "c", "d", "e", "f")]
    Schedule(table, Stops(), 100, clock).run([*greedy, *others])
    # Twice 40 seconds and then a reserve of 5 times 4.
    assert [line.subject for line in table.lines] == ["a0", "a1", "b", "c", "d", "e", "f"]
    assert [name.split()[1] for name in table.skipped] == ["a2", "a3", "a4"]
    assert json.loads((tmp_path / "gpu.json").read_text())["skipped"] == list(table.skipped)


def test_an_error_becomes_the_reason_of_its_line_and_the_next_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, table = Clock(), tabled(tmp_path)

    def full(share: float) -> Outcome:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB\nmore")

    def refused(share: float) -> Outcome:
        raise JobError("backend", "varlen", cause="no GPU", cure="Choose another")

    work = [planned("a", full), planned("b", refused), planned("c", clock.working(1))]
    Schedule(table, Stops(), 100, clock).run(work)
    assert [line.note for line in table.lines] == [
        "failed: OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB",
        "refused: backend: varlen; no GPU. Choose another",
        "",
    ]
    assert [bool(line.figures) for line in table.lines] == [False, False, True]
    said = capsys.readouterr().err
    assert "OutOfMemoryError" in said
    assert "JobError" not in said


def test_a_measurement_that_hangs_is_ended_before_it_takes_the_time_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, stops = tabled(tmp_path), Stops()
    monkeypatch.setattr(schedule, "RESERVE", 0.8)

    def hangs(share: float) -> Outcome:
        time.sleep(30)
        raise AssertionError("nothing ended it")

    with stops.deadline(15):
        Schedule(table, stops, 15).run([planned("a", hangs), planned("b", Clock().working(0))])
    assert 2.5 < table.lines[0].seconds < 12
    assert [line.note for line in table.lines] == [
        "failed: stopped after 3 s to leave time for the other sections",
        "",
    ]


def test_the_deadline_ends_a_run_also_where_an_exception_is_caught(tmp_path: Path) -> None:
    table, stops = tabled(tmp_path), Stops()

    def stubborn(share: float) -> Outcome:
        try:
            time.sleep(30)
        except Exception:
            raise AssertionError("the end was taken for an error") from None
        raise AssertionError("nothing ended it")

    with pytest.raises(Ended, match="time limit") as ended, stops.deadline(0.3):
        Schedule(table, stops, 100).run([planned("a", stubborn)])
    assert ended.value.status == 0
    assert table.lines == []


def test_a_stop_during_a_write_waits_for_its_end(tmp_path: Path) -> None:
    stops, done = Stops(), list[str]()
    with pytest.raises(Ended, match="SIGTERM") as ended, stops.deadline(60), stops.defer():
        _signalled(done)
    assert done == ["written"]
    assert ended.value.status == 128 + signal.SIGTERM


def _signalled(done: list[str]) -> None:
    signal.raise_signal(signal.SIGTERM)
    done.append("written")


def test_handlers_are_as_before_once_the_run_is_over() -> None:
    words = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
    before = [signal.getsignal(each) for each in words]
    with Stops().deadline(60):
        assert [signal.getsignal(each) for each in words] != before
    assert [signal.getsignal(each) for each in words] == before


def test_files_are_whole_after_every_line(tmp_path: Path) -> None:
    table = tabled(tmp_path)
    for number in range(3):
        figures = (Figure(name="tokens/s", value=1234.5), Figure(name="ratio", value=1.239))
        table.add(
            ResultLine(
                section="a", subject=f"s{number}", row_length=4096, documents="", figures=figures
            )
        )
        content = json.loads((tmp_path / "gpu.json").read_text())
        assert len(content["lines"]) == number + 1
        assert content["status"] == "running or killed"
        last = (tmp_path / "gpu.md").read_text().splitlines()[-1]
        assert last == (
            f"| a | s{number} | 4,096 | – | tokens/s **1,234**; ratio **1.24** |  | 0.0 s |"
        )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12345.6, "12,346"), (1.2345, "1.23"), (17, "17"), (0.00001, "1.0e-05")],
)
def test_numbers_show_three_digits_that_matter(value: float, text: str) -> None:
    assert format_number(value) == text


def test_packed_rows_follow_from_their_seed_and_are_full() -> None:
    one, same, other = (rows.packed(3, 512, 50, vocab=97, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.input_ids, same.input_ids)
    assert not torch.equal(one.input_ids, other.input_ids)
    assert one.valid_tokens == one.positions == 1536
    assert len(one.boundaries.lengths) > 10
    assert one.loss_mask.sum() == 1536 - len(one.boundaries.lengths)


def test_unpacked_rows_hold_one_mean_document_each_and_score_no_padding() -> None:
    batch = rows.packed(2, 512, 50, vocab=97)
    mean = batch.positions // len(batch.boundaries.lengths)
    alone = rows.unpacked(batch, vocab=97)
    assert alone.input_ids.shape == batch.input_ids.shape
    assert alone.boundaries.lengths == (mean, 512 - mean) * 2
    assert alone.valid_tokens == 2 * mean
    assert alone.loss_mask.sum() == 2 * (mean - 1)
    assert alone.attention_pairs == 2 * mean * (mean + 1) // 2


def test_a_full_memory_is_tried_again_with_recompute_and_the_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = setting_of("cpu", tiny=True)
    made: list[bool] = []
    model_of = models.model_of

    def small(*given: object, recomputes: bool) -> object:
        made.append(recomputes)
        if not recomputes:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return model_of(*given, recomputes=recomputes)

    monkeypatch.setattr(small, "cache_clear", model_of.cache_clear, raising=False)
    monkeypatch.setattr(masking, "model_of", small)
    (subject, _) = models.whole_models(setting)
    found = masking.measure(setting, subject, masking.RowKind(length=256, mean=100), 0.0)
    assert made == [False, True]
    assert "with recomputation" in found.note
    assert found.figures[0].value > 0


def figures_of(setting: Setting) -> dict[str, float]:
    (subject, _) = models.whole_models(setting)
    found = masking.measure(setting, subject, masking.RowKind(length=256, mean=30), 0.0)
    return {figure.name: figure.value for figure in found.figures}


def test_mfu_appears_where_the_peak_is_known_and_counts_pairs_as_each_side_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = setting_of("cpu", tiny=True)
    assert "MFU masked" not in figures_of(setting)
    monkeypatch.setattr(masking, "peak_of", lambda device: 1e12)
    known = figures_of(setting)
    # The share of work per token is larger on the unmasked side, whose rows are one document.
    per_token = known["MFU masked"] / known["masked tokens/s"]
    assert 0 < per_token < known["MFU unmasked"] / known["unmasked tokens/s"]


def test_rounds_that_were_over_count_where_the_limit_ends_a_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = replace(setting_of("cpu", tiny=True), min_rounds=9, max_rounds=9)
    calls = list[int]()

    def limited(*given: Any) -> Round:
        calls.append(1)
        if len(calls) == 4:
            raise TooLong
        return compare(*given)

    monkeypatch.setattr(masking, "compare", limited)
    figures = figures_of(setting)
    # One warm-up, two whole rounds, and one that was ended.
    assert figures["rounds"] == 2
    assert figures["masked ÷ unmasked"] > 0
