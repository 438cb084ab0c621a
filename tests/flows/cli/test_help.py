"""Help of the command line: panels by task, differences between similar commands, length, names."""

from pathlib import Path
from typing import Any

import pytest

from curriculum.pipeline.run_config import COMMON_FIELDS, GROUPS, option
from flows.cli.app import ADVANCED, DATA, LOOK, SERVE, SHARE, TRAIN
from tests.flows.cli_runner import curriculum
from tests.flows.every_command import COMMANDS, GROUP

MAX_LINES, COLUMNS = 60, 100
PANELS = {
    DATA: {"init", "supply", "diet", "tokenizer", "build", "mix", "check", "gc"},
    TRAIN: {"demo", "train", "run", "approve", "ablate"},
    LOOK: {"status", "ls", "report", "inspect", "lineage", "query", "shell", "diff", "compare"}
    | {"generate", "leakcheck"},
    SHARE: {"export", "import", "merge", "trust"},
    SERVE: {"serve", "dashboard"},
}
SIMILAR = (("run", "train"), ("diff", "compare"), ("query", "shell"), ("supply", "diet check"))
ADVANCED_OPTIONS = {
    option(field)
    for _, group in GROUPS
    for field in group.model_fields
    if field not in COMMON_FIELDS
}


def _help(home: Path, *words: str) -> str:
    answer = curriculum(*words, home=home, variables={"COLUMNS": str(COLUMNS)})
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_commands_are_grouped_by_task() -> None:
    commands: dict[str, Any] = GROUP.commands  # type: ignore[attr-defined]
    found: dict[str, set[str]] = {}
    for name, command in commands.items():
        found.setdefault(command.rich_help_panel, set()).add(name)
    assert found == PANELS


def test_panels_are_in_the_order_of_the_work(tmp_path: Path) -> None:
    text = _help(tmp_path, "--help")
    places = [text.index(f"╭─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)


@pytest.mark.parametrize("pair", SIMILAR, ids=" and ".join)
def test_similar_commands_name_each_other_in_their_first_line(pair: tuple[str, str]) -> None:
    for name, other in (pair, pair[::-1]):
        first = COMMANDS[name].help.splitlines()[0]
        assert f"`{other}`" in first
        assert len(first) <= COLUMNS


def test_sample_means_a_part_of_the_data_and_share_is_no_option() -> None:
    assert "sample" not in COMMANDS
    with_option = {
        spelling: {name for name, command in COMMANDS.items() if spelling in _options(command)}
        for spelling in ("--sample", "--share", "--commit-fraction")
    }
    assert with_option == {
        "--sample": {"build"},
        "--share": set(),
        "--commit-fraction": {"supply", "diet check"},
    }


def _options(command: Any) -> set[str]:
    return {spelling for parameter in command.params for spelling in parameter.opts}


def test_the_help_of_run_fits_a_screen(tmp_path: Path) -> None:
    text = _help(tmp_path, "run", "--help")
    assert text.count("\n") <= MAX_LINES
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert f"─ {ADVANCED} ─" not in text
    assert not {name for name in ADVANCED_OPTIONS if f" {name} " in text}


def test_the_full_help_of_run_shows_the_advanced_options_in_a_panel(tmp_path: Path) -> None:
    _, advanced = _help(tmp_path, "run", "--help-all").split(f"╭─ {ADVANCED} ─")
    assert {name for name in ADVANCED_OPTIONS if f" {name} " in advanced} == ADVANCED_OPTIONS
    assert f"─ {ADVANCED} ─" not in _help(tmp_path, "run", "--help")
