"""One status: the command, the report, the overview and SQL agree, after edits of a diet too."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from curriculum.pipeline.context import Resources
from dashboards import overview_panels
from dashboards.questions import question
from tests.curriculum.pipeline.tiny_diet import edit
from tests.flows.cli_runner import curriculum

pytestmark = pytest.mark.system

STATE = re.compile(r'<tr data-phase="([^"]*)">.*?<span class="state is-([a-z]+)', re.DOTALL)
Answer = dict[str, str]
"""States by phase."""


@pytest.fixture
def home(trained_tiny: Path, tmp_path: Path) -> Path:
    """A copy of the trained workspace, to edit."""
    return Path(shutil.copytree(trained_tiny, tmp_path / "home"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """Words of a file that are replaced, and the states that follow."""

    file: str = "diets/tiny.yaml"
    before: str
    after: str
    states: Answer


EDITS = {
    "nothing": Edit(
        before="vocab_size: 400",
        after="vocab_size: 400",
        states={"syntax": "done", "file_graph": "missing"},
    ),
    "shares": Edit(
        before="share: 0.6}, {family: v3_simple, share: 0.4}",
        after="share: 0.5}, {family: v3_simple, share: 0.5}",
        states={"syntax": "stale", "file_graph": "waiting"},
    ),
    "a gate": Edit(
        before="max_repetition: 100\n  - phase: file_graph",
        after="max_repetition: 100\n    require: [approval]\n  - phase: file_graph",
        states={"syntax": "stale", "file_graph": "waiting"},
    ),
    "the corpus": Edit(
        file="corpora/small.yaml",
        before="val_fraction: 0.3",
        after="val_fraction: 0.2",
        states={"syntax": "stale", "file_graph": "waiting"},
    ),
}


def of_command(home: Path) -> Answer:
    done = curriculum("status", "--json", home=home)
    assert done.returncode == 0, done.stderr
    return {each["phase"]: each["state"] for each in json.loads(done.stdout)["phases"]}


def of_report(home: Path) -> Answer:
    done = curriculum("report", "tiny", home=home)
    assert done.returncode == 0, done.stderr
    return dict(STATE.findall((home / "reports" / "tiny.html").read_text()))


def of_overview(home: Path) -> Answer:
    snapshot, old = overview_panels.snapshot(home, Resources())
    assert old == ""
    found = snapshot.ask(question("panels/standing"), overview_panels.PhaseLine)
    return {each.phase: each.state for each in found}


def of_sql(home: Path) -> Answer:
    asked = "SELECT phase, state FROM status"
    done = curriculum("query", asked, "--format", "jsonl", home=home)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    return {each["phase"]: each["state"] for each in lines}


def stale(home: Path) -> set[str]:
    done = curriculum(
        "query", "SELECT phase FROM status WHERE state = 'stale'", "--format", "jsonl", home=home
    )
    return {json.loads(line)["phase"] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("name", EDITS)
def test_all_that_show_a_status_show_the_same_after_an_edit(home: Path, name: str) -> None:
    edit = EDITS[name]
    file = home / edit.file
    text = file.read_text()
    assert edit.before in text
    file.write_text(text.replace(edit.before, edit.after))
    # The overview first: the file of the last run is there, and old.
    assert of_overview(home) == edit.states
    assert of_report(home) == edit.states
    assert of_sql(home) == edit.states
    assert of_command(home) == edit.states
    assert stale(home) == {phase for phase, state in edit.states.items() if state == "stale"}


def test_a_run_leaves_the_status_that_the_overview_takes_as_it_is(
    trained_tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "curriculum.pipeline.status.StatusInputs.phase_statuses", lambda _: iter([])
    )
    assert of_overview(trained_tiny) == EDITS["nothing"].states


def test_looking_at_the_overview_writes_no_status(home: Path) -> None:
    file = home / "current" / "status.parquet"
    edit(home, "diets/tiny.yaml", "token_budget: 4K", "token_budget: 5K")
    before = file.read_bytes()
    assert of_overview(home)["syntax"] == "stale"
    assert file.read_bytes() == before
