"""`curriculum ls` and `--version`: names as other commands take them, whole at every width."""

import importlib.metadata
import json
import shutil
import sys
from pathlib import Path

import pytest
from rich.text import Text

from curriculum.mixing.diet_files import DIETS
from curriculum.model.presets import PRESETS
from tests.flows.cli_runner import curriculum
from tests.flows.terminal import on_terminal

NAME = "specialist_of_" + "forty_characters_in_all_of_it"[:26]
assert len(NAME) == 40


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace with a diet of a long name, and one that can't be read."""
    folder = tmp_path / ("a" * 60) / "workspace"
    (folder / "diets").mkdir(parents=True)
    shutil.copy(DIETS / "templates.yaml", folder / "diets" / f"{NAME}.yaml")
    (folder / "diets" / "broken.yaml").write_text("specialist: broken\nphases: [\n")
    return folder


def _sent(home: Path, *words: str, columns: int = 80) -> str:
    ended = on_terminal(words, {"CURRICULUM_HOME": str(home), "COLUMNS": str(columns)})
    assert ended.code == 0, ended.sent
    return ended.sent


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_every_name_stands_whole_on_one_line(home: Path, columns: int) -> None:
    lines = _sent(home, "ls", columns=columns).splitlines()
    for name in (NAME, "broken", "templates.demo", "sample", *PRESETS, "phases.demo"):
        assert any(name in line for line in lines), name


def test_a_diet_that_cannot_be_read_is_listed_with_its_error(home: Path) -> None:
    diets = json.loads(_plain(_sent(home, "ls", "diets", "--json")))["diets"]
    (broken,) = (each for each in diets if each["name"] == "broken")
    assert "broken.yaml" in broken["phases"]
    (whole,) = (each for each in diets if each["name"] == NAME)
    assert whole["model"] == "60m"


def test_a_workspace_that_is_not_there_is_named_by_what_looks_into_it(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    for words in (("status",), ("query", "FROM runs")):
        done = curriculum(*words, home=absent)
        assert done.returncode == 0
        said = " ".join((done.stdout + done.stderr).split())
        assert f"No workspace at {absent}. " in said
        assert "--home or CURRICULUM_HOME" in said
        assert not absent.exists()
    absent.mkdir()
    assert "is empty" in curriculum("status", home=absent).stdout


def test_a_phase_that_is_misspelt_gets_the_likely_one(tmp_path: Path) -> None:
    done = curriculum("run", "templates.demo", "--phase", "synatx", "--dry-run", home=tmp_path)
    assert done.returncode == 2
    assert "'syntax'? Its phases: syntax, file_graph" in done.stderr


def test_one_kind_is_listed_alone(home: Path) -> None:
    assert _plain(_sent(home, "ls", "runs")).split("\n")[:2] == ["runs", "none yet"]


def test_the_version_is_the_package_s(home: Path) -> None:
    assert _plain(_sent(home, "--version")).strip() == importlib.metadata.version("curriculum")


def test_a_shell_gets_the_script_that_completes_commands(home: Path) -> None:
    words = {
        "_CURRICULUM_COMPLETE": "complete_bash",
        "COMP_WORDS": "curriculum lin",
        "COMP_CWORD": "1",
    }
    ended = on_terminal(
        (),
        {"CURRICULUM_HOME": str(home), **words},
        program=(str(Path(sys.executable).with_name("curriculum")),),
    )
    assert _plain(ended.sent).split() == ["lineage"]


def _plain(sent: str) -> str:
    return Text.from_ansi(sent).plain
