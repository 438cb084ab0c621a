"""Tables of the catalog that are read anew each time: closed gates, the status of phases, diets."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from curriculum import parquet
from curriculum.catalog.cache import Cache
from curriculum.catalog.tables import OPEN_TABLES, Line
from curriculum.mixing.load import config_files, diet_names, load_diet
from curriculum.mixing.resolve import ANNEAL
from curriculum.store.inside import PlainFolders
from schemas import regular_files
from schemas.errors import CurriculumError, StoreError
from schemas.phase_status import STATUS_NAME, STATUS_SCHEMA, ClosedGate

FOLDER = "gates"


def closed_gates(home: Path) -> dict[str, pa.Table]:
    """The table of the gates that are closed; what goes while it is read is left out."""
    lines: list[Line] = []
    folder = home / FOLDER
    for file in () if folder.is_symlink() else sorted(folder.glob("*.json")):
        try:
            lines.append(ClosedGate.model_validate_json(regular_files.read(file)).model_dump())
        except (OSError, ValidationError):
            continue  # Somebody approves just now, or another version wrote it: the next walk does.
    return {"closed_gates": pa.Table.from_pylist(lines, schema=OPEN_TABLES["closed_gates"])}


FILE = f"current/{STATUS_NAME}"


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
        PlainFolders(home).status(FILE)
        table = parquet.read_table(home / FILE, columns=STATUS_SCHEMA.names)
        return Status(table=table.select(STATUS_SCHEMA.names).cast(STATUS_SCHEMA), problems=[])
    except FileNotFoundError:
        return Status(table=empty, problems=[])
    except (OSError, StoreError, KeyError, ValueError, pa.ArrowException) as refused:
        return Status(table=empty, problems=[(FILE, str(refused).partition("\n")[0])])


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
