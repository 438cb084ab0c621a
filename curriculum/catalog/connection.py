"""A DuckDB with the views of a workspace: in this process, or as a script for any other client."""

import uuid
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from curriculum.catalog.cache import Cache, digest_of
from curriculum.catalog.open_tables import STATUS_FILE
from curriculum.catalog.snapshot import Snapshot, take
from curriculum.catalog.sql_text import pattern, quoted
from curriculum.catalog.views import script
from curriculum.store.store import WORKSPACE_NAME
from schemas import regular_files

SCRIPT_NAME = "catalog.sql"
_HEAD = """\
-- The views of this workspace, for any DuckDB client (1.5 or newer), from within its folder:
--     duckdb -init catalog.sql
-- Written anew whenever something is published; what it reads lies beside it, by relative paths.

"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    """A view, table or macro of the catalog, and what it means."""

    name: str
    meaning: str
    columns: tuple[str, ...]
    """Columns of a view, or parameters of a macro."""


def connect(
    home: Path, asked: str | None = None, computed: pa.Table | None = None
) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with the views of a workspace; catalog.sql is written where it isn't current.

    With a question that is `asked` it has only what that question names. A status that was `computed` since
    replaces the one that is written; catalog.sql isn't changed by it.
    """
    snapshot = take(home, computed)
    if computed is None:
        _publish(snapshot)
    connection = duckdb.connect()
    for name, table in snapshot.tables.items():
        connection.register(_incoming(name), table)
    memory = {name: f'"{_incoming(name)}"' for name in snapshot.tables}
    connection.execute(script(snapshot, root=f"{snapshot.home}/", memory=memory, asked=asked))
    for name in snapshot.tables:
        connection.unregister(_incoming(name))
    return connection


def publish(home: Path) -> Path | None:
    """Write catalog.sql and what it reads; its path, or None where the workspace can't be written."""
    return _publish(take(home))


def relations(connection: duckdb.DuckDBPyConnection) -> list[Relation]:
    """The views and tables of a catalog in name order, with the columns that they have."""
    found = connection.execute("""
        WITH named AS (
            SELECT view_name AS name, comment FROM duckdb_views()
            WHERE schema_name = 'main' AND NOT internal
            UNION ALL SELECT table_name, comment FROM duckdb_tables() WHERE schema_name = 'main'
        )
        SELECT n.name, n.comment, list(c.column_name ORDER BY c.column_index)
        FROM named n JOIN duckdb_columns() c ON c.table_name = n.name AND c.schema_name = 'main'
        GROUP BY ALL ORDER BY n.name
    """).fetchall()
    return [
        Relation(name=name, meaning=meaning or "", columns=tuple(columns))
        for name, meaning, columns in found
    ]


def macros(connection: duckdb.DuckDBPyConnection) -> list[Relation]:
    """The macros of a catalog in name order, with their parameters."""
    found = connection.execute("""
        SELECT function_name, any_value(comment), any_value(parameters) FROM duckdb_functions()
        WHERE schema_name = 'main' AND NOT internal AND function_type IN ('macro', 'table_macro')
        GROUP BY ALL ORDER BY ALL
    """).fetchall()
    return [
        Relation(name=name, meaning=meaning or "", columns=tuple(parameters))
        for name, meaning, parameters in found
    ]


def _incoming(name: str) -> str:
    return f"incoming {name}"


def _publish(snapshot: Snapshot) -> Path | None:
    """Let catalog.sql be what the snapshot says; nothing where the workspace can't be written."""
    home = snapshot.home
    if not snapshot.kept or not (home / WORKSPACE_NAME).is_file():
        return None
    passing = [(name, table) for name, table in snapshot.tables.items() if len(table)]
    # The status is a file of the workspace already; catalog.sql reads the newest.
    places = {
        name: STATUS_FILE if name == "status" else _cache_table(Cache(home=home), name, table)
        for name, table in passing
    }
    if not all(places.values()):
        return None  # Read-only, or full: who asks in this process has the answer all the same.
    memory = {name: f"read_parquet({quoted(pattern(path))})" for name, path in places.items()}
    text = _HEAD + script(snapshot, root="", memory=memory)
    return home / SCRIPT_NAME if _written(home, text.encode()) else None


def _cache_table(cache: Cache, name: str, table: pa.Table) -> str:
    """Keep a table by its content; its path relative to the workspace, empty where that can't be."""
    alone = {name: table}
    group = digest_of(alone)
    stands = cache.stands(group, alone) or cache.keep(group, alone)
    return cache.path(group, name) if stands else ""


def _written(home: Path, text: bytes) -> bool:
    """Let catalog.sql hold a text; False where that can't be. A link in its place is replaced."""
    file = home / SCRIPT_NAME
    try:
        if regular_files.read(file, most=len(text)) == text:
            return True
    except OSError:
        pass  # It isn't there, or something else is in its place, which the rename replaces.
    draft = file.with_name(f".{SCRIPT_NAME}.{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as opened:
            opened.write(text)
        draft.replace(file)
    except OSError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
