"""A specialist's branch has one spelling that is shown, and each spelling is accepted by every command."""

import json
from pathlib import Path

import pytest

from curriculum.catalog import query
from curriculum.pipeline.context import Resources
from dashboards import overview_panels
from dashboards.questions import question
from tests.curriculum.pipeline.tiny_diet import write_tiny_diet
from tests.flows.cli_runner import curriculum

pytestmark = pytest.mark.system

SHOWN = "tiny/ux"
SPELLINGS = (SHOWN, "tiny.ux")
TAKES_A_WAY = (
    "build {} --phase syntax --dry-run",
    "mix {} --phase syntax --dry-run",
    "train {} --phase syntax --dry-run",
    "run {} --phase syntax --dry-run",
    "run {} --explain",
    "report {}",
    "approve {} syntax",
    "compare {} {}",
    "generate {} --prompt int --tokens 1",
    "export {} --to TO",
)
TAKES_A_PHASE = (
    "inspect {}/syntax",
    "compare {}/syntax {}/syntax",
    "diff {}/syntax {}/syntax",
    "lineage {}/syntax --step 1",
    "generate {}/syntax --prompt int --tokens 1",
    "export {}/syntax --to TO",
    "export {}/syntax --format flat --to TO",
    "leakcheck {}/syntax",
    "run tiny --branch ux --continue {}/syntax --token-budget 8K --dry-run",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which one phase of a branch without a diet of its own is trained."""
    home = tmp_path_factory.mktemp("names") / "home"
    write_tiny_diet(home)
    words = ("tiny", "--branch", "ux", "--phase", "syntax", "--workers", "1")
    done = curriculum("train", *words, home=home)
    assert done.returncode == 0, done.stdout + done.stderr
    return home


@pytest.mark.parametrize("command", [*TAKES_A_WAY, *TAKES_A_PHASE])
@pytest.mark.parametrize("name", SPELLINGS)
def test_every_command_accepts_each_spelling(
    home: Path, tmp_path: Path, command: str, name: str
) -> None:
    words = command.replace("{}", name).replace("TO", str(tmp_path / "to")).split()
    done = curriculum(*words, home=home)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SPELLINGS)
def test_sql_accepts_each_spelling(home: Path, name: str) -> None:
    assert query(home, f"FROM consumed('{name}/syntax', 1)").rows


def test_one_spelling_is_shown(home: Path) -> None:
    assert SHOWN in curriculum("status", home=home).stdout
    assert f"{SHOWN}/syntax" in curriculum("inspect", "tiny", home=home).stdout
    assert SHOWN in curriculum("compare", "tiny/ux", "tiny.ux", home=home).stdout
    snapshot, _ = overview_panels.snapshot(home, Resources())
    assert SHOWN in overview_panels.specialists(snapshot)
    (line,) = snapshot.ask(question("panels/standing"), overview_panels.PhaseLine)[:1]
    assert line.specialist == SHOWN
    wrong = curriculum("lineage", "no such", "--step", "1", home=home)
    assert f"{SHOWN}/syntax" in wrong.stderr
    assert (
        json.loads(curriculum("status", "--json", home=home).stdout)["phases"][0]["specialist"]
        == SHOWN
    )
