"""Tables of the catalog that are read anew each time: open runs, closed gates, status, diets."""

import contextlib
import hashlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from curriculum import parquet
from curriculum.catalog import bounded
from curriculum.catalog.bounded import MOST_BYTES
from curriculum.catalog.cache import Cache
from curriculum.catalog.sql_text import CatalogError
from curriculum.catalog.tables import HEARTBEAT_NAME, OPEN_TABLES, Line, open_run
from curriculum.mixing.load import config_files, diet_names, load_diet
from curriculum.mixing.resolve import ANNEAL
from curriculum.store.inside import PlainFolders
from schemas import regular_files
from schemas.errors import CurriculumError, StoreError
from schemas.job import METRICS_SCHEMA, Heartbeat, RunState
from schemas.json_text import seconds_from
from schemas.phase_status import STATUS_NAME, STATUS_SCHEMA, ClosedGate

GATES_FOLDER = "gates"


def closed_gates(home: Path) -> dict[str, pa.Table]:
    """The table of the gates that are closed; what goes while it is read is left out."""
    lines: list[Line] = []
    folder = home / GATES_FOLDER
    for file in () if folder.is_symlink() else sorted(folder.glob("*.json")):
        try:
            lines.append(ClosedGate.model_validate_json(regular_files.read(file)).model_dump())
        except (OSError, ValidationError):
            continue  # Somebody approves just now, or another version wrote it: the next walk does.
    return {"closed_gates": pa.Table.from_pylist(lines, schema=OPEN_TABLES["closed_gates"])}


STATUS_FILE = f"current/{STATUS_NAME}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """The status of a workspace as it was computed last, and why it can't be read."""

    table: pa.Table
    problems: list[tuple[str, str]]
    """The path with the reason."""


def written_status(home: Path) -> Status:
    """Read the status of a workspace: no line where none was computed yet."""
    empty = STATUS_SCHEMA.empty_table()
    try:
        PlainFolders(home).status(STATUS_FILE)
        table = parquet.read_table(home / STATUS_FILE, columns=STATUS_SCHEMA.names)
        return Status(table=table.select(STATUS_SCHEMA.names).cast(STATUS_SCHEMA), problems=[])
    except FileNotFoundError:
        return Status(table=empty, problems=[])
    except (OSError, StoreError, KeyError, ValueError, pa.ArrowException) as refused:
        return Status(table=empty, problems=[(STATUS_FILE, str(refused).partition("\n")[0])])


def diets(home: Path, cache: Cache) -> dict[str, pa.Table]:
    """The table of the phases of each diet that can be run in the workspace `home`.

    It is kept under a digest of the diets' text, since parsing YAML takes longer than most questions. A
    diet with a fault has no line: `curriculum diet check` reports it.
    """
    schemas = {"diets": OPEN_TABLES["diets"]}
    digest = hashlib.sha256(str(schemas).encode())
    for file in config_files(home):
        text = file.read_bytes()
        digest.update(f"{file}\0{len(text)}\0".encode() + text)
    group = digest.hexdigest()[:12]
    kept = cache.tables(group, schemas)
    if kept is None:
        kept = {"diets": pa.Table.from_pylist([*_lines(home)], schema=schemas["diets"])}
        cache.keep(group, kept)
    return kept


def _lines(home: Path) -> Iterator[Line]:
    for name in diet_names(home):
        try:
            diet = load_diet(name, home=home)
        except CurriculumError:
            continue
        phases = [each.phase for each in diet.phases] + [ANNEAL] * (diet.anneal is not None)
        for phase in phases:
            yield {"specialist": diet.specialist, "branch": diet.branch, "phase": phase}


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
