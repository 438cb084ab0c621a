"""Runs, open and closed, and checkpoints, in the terminal and as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from curriculum.inspection.checkpoint_weights import Weights, groups, tensors
from curriculum.inspection.line_selection import InspectOptions, LineFilter
from curriculum.pipeline.references import checkpoint_of
from flows.cli.inspect import command
from flows.cli.inspect.text import LEVELS, bar, line, strip
from schemas.errors import JobError, StoreError
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, mixture, run


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run and an open one."""
    home = tmp_path_factory.mktemp("trained")
    larder = TinyWorkspace(home)
    figures = [figure(2.5, 0.1, step=1), figure(2.0, 0.1, "v2_simple", "general", step=1)]
    run(home, job(larder.syntax, home, run_key="1" * 64), figures)
    other = mixture(home, "syntax", [(larder.one, 0, 0, 7)], specialist="abseil")
    run(home, job(other, home, specialist="abseil", run_key="2" * 64), [], closed=False)
    return home


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Console:
    """Return a console that records output without colours."""
    console = Console(record=True, width=160, color_system=None)
    monkeypatch.setattr(command, "out", console)
    return console


def _checkpoint(home: Path) -> str:
    return str(checkpoint_of(home, "fmt/syntax"))


def _json(home: Path, what: str, capsys: pytest.CaptureFixture[str], **only: Any) -> dict[str, Any]:
    command.show(home, what, InspectOptions(rows=9, only=LineFilter(**only)), as_json=True)
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_a_run_is_found_by_name_and_shows_figures_loss_and_checkpoints(
    home: Path, printed: Console
) -> None:
    command.show(home, "fmt/syntax", InspectOptions())
    said = printed.export_text()
    assert "2.400 to 2.600" in said
    assert f"{LEVELS[-1]}{LEVELS[0]}  4.000 → 2.000" in said, "the loss is drawn"
    assert "attempt=1/checkpoints/step=1" in said


def test_a_runs_steps_and_figures_can_be_chosen(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _json(home, "fmt/syntax", capsys, step=(2, 2), domain="general")
    (said,) = said["artefacts"]
    assert [each["loss"] for each in said["lines"]] == [2.0]
    assert [each["domain"] for each in said["figures"]] == ["general"]
    assert [each["step"] for each in said["checkpoints"]] == [1]
    assert said["job"]["steps"] == 2


@pytest.mark.parametrize(
    ("only", "has_steps", "has_figures"),
    [
        ({"step": (2, 2)}, True, False),
        ({"where": "loss < 3"}, True, False),
        ({"domain": "general"}, False, True),
        ({"step": (2, 2), "family": "v2_simple"}, True, True),
    ],
    ids=str,
)
def test_chosen_lines_of_a_run_come_without_its_overview(
    home: Path, printed: Console, only: dict[str, Any], has_steps: bool, has_figures: bool
) -> None:
    command.show(home, "fmt/syntax", InspectOptions(only=LineFilter(**only)))
    said = printed.export_text()
    assert "4.000 → 2.000" not in said, "the curve of the whole run"
    assert "checkpoints/step=1" not in said
    assert "positions a step" not in said
    lines = [line.split() for line in said.splitlines()]
    assert (["2", "8", "2", "0.5", "0.2", "9", "3"] in lines) is has_steps
    assert not any(line[:2] == ["1", "14"] for line in lines), "step 1 wasn't asked for"
    assert any("1.900 to 2.100" in line for line in said.splitlines()) is has_figures
    assert "2.400 to 2.600" not in said, "the mean of all domains"


def test_chosen_figures_of_a_checkpoint_come_without_its_overview(
    home: Path, printed: Console
) -> None:
    command.show(home, _checkpoint(home), InspectOptions(only=LineFilter(domain="general")))
    said = printed.export_text()
    assert "1.900 to 2.100" in said
    assert "F32" not in said, "weights weren't asked for"
    assert "consumed in this phase" not in said


def test_an_open_run_says_how_it_stands(
    home: Path, printed: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    command.show(home, "abseil", InspectOptions())
    said = printed.export_text()
    assert said.startswith("interrupted abseil/syntax")
    assert "step 1 of 2" in said
    capsys.readouterr()
    found = _json(home, "abseil/syntax", capsys)
    assert (found["state"], len(found["checkpoints"])) == ("interrupted", 1)


def test_a_checkpoint_shows_its_weights_and_training_data(home: Path, printed: Console) -> None:
    command.show(home, _checkpoint(home), InspectOptions())
    lines = [line.split() for line in printed.export_text().splitlines()]
    assert ["all", "4", "232"] in lines
    names = [line[0] for line in lines if line and line[-1] == "F32"]
    assert names == ["blocks.0", "blocks.9", "blocks.10", "embedding"]
    assert ["v2_simple", "causal", "8", "general", "2", "15", "100.0%"] in lines, (
        "slots 0 and 1 only"
    )


def test_a_checkpoint_as_json_has_model_state_and_every_tensor(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _json(home, _checkpoint(home), capsys)
    assert said["state"]["slot"] == 2
    assert said["model"]["blocks"] == "AF"
    assert [each["shape"] for each in said["weights"] if each["name"] == "embedding.weight"] == [
        [16, 8]
    ]
    assert said["job"]["specialist"] == "fmt"


def test_weights_that_are_not_there_are_none_and_those_of_no_checkpoint_are_refused(
    tmp_path: Path,
) -> None:
    assert tensors(tmp_path) == []
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 16)
    with pytest.raises(JobError, match="damaged"):
        tensors(tmp_path)


def test_an_open_run_has_no_lines_to_choose(home: Path) -> None:
    with pytest.raises(StoreError, match="--step"):
        command.show(home, "abseil", InspectOptions(only=LineFilter(step=(1, 1))))


def test_a_name_that_no_run_has_names_those_there_are(home: Path) -> None:
    with pytest.raises(JobError, match="fmt/syntax"):
        command.show(home, "fmt/anneal", InspectOptions())


def test_groups_count_numbers_as_numbers() -> None:
    listed = [Weights(name=f"blocks.{at}.w", kind="F32", parameters=6) for at in (10, 2, 1)]
    found = groups([*listed, Weights(name="norm.weight", kind="BF16", parameters=1)])
    assert [each.name for each in found] == ["blocks.1", "blocks.2", "blocks.10", "norm"]
    assert [each.parameters for each in found] == [6, 6, 6, 1]


@given(st.floats(0, 1), st.integers(1, 12))
def test_a_bar_is_as_wide_whatever_it_shows(share: float, cells: int) -> None:
    drawn = bar(share, cells=cells).plain
    assert len(drawn) == cells
    assert (drawn.strip() == "") == (share == 0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300), st.integers(1, 80))
def test_a_line_has_a_level_for_each_value_or_cell(values: list[float], cells: int) -> None:
    drawn = line(values, cells)
    assert len(drawn) == min(cells, len(values))
    assert set(drawn) <= set(LEVELS)


def test_a_strip_is_full_when_its_parts_are() -> None:
    assert strip([(1 / 3, ""), (1 / 3, ""), (1 / 3, "")], 10).plain == "█" * 10
    assert strip([], 3).plain == "░░░"
