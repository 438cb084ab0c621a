"""Runs that aren't closed: as far as their heartbeats and metrics say, read anew each time."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from curriculum.catalog.tables import HEARTBEAT_NAME, OPEN_TABLES, Line, open_run
from schemas.job import METRICS_SCHEMA, Heartbeat, RunState
from schemas.moment import seconds_from

STATE_NAME, METRICS_NAME = "state.json", "metrics"
SILENT_SECONDS = 600
"""After which the run of another machine isn't believed to go on."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def open_tables(home: Path, paths: Sequence[str]) -> dict[str, pa.Table]:
    """The tables of the open runs at these paths; what a trainer removes meanwhile is left out."""
    lines: list[Line] = []
    metrics = [OPEN_TABLES["open_metrics"].empty_table()]
    for path in paths:
        line = open_run(home / path, path, state="running" if _runs(home / path) else "interrupted")
        if line is not None:
            lines.append(line)
            metrics += _metrics(home / path, path)
    runs = pa.Table.from_pylist(lines, schema=OPEN_TABLES["open_runs"])
    return {"open_runs": runs, "open_metrics": pa.concat_tables(metrics)}


def _metrics(run: Path, path: str) -> list[pa.Table]:
    tables = []
    for file in sorted((run / METRICS_NAME).glob("[0-9]*.parquet")):
        try:
            there = pq.read_table(file)
        except (OSError, pa.ArrowException):
            continue  # Its run is open: the trainer may be at it, or start again before it.
        columns = [
            there[field.name].cast(field.type)
            if field.name in there.column_names
            else pa.nulls(len(there), field.type)
            for field in METRICS_SCHEMA
        ]
        columns.append(pa.repeat(path, len(there)))
        tables.append(pa.table(columns, schema=OPEN_TABLES["open_metrics"]))
    return tables


def _runs(run: Path) -> bool:
    """Return True while a process trains it: looked up on its machine, on others by its last beat."""
    try:
        owner = RunState.model_validate_json((run / STATE_NAME).read_bytes())
    except (OSError, ValidationError):
        return False
    if owner.host == socket.gethostname() and _BOOT.is_file():
        return owner.boot_id == _BOOT.read_text().strip() and Path(f"/proc/{owner.pid}").is_dir()
    try:
        beat = Heartbeat.model_validate_json((run / HEARTBEAT_NAME).read_text()).at
    except (OSError, ValidationError):
        beat = owner.at  # Its first step isn't done yet.
    return seconds_from(max(beat, owner.at)) < SILENT_SECONDS
