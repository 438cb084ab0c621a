"""SQL of a catalog: sql/*.sql over the files of a snapshot.

It runs in this process or is written to catalog.sql. In these files, `$name` is a placeholder for a
relation: a table of the snapshot, or all data files of a kind. The rest is plain DuckDB SQL for DuckDB
versions 1.5 and 2.0.
"""

import functools
import itertools
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import duckdb
import pyarrow as pa

from curriculum.catalog.cache import Cache, digest_of
from curriculum.catalog.connections import connected
from curriculum.catalog.parquet_files import pattern, quoted
from curriculum.catalog.snapshot import KEPT, Snapshot, take
from curriculum.catalog.tables import OPEN_TABLES, STATUS_FILE
from curriculum.store.store import WORKSPACE_NAME
from schemas import regular_files
from schemas.stages import DATA_TABLES

FIRST = ("tables", "views", "names")
"""Files of sql/ that the other files depend on. The other files run after them, sorted by name."""
SCHEMAS: dict[str, pa.Schema] = {
    **KEPT,
    **OPEN_TABLES,
    **{kind.name: kind.schema for kind in DATA_TABLES},
}
_ROWS_AT_ONCE = 1 << 14
"""Number of a table's rows that are converted to Python values at a time."""
_RELATION = re.compile(r"\$([a-z_]+)")
_CACHED = "SET parquet_metadata_cache = true"
_SCHEMA = "CREATE SCHEMA internal"
_END = re.compile(r";[ \t]*(?:\n|$)")
_NAME = re.compile(r"^(CREATE|COMMENT ON) [A-Z ]+ (?:internal\.)?([a-z_]+)", re.MULTILINE)
_PUBLIC = re.compile(r"CREATE (?:VIEW|TABLE|MACRO) (\w+)(?:\(([^)]*)\))? AS")
_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_REMARK = re.compile(r"--[^\n]*")
_READ = re.compile(r"\b(?:FROM|JOIN) +\(?(?:main\.|internal\.)?([a-z_]+)|\b([a-z_]+)\(")
_ABOUT = frozenset({"show", "information_schema", "sqlite_master", "summarize", "pragma"})


def text_of(subject: str) -> str:
    """Return the text of sql/<subject>.sql."""
    file = resources.files("curriculum.catalog").joinpath("sql", f"{subject}.sql")
    return file.read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """Statement in a file of sql/, with the name of the object that it creates or comments on."""

    name: str
    text: str
    reads: frozenset[str]
    """Names that the statement reads from or calls, including DuckDB's own functions."""
    makes: bool
    """True for a CREATE statement, False for a COMMENT statement."""


@functools.cache
def statements() -> tuple[Statement, ...]:
    """Return all statements of sql/ in execution order.

    A statement ends with a semicolon at the end of a line.
    """
    names = {
        file.name.removesuffix(".sql")
        for file in resources.files("curriculum.catalog").joinpath("sql").iterdir()
        if file.name.endswith(".sql")
    }
    subjects = [*FIRST, *sorted(names - set(FIRST))]
    texts = itertools.chain(*(_END.split(text_of(subject)) for subject in subjects))
    return tuple(
        Statement(name=found[2], text=text.strip(), reads=_reads(text), makes=found[1] == "CREATE")
        for text in texts
        if (found := _NAME.search(text)) is not None
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    """View, table or macro of the catalog, and its description."""

    name: str
    meaning: str
    columns: tuple[str, ...]
    """Columns of a view, or parameters of a macro."""


@functools.cache
def macros() -> tuple[Relation, ...]:
    """Return the macros that queries may use, sorted by name. No database is opened."""
    meanings = {statement.name: statement.text for statement in statements() if not statement.makes}
    return tuple(
        Relation(
            name=match[1],
            meaning=_meaning(meanings.get(match[1], "")),
            columns=tuple(match[2].split(", ")) if match[2] else (),
        )
        for match in sorted(_public(), key=lambda found: found[1])
        if match[2] is not None
    )


@functools.cache
def view_names() -> frozenset[str]:
    """Return the names of the views and tables that queries may use. No database is opened."""
    return frozenset(match[1] for match in _public() if match[2] is None)


def _public() -> Iterator[re.Match[str]]:
    """Yield a match for each statement that creates a view, table or macro that queries may use."""
    found = (_PUBLIC.match(_REMARK.sub("", statement.text).strip()) for statement in statements())
    return (match for match in found if match)


def _meaning(comment: str) -> str:
    r"""Return the text of a COMMENT statement.

    >>> _meaning("COMMENT ON MACRO TABLE a IS\n    'what isn''t b'")
    "what isn't b"
    """
    return comment.partition(" IS")[2].strip()[1:-1].replace("''", "'")


def needed(asked: str) -> list[Statement]:
    """Return the statements that a query needs: for the relations that it mentions, and for their sources.

    Any word in the query that equals the name of a relation counts, which costs little. A query about the
    catalog itself needs all statements.
    """
    words = frozenset(_WORD.findall(asked.lower()))
    if any(word in _ABOUT or word.startswith(("duckdb_", "pragma_")) for word in words):
        return [*statements()]
    open_ends, wanted = words, set[str]()
    while open_ends:
        wanted |= open_ends
        read = (
            statement.reads
            for statement in statements()
            if statement.makes and statement.name in open_ends
        )
        open_ends = frozenset().union(*read) - wanted
    return [statement for statement in statements() if statement.name in wanted and statement.makes]


def data_read(asked: str) -> frozenset[str]:
    """Return the kinds of data that the views and macros in a query read.

    Empty for a query about the catalog.
    """
    read = needed(asked)
    if len(read) == len(statements()):
        return frozenset()
    found = itertools.chain(*(_RELATION.findall(statement.text) for statement in read))
    return frozenset(found) & {table.name for table in DATA_TABLES}


def _reads(text: str) -> frozenset[str]:
    """Return the relations and functions that a statement of sql/ uses.

    >>> sorted(_reads("CREATE VIEW a AS SELECT lineage FROM main.b JOIN c USING (file) -- FROM d"))
    ['b', 'c']
    """
    return frozenset(
        read or called for read, called in _READ.findall(_REMARK.sub("", text)) if read or called
    )


def script(
    snapshot: Snapshot, *, root: str, memory: Mapping[str, str], asked: str | None = None
) -> str:
    """Return the SQL that creates all views and macros over the files of a snapshot.

    All paths in the SQL begin with `root`, which may be empty. `memory` maps each in-memory table to the
    relation that it is read from. If a query `asked` is given, only the statements that it needs are
    returned. Otherwise, DuckDB also caches Parquet metadata for later queries.
    """
    settings = (_CACHED, _SCHEMA) if asked is None else (_SCHEMA,)
    wanted = statements() if asked is None else needed(asked)
    texts = [statement.text for statement in wanted]
    relations = {
        name: memory[name] if name in memory else _relation(snapshot, name, root)
        for name in {name for text in texts for name in _RELATION.findall(text)}
    }
    texts = [_RELATION.sub(lambda found: relations[found[1]], text) for text in texts]
    return "".join(f"{text};\n\n" for text in (*settings, *texts))


def _relation(snapshot: Snapshot, name: str, root: str) -> str:
    """Return the SQL that reads a table or all data files of a kind.

    If there are no files, it returns no rows.
    """
    if name in snapshot.kept:
        return f"read_parquet({quoted(pattern(root + snapshot.kept[name]))})"
    columns = [(field.name, sql_type(field.type)) for field in SCHEMAS[name]]
    files = snapshot.files.get(name)
    if not files:
        own = [("file", "VARCHAR")] if name in snapshot.files else []
        listed = ", ".join(f'NULL::{kind} AS "{column}"' for column, kind in [*columns, *own])
        return f"(SELECT {listed} WHERE false)"
    paths = ",\n".join(quoted(pattern(root + file)) for file in files)
    # With an explicit schema, columns that an older file lacks are null, and DuckDB opens no other file.
    listed = ", ".join(
        f"{quoted(column)}: {{'name': {quoted(column)}, 'type': {quoted(kind)}, 'default_value': NULL}}"
        for column, kind in columns
    )
    read = f"read_parquet([{paths}], filename = 'file', schema = MAP {{{listed}}})"
    return f"(SELECT * REPLACE (substr(file, {len(root) + 1}) AS file) FROM {read})"


def sql_type(kind: pa.DataType) -> str:
    """Return an Arrow type in DuckDB's syntax.

    >>> sql_type(pa.list_(pa.struct([("at", pa.int32()), ("what", pa.string())])))
    'STRUCT("at" INTEGER, "what" VARCHAR)[]'
    """
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        listed = ", ".join(f'"{field.name}" {sql_type(field.type)}' for field in fields)
        return f"STRUCT({listed})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    return _PLAIN[str(kind)]


_PLAIN = {
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "bool": "BOOLEAN",
    "uint8": "UTINYINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint64": "UBIGINT",
    "float": "REAL",
    "double": "DOUBLE",
}


SCRIPT_NAME = "catalog.sql"
_HEAD = """\
-- The views of this workspace, for any DuckDB client (1.5 or newer), from within its folder:
--     duckdb -init catalog.sql
-- Written anew whenever something is published; what it reads lies beside it, by relative paths.

"""


def connect(snapshot: Snapshot, asked: str | None = None) -> duckdb.DuckDBPyConnection:
    """Return an in-memory DuckDB with the views of a snapshot.

    With a query `asked`, only its views are created.
    """
    connection = connected(may_spill=True)
    memory = {name: f'"incoming {name}"' for name, table in snapshot.tables.items() if len(table)}
    text = script(snapshot, root=f"{snapshot.home}/", memory=memory, asked=asked)
    incoming = {name: held for name, held in memory.items() if held in text}
    for name, held in incoming.items():
        _copy_table(connection, held, snapshot.tables[name])
    connection.execute(text)
    for held in incoming.values():
        connection.execute(f"DROP TABLE {held}")
    return connection


def _copy_table(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Copy the values of an Arrow table into a temporary DuckDB table.

    Registering the table instead would import pandas, if it is installed, which takes half a second.
    """
    kinds = [(f'"{field.name}"', sql_type(field.type)) for field in table.schema]
    connection.execute(f"CREATE TEMP TABLE {name} ({', '.join(map(' '.join, kinds))})")
    filled = ", ".join(f"unnest(?::{kind}[])" for _, kind in kinds)
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        values = [column.to_pylist() for column in batch.columns]
        connection.execute(f"INSERT INTO {name} SELECT {filled}", values)


def publish(home: Path, snapshot: Snapshot | None = None) -> Path | None:
    """Write catalog.sql and the Parquet files that it reads for `snapshot`, or for a new snapshot.

    Return the path of catalog.sql, or None if the workspace can't be written (read-only or full).
    """
    snapshot = snapshot or take(home, verified=False)
    home, cache = snapshot.home, Cache(home=snapshot.home)
    if not snapshot.kept or not (home / WORKSPACE_NAME).is_file():
        return None
    memory: dict[str, str] = {}
    for name, table in snapshot.tables.items():
        if not len(table):
            continue
        # The status already is a file of the workspace, and catalog.sql should read the newest version.
        path = STATUS_FILE
        if name != "status":
            alone = {name: table}
            group = digest_of(alone)
            if not (cache.holds(group, alone) or cache.keep(group, alone)):
                return None
            path = cache.path(group, name)
        memory[name] = f"read_parquet({quoted(pattern(path))})"
    text = _HEAD + script(snapshot, root="", memory=memory)
    return _write_script(home / SCRIPT_NAME, text.encode())


def relations(connection: duckdb.DuckDBPyConnection) -> list[Relation]:
    """Return the views and tables of a catalog with their columns, sorted by name."""
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


def _write_script(file: Path, text: bytes) -> Path | None:
    """Write catalog.sql, replacing a symbolic link by a file. Return None if it can't be written."""
    try:
        if regular_files.read(file, most=len(text)) == text:
            return file
    except OSError:
        pass  # The file is missing or isn't a regular file; the rename below replaces it.
    draft = file.with_name(f".{SCRIPT_NAME}.{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as opened:
            opened.write(text)
        draft.replace(file)
    except OSError:
        return None
    finally:
        draft.unlink(missing_ok=True)
    return file
