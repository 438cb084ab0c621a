"""Output of `curriculum compare`: settings, figures with intervals, training data."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from curriculum.inspection.comparison import (
    OTHER_ROWS,
    TOUCH,
    MeasuredPair,
    measured_pairs,
    setting_differences,
    shared_strata,
)
from curriculum.inspection.formats import TOO_FEW
from curriculum.inspection.runs import NOT_SURE
from flows.cli import app, compare
from flows.cli.compared_runs import ComparedRuns, groups, runs_by_phase
from schemas.errors import JobError
from tests.factories import equal_count
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, mixture, run, starting


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three specialists: the second rate is another, the third is measured on other rows."""
    home = tmp_path_factory.mktemp("compared")
    larder = TinyWorkspace(home)
    taken = [(larder.one, 0, 0, 7), (larder.two, 0, 0, 6)]
    low, high = figure(2.0, 0.1), figure(3.0, 0.2)
    run(home, job(larder.syntax, home, run_key="1" * 64), [high, _one_document(3.0)])
    run(
        home,
        job(larder.file_graph, home, run_key="2" * 64, start_from=starting("1" * 64)),
        [figure(2.9, 0.2)],
    )
    other = mixture(home, "syntax", taken, specialist="abseil")
    slower = job(other, home, specialist="abseil", run_key="3" * 64, rope_base=2e4)
    run(home, slower, [low, _one_document(2.5)], cost=1.5, gpu_seconds=7200.0)
    third = mixture(home, "syntax", taken, specialist="catch")
    run(home, job(third, home, specialist="catch", run_key="4" * 64, content="2"), [low])
    open_ = mixture(home, "syntax", taken, specialist="doctest")
    run(home, job(open_, home, specialist="doctest", run_key="5" * 64), [], closed=False)
    return home


def _place(pair: MeasuredPair) -> tuple[str, str, str, str]:
    return pair.set, pair.phase, pair.family, pair.domain


def _one_document(bits: float) -> Any:
    return figure(bits, 0.0, family="v2_simple", domain="general")


def _two(home: Path, *names: str) -> tuple[ComparedRuns, ...]:
    return tuple(groups(home, names))


def test_only_what_is_set_otherwise_is_listed(home: Path) -> None:
    (group,) = _two(home, "fmt/syntax", "abseil/syntax")
    assert {each.name: each.values for each in setting_differences(group.runs)} == {
        "rope_base": ("10000.0", "20000.0")
    }


def test_where_a_run_starts_is_a_setting(home: Path) -> None:
    (group,) = _two(home, "fmt/syntax", "fmt/file_graph")
    found = {each.name: each.values for each in setting_differences(group.runs)}
    assert found["starts from"] == ("nothing", "1" * 12)


def test_intervals_that_do_not_touch_are_a_verdict(home: Path) -> None:
    (group,) = _two(home, "fmt/syntax", "abseil/syntax")
    mean, stratum = measured_pairs(group.runs)
    assert _place(mean) == ("phase", "syntax", "*", "*")
    assert mean.verdict == "lower"
    assert stratum.verdict == TOO_FEW, "it is of one document"
    (alone,) = _two(home, "fmt/syntax", "catch/syntax")
    assert measured_pairs(alone.runs)[1].verdict == TOO_FEW, "the other hasn't got it"
    (turned,) = _two(home, "abseil/syntax", "fmt/syntax")
    assert measured_pairs(turned.runs)[0].verdict == "higher"
    (near,) = _two(home, "fmt/syntax", "fmt/file_graph")
    assert measured_pairs(near.runs)[0].verdict == TOUCH


def test_figures_on_other_rows_are_never_judged(home: Path) -> None:
    (group,) = _two(home, "fmt/syntax", "catch/syntax")
    mean = measured_pairs(group.runs)[0]
    assert not mean.same_rows
    assert mean.verdict == OTHER_ROWS


@pytest.fixture(scope="module")
def paired_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two specialists on other rows, that share 40 documents of 50 each; the second is a little better."""
    home = tmp_path_factory.mktemp("paired")
    larder = TinyWorkspace(home)
    other = mixture(home, "syntax", [(larder.one, 0, 0, 7)], specialist="abseil")
    runs = (
        job(larder.syntax, home, run_key="1" * 64),
        job(other, home, specialist="abseil", run_key="2" * 64, content="2"),
    )
    for each, first, better in zip(runs, (0, 10), (0.0, 2.0), strict=True):
        documents = {
            f"{at:032x}": (20.0 + 5 * (at % 7) - better * (1 + at % 5 / 10), 30)
            for at in range(first, first + 50)
        }
        middle = _bits(documents)
        wide = figure(middle, 0.4)
        alike = figure(middle, 0.4, family="v2_simple", domain="general")
        unpaired = figure(middle, 0.4, family="v3_simple", domain="general")
        run(home, each, [wide, alike, unpaired], documents=documents)
    return home


def _bits(documents: dict[str, tuple[float, int]]) -> float:
    nats, num_bytes = (math.fsum(each) for each in zip(*documents.values(), strict=True))
    return nats / math.log(2) / num_bytes


def test_two_specialists_are_paired_on_the_documents_that_both_were_measured_on(
    paired_home: Path,
) -> None:
    (group,) = _two(paired_home, "fmt/syntax", "abseil/syntax")
    mean, stratum, other = measured_pairs(group.runs)
    assert other.paired is None, "it has no documents"
    assert not mean.same_rows
    assert mean.paired is not None
    assert mean.paired == stratum.paired, "one stratum is all that there is"
    assert mean.paired.count.documents == 40
    assert mean.paired.change == pytest.approx(-2.4 / math.log(2) / 30)
    assert mean.paired.low < mean.paired.change < mean.paired.high < 0
    assert mean.verdict == "lower", "their own intervals overlap by far"
    (turned,) = _two(paired_home, "abseil/syntax", "fmt/syntax")
    assert measured_pairs(turned.runs)[0].verdict == "higher"
    (same,) = _two(paired_home, "fmt/syntax", "fmt/syntax")
    assert measured_pairs(same.runs)[0].verdict == NOT_SURE


def test_a_pair_is_printed_with_its_interval_and_its_documents(
    paired_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(record=True, width=180, color_system=None)
    monkeypatch.setattr(compare, "out", console)
    compare.compare(paired_home, ["fmt/syntax", "abseil/syntax"])
    said = console.export_text()
    capsys.readouterr()
    (line,) = [each.split() for each in said.splitlines() if each.startswith("phase  syntax  *")]
    assert line[-3] == "40"
    assert line[-1] == "lower"
    assert line[-7] == "−0.115"
    assert line[-6].startswith("(−0.1")
    (other,) = [line.split() for line in said.splitlines() if " v3_simple " in line]
    first, last = (float(bits) for bits in (other[4], other[8]))
    gap, mark = other[12:14]
    assert float(gap.strip(",").replace("−", "-")) == pytest.approx(last - first, abs=0.0015)
    assert mark == "unpaired"
    compare.compare(paired_home, ["fmt/syntax", "abseil/syntax"], as_json=True)
    (left,) = json.loads(capsys.readouterr().out)["groups"]
    assert left["figures"][0]["paired"]["count"]["documents"] == 40
    assert left["figures"][0]["verdict"] == "lower"


def test_shares_are_those_of_the_plans(home: Path) -> None:
    (group,) = _two(home, "fmt/syntax", "abseil/syntax")
    found = {(each.serving, each.domain): each.shares for each in shared_strata(group.runs)}
    first, last = found["v2_simple causal 8", "templates"]
    assert first is None
    assert last is not None
    assert (last.tokens, last.realised) == (6, 6 / 13)


def test_specialists_are_compared_phase_by_phase(home: Path) -> None:
    found = groups(home, ["fmt", "abseil"])
    assert [(each.phase, len(each.runs)) for each in found] == [("syntax", 2), ("file_graph", 1)]


def test_the_terminal_tells_figures_intervals_cost_and_shares(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=180, color_system=None)
    monkeypatch.setattr(compare, "out", console)
    compare.compare(home, ["fmt/syntax", "abseil/syntax"])
    lines = [line.split() for line in console.export_text().splitlines()]
    assert ["rope_base", "10000.0", "20000.0"] in lines
    figures = "phase syntax * * 3.000 (2.800 to 3.200) 2.000 (1.900 to 2.100) −1.000 12 5 lower"
    assert figures.split() in lines
    few = "phase syntax v2_simple general 3.000 2.500 −0.500 1 1 too few to tell"
    assert few.split() in lines, "it is said once"
    assert any({"abseil", "2", "h", "1.50"} <= set(line) for line in lines), "GPU time and cost"
    assert any("53.8%" in line for line in lines), "7 of 13 tokens"


def test_an_open_run_stands_beside_finished_ones(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare.compare(home, ["fmt/syntax", "doctest"], as_json=True)
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    closed, open_ = group["runs"]
    assert (closed["report"] is None, open_["report"] is None) == (False, True)
    assert closed["tokens"] == 22
    means = next(each for each in group["figures"] if each["family"] == "*")
    figure = {"step": 2, "val_bpb": 3.0, "low": 2.8, "high": 3.2}
    first, last = means["figures"]
    assert last is None
    assert means["is_sure"] == [True, False]
    assert (figure | equal_count(12, 5).model_dump()).items() <= first.items()


def test_an_open_runs_line_says_how_it_stands(home: Path) -> None:
    ((_, side),) = runs_by_phase(home, "doctest").items()
    assert side.report is None
    assert side.progress is not None
    assert (side.progress.state, side.progress.steps) == ("interrupted", 1)
    assert "step 1 of 2" in side.progress.why


def test_a_run_is_found_by_key_and_by_path_too(home: Path) -> None:
    ((_, by_name),) = runs_by_phase(home, "abseil/syntax").items()
    path = by_name.path
    for what in (path.parent.name, str(path), path.relative_to(home).as_posix()):
        ((_, found),) = runs_by_phase(home, what).items()
        assert found.path == path


@pytest.mark.parametrize("names", [["fmt/syntax"], ["fmt/syntax", "nobody"]])
def test_what_cannot_be_compared_says_so(home: Path, names: list[str]) -> None:
    with pytest.raises(JobError, match=r"at least two runs|no run of that name"):
        compare.compare(home, names)


def test_the_demos_phases_compare_by_their_reports(demo_home: Path) -> None:
    (group,) = groups(demo_home, ["templates.demo/syntax", "templates/demo/file_graph"])
    first, last = group.runs
    assert (first.job.phase, last.job.phase) == ("syntax", "file_graph")
    assert first.report is not None
    assert last.report is not None
    ends = {
        (each.set, each.phase, each.family, each.domain): each.val_bpb for each in last.report.after
    }
    found = measured_pairs(group.runs)
    assert {_place(each): each.figures[1].val_bpb for each in found if each.figures[1]} == ends
    assert any(each.figures[0] is None for each in found), "syntax knows no file_graph"
    assert all(each.same_rows for each in found)


def test_documents_that_were_changed_since_they_were_published_are_refused_or_marked_as_lost(
    paired_home: Path, tmp_path: Path
) -> None:
    home = Path(shutil.copytree(paired_home, tmp_path / "home"))
    file = next((home / "runs" / "specialist-fmt").rglob("documents.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    file.write_bytes(content)
    words = ["compare", "fmt/syntax", "abseil/syntax", "--home", str(home)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert file.name in done.stderr
    file.rename(file.with_name(f"{file.name}.lost"))
    assert CliRunner().invoke(app, words).exit_code == 0
