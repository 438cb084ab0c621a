"""Status of each phase, from current/status.parquet: written whenever it is computed, read anew each time."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from curriculum import parquet
from curriculum.store.inside import Inside
from schemas.errors import StoreError
from schemas.status import STATUS_NAME, STATUS_SCHEMA

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
        Inside(home).status(FILE)
        table = parquet.read_table(home / FILE, columns=STATUS_SCHEMA.names)
        return Status(table=table.select(STATUS_SCHEMA.names).cast(STATUS_SCHEMA), problems=[])
    except FileNotFoundError:
        return Status(table=empty, problems=[])
    except (OSError, StoreError, KeyError, ValueError, pa.ArrowException) as refused:
        return Status(table=empty, problems=[(FILE, str(refused).partition("\n")[0])])
