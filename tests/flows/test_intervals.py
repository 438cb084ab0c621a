"""A figure of too few documents reads so everywhere, and beside it stand its documents and lineages."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from curriculum.inspection.run_tables import figure_lines
from curriculum.inspection.runs import measured_on
from dashboards import run_panels
from flows import cli
from schemas.job import Figure
from tests.factories import equal_count
from tests.flows.stand_ins import report
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run

TOO_FEW = "too few to tell"


def _one_document() -> Figure:
    return figure(2.43, 0.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "workspace"
    larder = TinyWorkspace(home)
    for plan, name in ((larder.syntax, "1"), (larder.file_graph, "2")):
        run(home, job(plan, home, run_key=name), [_one_document()])
    return home


def test_the_figures_of_a_run_say_that_a_single_document_is_too_few() -> None:
    left = report().model_copy(update={"after": (_one_document(), figure(2.0, 0.1))})
    found = [(line["interval"], line["documents"], line["lineages"]) for line in figure_lines(left)]
    assert found == [(TOO_FEW, 1, 1), ("1.900 to 2.100", 12, 5)]


def test_inspect_names_what_documents_of_little_weight_are_worth(tmp_path: Path) -> None:
    home = tmp_path / "workspace"
    count = {"documents": 21, "lineages": 12, "effective_documents": 4.0, "effective_lineages": 2.1}
    weighed = figure(1.704, 0.05).model_copy(update=count)
    run(home, job(TinyWorkspace(home).syntax, home, run_key="1"), [weighed])
    for words in (("inspect", "fmt/syntax"), ("compare", "fmt/syntax", "fmt/syntax")):
        done = CliRunner().invoke(cli.app, [*words, "--home", str(home)], terminal_width=200)
        said = " ".join(done.output.split())
        assert TOO_FEW in said
        assert "1.654 to 1.754" not in said
    assert measured_on(report().model_copy(update={"after": (weighed,)})) == (
        "21 documents of 12 lineages (by weight 4.0 of 2.1)"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "fmt/syntax", "fmt/file_graph"),
        ("compare", "fmt/syntax", "fmt/file_graph", "--full"),
        ("inspect", "fmt/syntax", "--full"),
        ("inspect", "runs", "--full"),
    ],
    ids=" ".join,
)
def test_no_command_prints_an_interval_without_a_width(home: Path, words: tuple[str, ...]) -> None:
    if words[1] == "runs":
        (checkpoint,) = (home / "runs").rglob("phase-syntax/*/attempt=1/checkpoints/step=1")
        words = (words[0], str(checkpoint), *words[2:])
    done = CliRunner().invoke(cli.app, [*words, "--home", str(home)])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "2.43" in said
    assert not re.search(r"2\.430 ?(to|–) ?2\.430", said)
    assert TOO_FEW in said


def test_the_page_of_runs_compared_says_so_too() -> None:
    gain: dict[str, Any] = dict.fromkeys(run_panels.Gain.__dataclass_fields__)
    gain |= {"specialist": "fmt", "phase": "syntax", "before": 3.43, "after": 2.43, "tokens": 9}
    gain |= {"low": 2.43, "high": 2.5, **equal_count(7, 4).model_dump()}
    page = run_panels.heatmap([run_panels.Gain(**gain)], "fmt")
    assert "2.430 to" not in page
    assert f"{TOO_FEW}, 7 documents of 4 lineages" in page
    page = run_panels.heatmap([run_panels.Gain(**gain | equal_count(8, 4).model_dump())], "fmt")
    assert "2.430 to 2.500, 8 documents of 4 lineages" in page
