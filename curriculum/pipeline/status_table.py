"""Status of a workspace as a table: current/status.parquet, which SQL and the pages read."""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.pipeline.context import Resources
from curriculum.pipeline.status import PhaseStatus, StatusInputs
from curriculum.store import Store
from curriculum.store.inside import WORKSPACE_NAME
from curriculum.train.run_directory import replace_whole
from schemas import regular_files
from schemas.errors import CurriculumError
from schemas.phase_status import DIGEST, STATUS_NAME, STATUS_SCHEMA

FOLDER = "current"


def write_status(survey: StatusInputs, standings: Iterable[PhaseStatus]) -> None:
    """Write the standings of a survey to current/status.parquet, with its digest.

    catalog.sql is written anew where it doesn't read that file yet. Nothing is written into a folder that
    isn't a workspace.

    Raises:
        OSError: where the workspace can't be written.
    """
    store = survey.store
    folder = store.root / FOLDER
    if not (store.root / WORKSPACE_NAME).is_file():
        return
    table = _table(store, standings, survey.digest())
    folder.mkdir(exist_ok=True)
    replace_whole(folder / STATUS_NAME, functools.partial(pq.write_table, table))
    script = store.root / "catalog.sql"
    if regular_files.status(script) is None or STATUS_NAME not in script.read_text("utf-8"):
        # Most calls ask nothing of DuckDB.
        from curriculum import catalog

        catalog.publish(store.root)


def current_status(home: Path, resources: Resources) -> pa.Table | None:
    """Compute the status of a workspace, in memory; None where that in current/ has the digest of now.

    Raises:
        CurriculumError: for an artefact that isn't what its manifest says.
    """
    survey = StatusInputs.of(Store(home, dry=True), resources)
    digest = survey.digest()
    if digest == _written(home):
        return None
    return _table(survey.store, survey.phase_statuses(), digest)


def _written(home: Path) -> str:
    """The digest of the status that is written; empty where there is none that can be read."""
    try:
        said = parquet.read_schema(home / FOLDER / STATUS_NAME).metadata or {}
    except (OSError, CurriculumError, pa.ArrowException):
        return ""  # It is computed anew; the catalog names the fault.
    return said.get(DIGEST, b"").decode(errors="replace")


def _table(store: Store, standings: Iterable[PhaseStatus], digest: str) -> pa.Table:
    lines = [
        {
            "specialist": each.way[0],
            "branch": each.way[1],
            "phase": each.phase,
            "state": each.state,
            "why": each.why,
            "key": each.key or None,
            "attempt": None if each.attempt is None else str(each.attempt),
            "path": each.run.relative_to(store.root).as_posix() if each.run else None,
        }
        for each in standings
    ]
    # Arrow would import pandas for a list of values, where that is installed.
    table = pl.DataFrame(lines, schema=dict.fromkeys(STATUS_SCHEMA.names, pl.String)).to_arrow()
    return table.cast(STATUS_SCHEMA).replace_schema_metadata({DIGEST: digest})


def record_status(home: Path, resources: Resources, warn: Callable[[str], None]) -> None:
    """Write the status of a workspace; a failure is a warning, since no run is stopped by it."""
    try:
        survey = StatusInputs.of(Store(home, dry=True), resources)
        write_status(survey, survey.phase_statuses())
    except (CurriculumError, OSError) as failed:
        warn(f"the status of {home} isn't written: {failed}")
