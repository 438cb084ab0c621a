"""A dry run's tokens, time and price, and the recorded cost of a run."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from curriculum.pipeline.context import Resources
from curriculum.pipeline.forecast import Forecast, PhaseForecast, money
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.training_time import (
    NO_WORK,
    PUBLISHED,
    Speed,
    Workload,
    expected,
    last_speed,
    workload_of,
)
from flows import settings
from flows.cli import forecasts
from schemas.diet import AdvanceWhen
from tests import factories
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, mixture, run


def speed(
    *,
    device: str = "cuda",
    devices: int = 1,
    seconds_per_token: float = 1e-3,
    evaluation: float = 0.0,
    start: float = 0.0,
) -> Speed:
    return Speed(
        source="templates/demo/syntax, run 0123456789ab",
        model="tiny",
        device=device,
        devices=devices,
        seconds_per_token=seconds_per_token,
        seconds_per_evaluation=evaluation,
        start_seconds=start,
    )


def work(tokens: int, evaluations: int = 0, runs: int = 0) -> Workload:
    return Workload(tokens=tokens, evaluations=evaluations, runs=runs)


def phase_forecast(tokens: int, phase: str = "syntax") -> PhaseForecast:
    return PhaseForecast(
        phase=phase,
        to_make={"runs": 1} if tokens else {},
        tokens=tokens,
        steps=7,
        work=work(tokens, 2, 1) if tokens else NO_WORK,
    )


def foreseen(*tokens: int, speed: Speed | None, price: float | None) -> Forecast:
    phases = tuple(phase_forecast(each, f"phase{at}") for at, each in enumerate(tokens))
    return Forecast(phases=phases, model="tiny", speed=speed, price=price)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Console:
    console = Console(record=True, width=160, quiet=False, file=None, force_terminal=False)
    monkeypatch.setattr(forecasts, "out", console)
    return console


def test_gpu_hours_cost_their_price_whatever_the_number_of_gpus() -> None:
    tokens = 3_600_000
    for devices in (1, 8):
        found = foreseen(tokens, speed=speed(devices=devices), price=2.5)
        assert found.cost == pytest.approx(2.5)
        assert found.seconds == pytest.approx(3600 / devices)


def test_a_cpu_costs_nothing() -> None:
    assert foreseen(1000, speed=speed(device="cpu"), price=2.5).cost == 0.0


def test_without_a_speed_or_a_price_there_is_no_cost() -> None:
    assert foreseen(1000, speed=None, price=2.5).cost is None
    assert foreseen(1000, speed=None, price=2.5).seconds is None
    assert foreseen(1000, speed=speed(), price=None).cost is None


@given(st.lists(st.integers(min_value=0, max_value=10**12), min_size=1, max_size=6))
def test_phases_add_up_to_the_whole(tokens: list[int]) -> None:
    pace, price = speed(devices=4, evaluation=2.0, start=8.0), 3.0
    whole = foreseen(*tokens, speed=pace, price=price)
    phases = [each.work for each in whole.phases]
    assert whole.tokens == sum(tokens)
    assert whole.cost == pytest.approx(sum(pace.cost(each, price) or 0 for each in phases))
    assert whole.seconds == pytest.approx(sum(pace.seconds(each) for each in phases))


def test_what_is_printed_names_tokens_time_price_and_the_run_that_measured(
    printed: Console,
) -> None:
    found = foreseen(7_200_000, 0, speed=speed(devices=2), price=2.5)
    forecasts.show_forecast(found, until="train")
    said = printed.export_text()
    for part in (
        "7.2M",
        "1 h",
        "5.00",
        "2 GPU hours",
        "by templates/demo/syntax, run 0123456789ab: ",
        "at 2.5 for a GPU hour",
    ):
        assert part in said, said


def test_a_missing_price_is_asked_for(printed: Console) -> None:
    forecasts.show_forecast(foreseen(1000, speed=speed(), price=None), until="train")
    assert "$CURRICULUM_GPU_PRICE" in printed.export_text()


def test_nothing_to_train_is_said(printed: Console) -> None:
    forecasts.show_forecast(foreseen(0, 0, speed=speed(), price=2.5), until="train")
    assert "Nothing to train" in printed.export_text()


def test_an_unmeasured_speed_is_said() -> None:
    assert "no run of 1b" in expected(work(1000), "1b", None)


def test_a_time_is_in_its_largest_units_and_not_in_parts_of_an_hour() -> None:
    on_cpu = speed(device="cpu", seconds_per_token=1e-3)
    said = expected(work(50_000), "tiny", on_cpu)
    assert "about 50 s by templates/demo/syntax" in said
    assert "1,000 tokens/s in steps; " in said


def test_evaluations_starts_and_checks_are_part_of_the_time_and_only_starts_cost_nothing() -> None:
    pace, asked = speed(devices=2, evaluation=10.0, start=30.0), work(200_000, 4, 2)
    assert pace.seconds(asked) == pytest.approx(100 + 40 + 60)
    assert pace.cost(asked, 3600) == pytest.approx(2 * (100 + 40))
    said = expected(asked, "tiny", pace)
    assert "about 3 min 20 s" in said
    assert "10 s an evaluation, 30 s " in said


def test_a_gate_on_val_bpb_has_a_phase_evaluated_meanwhile() -> None:
    gated = AdvanceWhen.model_validate(
        {"val_bpb": {"stops_improving_by": 0.002, "over_evaluations": 3}}
    )
    assert workload_of(factories.resolved_phase(), 1000, 65) == work(1000, 2, 1)
    assert workload_of(factories.resolved_phase(advance_when=gated), 1000, 65) == work(1000, 8, 1)
    assert workload_of(factories.resolved_phase(advance_when=gated), 1000, 1) == work(1000, 2, 1)


def test_a_speed_is_that_of_the_newest_runs_together(tmp_path: Path) -> None:
    larder = TinyWorkspace(tmp_path)
    for name, seconds, lasted in (("old", 90.0, 110), ("new", 10.0, 3600), ("last", 30.0, 50)):
        mixed = mixture(tmp_path, "syntax", [(larder.one, 0, 0, 7)], specialist=name)
        begun = datetime(2026, 11, 1, tzinfo=UTC)
        ordered = job(mixed, tmp_path, specialist=name, run_key="1" * 64, begun=begun.isoformat())
        history = tuple(figure(2.0, 0.1, step=at) for at in (0, 2))
        ended = (begun + timedelta(seconds=lasted)).isoformat()
        run(
            tmp_path,
            ordered,
            history,
            history=history,
            seconds=seconds,
            evaluation_seconds=4.0,
            ended=ended,
        )
    plan = resolve_plan(RunConfig(specialist="templates.demo", workspace=tmp_path), dry=True)
    found = last_speed(plan, Resources())
    assert found is not None
    assert found.seconds_per_token == pytest.approx(130 / (3 * 22))
    assert found.seconds_per_evaluation == pytest.approx(2.0)
    assert found.start_seconds == pytest.approx(16.0), "an hour of `new` was an interruption"
    assert " 2 runs " in found.source


def test_without_a_run_the_speed_is_the_published_one_of_model_and_device(tmp_path: Path) -> None:
    plan = resolve_plan(RunConfig(specialist="templates.demo", workspace=tmp_path), dry=True)
    found = last_speed(plan, Resources())
    assert found is not None
    assert (found.model, found.device) == ("tiny", "cpu")
    assert "docs/benchmarks.md" in expected(work(1000, 2, 1), "tiny", found)
    larger = replace(plan, diet=plan.diet.model_copy(update={"model": "1b"}))
    assert last_speed(larger, Resources()) is None


def test_published_speeds_are_those_of_the_benchmarks() -> None:
    text = (Path(__file__).parents[2] / "docs/benchmarks.md").read_text()
    for each in PUBLISHED:
        assert f"{1 / each.seconds_per_token:,.0f}" in text, each.model
    tiny = PUBLISHED[0]
    assert f"{tiny.seconds_per_evaluation:g} s an evaluation; {tiny.start_seconds:g} s for" in text


def test_money_is_to_the_cent() -> None:
    assert [money(each) for each in (0.0, 1234.5, None)] == ["0.00", "1,234.50", ""]


@pytest.mark.parametrize("given", ["free", "-1", "0", "nan", "inf"])
def test_what_is_no_price_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURRICULUM_GPU_PRICE", given)
    with pytest.raises(settings.SettingError, match="CURRICULUM_GPU_PRICE"):
        settings.gpu_price()


QUICK = """
import sys
from flows.cli import app
try:
    app(["--help"])
except SystemExit:
    pass
slow = {"numpy", "pyarrow", "polars", "torch", "prefect", "duckdb", "tree_sitter"} & {*sys.modules}
assert not slow, slow
"""


def test_help_imports_nothing_that_takes_long(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUICK], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


STATUS = """
import sys
from pathlib import Path
from flows.cli import status
status.status(Path(sys.argv[1]), as_json=True)
slow = {"torch", "prefect", "duckdb"} & {*sys.modules}
assert not slow, slow
"""


def test_status_imports_neither_torch_nor_prefect(demo_home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STATUS, str(demo_home)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"done"' in done.stdout
