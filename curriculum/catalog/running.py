"""Runs that aren't closed: as far as their heartbeats and metrics say, read anew each time."""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from curriculum.catalog import bounded
from curriculum.catalog.bounded import MOST_BYTES
from curriculum.catalog.sql_text import CatalogError
from curriculum.catalog.tables import HEARTBEAT_NAME, OPEN_TABLES, Line, open_run
from curriculum.store.inside import PlainFolders
from schemas import regular_files
from schemas.errors import StoreError
from schemas.job import METRICS_SCHEMA, Heartbeat, RunState
from schemas.json_text import seconds_from

STATE_NAME, METRICS_NAME = "state.json", "metrics"
SILENT_SECONDS = 600
"""After which the run of another machine isn't believed to go on."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """The open runs as tables, and why something of them can't be read."""

    tables: dict[str, pa.Table]
    problems: list[tuple[str, str]]
    """Paths, each with the reason."""


def open_tables(home: Path, paths: Sequence[str]) -> Running:
    """The tables of the open runs at these paths; what a trainer removes meanwhile is left out.

    Metrics beyond MOST_BYTES of all open runs together are left out, and a problem names the file.
    """
    lines: list[Line] = []
    problems: list[tuple[str, str]] = []
    metrics = [OPEN_TABLES["open_metrics"].empty_table()]
    room = MOST_BYTES
    for path in paths:
        line = open_run(home / path, path, state="running" if _runs(home / path) else "interrupted")
        if line is None:
            continue
        lines.append(line)
        for file in _metrics_files(home, path):
            try:
                metrics.append(_metrics(home / file, path, room))
            except CatalogError as refused:
                problems.append((file, f"{refused.cause}: its lines are left out"))
            except (OSError, pa.ArrowException):
                continue  # Its run is open: the trainer may be at it, or start again before it.
            room -= metrics[-1].nbytes
    runs = pa.Table.from_pylist(lines, schema=OPEN_TABLES["open_runs"])
    tables = {"open_runs": runs, "open_metrics": pa.concat_tables(metrics)}
    return Running(tables=tables, problems=problems)


def _metrics_files(home: Path, path: str) -> Iterator[str]:
    inside = PlainFolders(home)
    for file in sorted((home / path / METRICS_NAME).glob("[0-9]*.parquet")):
        name = f"{path}/{METRICS_NAME}/{file.name}"
        with contextlib.suppress(OSError, StoreError):
            inside.status(name)
            yield name


def _metrics(file: Path, path: str, most: int) -> pa.Table:
    there = bounded.read(file, most=most)
    columns = [
        there[field.name].cast(field.type)
        if field.name in there.column_names
        else pa.nulls(len(there), field.type)
        for field in METRICS_SCHEMA
    ]
    columns.append(pa.repeat(path, len(there)))
    return pa.table(columns, schema=OPEN_TABLES["open_metrics"])


def _runs(run: Path) -> bool:
    """Return True while a process trains it: looked up on its machine, on others by its last beat."""
    try:
        owner = RunState.model_validate_json(regular_files.read(run / STATE_NAME))
    except (OSError, ValidationError):
        return False
    if owner.host == socket.gethostname() and _BOOT.is_file():
        return owner.boot_id == _BOOT.read_text().strip() and Path(f"/proc/{owner.pid}").is_dir()
    try:
        beat = Heartbeat.model_validate_json(regular_files.read(run / HEARTBEAT_NAME)).at
    except (OSError, ValidationError):
        beat = owner.at  # Its first step isn't done yet.
    return seconds_from(max(beat, owner.at)) < SILENT_SECONDS
