"""The status of a workspace in SQL: what was written last, nothing before that, and no forged table."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.catalog import open_catalog, query
from curriculum.pipeline.context import Resources
from curriculum.pipeline.status import PhaseStatus, StatusInputs
from curriculum.pipeline.status_table import write_status
from curriculum.store import Store
from schemas.phase_status import STATUS_NAME, STATUS_SCHEMA
from schemas.specialist import SpecialistRef

LINES = [
    ("templates/demo", "syntax", "stale", "another share", "ab", 1, "runs/a"),
    ("templates/demo", "graph", "missing", "comes next", None, None, None),
]


def table(lines: Sequence[tuple[object, ...]]) -> pa.Table:
    named = [dict(zip(STATUS_SCHEMA.names, each, strict=True)) for each in lines]
    return pa.Table.from_pylist(named, schema=STATUS_SCHEMA)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace whose status was written."""
    store = Store(tmp_path / "home")
    store.open()
    (store.root / "current").mkdir()
    pq.write_table(table(LINES), store.root / "current" / STATUS_NAME)
    return store.root


def test_without_a_file_there_is_no_status(home: Path) -> None:
    (home / "current" / STATUS_NAME).unlink()
    assert query(home, "FROM status").rows == []
    assert query(home, "FROM problems").rows == []


def test_the_status_is_the_one_that_was_written_in_its_order(home: Path) -> None:
    asked = "SELECT specialist, phase, state, why FROM status"
    assert query(home, asked).rows == [line[:4] for line in LINES]


def test_a_status_that_is_given_replaces_the_written_one_for_one_connection(home: Path) -> None:
    given = table([("templates/demo", "syntax", "done", "10 steps", "cd", 2, "runs/b")])
    asked = "SELECT state FROM status"
    assert open_catalog(home, given).execute(asked).fetchall() == [("done",)]
    assert query(home, asked).rows == [("stale",), ("missing",)]


@pytest.mark.parametrize(
    "found",
    [
        table(LINES).drop_columns(["state"]),
        table(LINES).set_column(2, "state", pa.array([None, None], pa.string())),
        table(LINES).set_column(5, "attempt", pa.array(["first", "second"])),
        None,
    ],
    ids=["without a column", "without a value", "of another type", "no Parquet"],
)
def test_a_table_of_another_form_is_named_and_no_status(home: Path, found: pa.Table | None) -> None:
    file = home / "current" / STATUS_NAME
    if found is None:
        file.write_bytes(b"PAR1 it is not")
    else:
        pq.write_table(found, file)
    assert query(home, "FROM status").rows == []
    ((path, _),) = query(home, "FROM problems").rows
    assert path == f"current/{STATUS_NAME}"


def test_a_status_with_another_letter_is_named_and_no_status(home: Path) -> None:
    inputs = StatusInputs.read(Store(home, dry=True), Resources())
    ref = SpecialistRef("fmt", "ux")
    write_status(inputs, [PhaseStatus(ref=ref, phase="syntax", state="done", why="10 steps")])
    assert query(home, "SELECT why FROM status").rows == [("10 steps",)]
    file = home / "current" / STATUS_NAME
    content = file.read_bytes()
    file.write_bytes(content.replace(b"10 steps", b"90 steps", 1))
    assert query(home, "FROM status").rows == []
    ((path, _),) = query(home, "FROM problems").rows
    assert path == f"current/{STATUS_NAME}"
