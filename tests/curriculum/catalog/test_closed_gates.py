"""A closed gate is there as long as its file is and the run behind it is in use."""

from pathlib import Path

import pytest

from curriculum.catalog import query
from curriculum.store import Artefact, Recipe, Store
from schemas.phase_status import ClosedGate
from tests.flows.stand_ins import report

ASKED = "SELECT specialist, phase, kind, why, cure, run FROM gates"


def _run(home: Path, revision: int = 1) -> Artefact:
    """A run that is in use."""
    store = Store(home)
    recipe = Recipe(
        stage="runs",
        labels=(("specialist", "templates"), ("branch", "demo"), ("phase", "syntax")),
        revision=revision,
    )

    def make(drafts: object) -> None:
        for draft in drafts:  # type: ignore[attr-defined]
            (draft.path / "report.json").write_text(report().model_dump_json())
            draft.report.update(report().model_dump(mode="json"))
            (draft.path / "weights").write_text(f"{revision}")

    (made,) = store.produce([recipe], make)
    store.mark("runs+templates@demo+syntax", [made])
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace."""
    return tmp_path / "home"


def _close(home: Path, run: Artefact, content: str | None = None) -> Path:
    said = ClosedGate(
        kind="waits",
        run=run.path.relative_to(home).as_posix(),
        content=content or run.content,
        specialist="templates",
        branch="demo",
        phase="syntax",
        why="trained",
        cure="curriculum approve templates.demo syntax",
    )
    file = home / "gates" / f"{run.key[:12]}-1.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(said.model_dump_json())
    return file


def test_a_gate_that_is_closed_says_why_and_what_helps(home: Path) -> None:
    run = _run(home)
    assert query(home, ASKED).rows == []
    file = _close(home, run)
    place = run.path.relative_to(home).as_posix()
    assert query(home, ASKED).rows == [
        (
            *("templates/demo", "syntax", "waits", "trained"),
            *("curriculum approve templates.demo syntax", place),
        )
    ]
    file.unlink()
    assert query(home, ASKED).rows == [], "nothing is kept of a gate that was opened"


def test_a_gate_behind_a_run_that_another_took_the_place_of_is_no_matter(home: Path) -> None:
    _close(home, _run(home))
    assert len(query(home, ASKED).rows) == 1
    _run(home, revision=2)
    assert query(home, ASKED).rows == []


def test_a_gate_is_closed_behind_its_weights_only(home: Path) -> None:
    _close(home, _run(home), content="of other weights")
    assert query(home, ASKED).rows == []


def test_a_file_that_is_half_written_takes_no_answer_away(home: Path) -> None:
    run = _run(home)
    _close(home, run)
    (home / "gates" / "0123456789ab-1.json").write_text('{"kind": "wai')
    assert len(query(home, ASKED).rows) == 1
