"""The SQL of a catalog: views and macros as they stand in sql/*.sql, over the files of a snapshot.

`$name` in those files is a relation: a table of the snapshot, or all data files of a kind. Everything
else is plain DuckDB SQL, of forms that versions 1.5 and 2.0 both have.
"""

import functools
import itertools
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath

import duckdb
import pyarrow as pa

from curriculum.catalog.cache import Cache, digest_of
from curriculum.catalog.parquet_files import pattern, quoted
from curriculum.catalog.snapshot import KEPT, Snapshot, take
from curriculum.catalog.tables import OPEN_TABLES, STATUS_FILE
from curriculum.store.store import WORKSPACE_NAME
from schemas import regular_files
from schemas.stages import DATA_TABLES

FIRST = ("tables", "places", "views", "names")
"""Subjects that others build on; the rest follow by name."""
SCHEMAS: dict[str, pa.Schema] = {
    **KEPT,
    **OPEN_TABLES,
    **{kind.name: kind.schema for kind in DATA_TABLES},
}
_DATA = frozenset(kind.name for kind in DATA_TABLES)
_RELATION = re.compile(r"\$([a-z_]+)")
_CACHED = "SET parquet_metadata_cache = true"
_SCHEMA = "CREATE SCHEMA internal"
_END = re.compile(r";[ \t]*(?:\n|$)")
_NAME = re.compile(r"^(CREATE|COMMENT ON) [A-Z ]+ (?:internal\.)?([a-z_]+)", re.MULTILINE)
_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_REMARK = re.compile(r"--[^\n]*")
_READ = re.compile(r"\b(?:FROM|JOIN) +\(?(?:main\.|internal\.)?([a-z_]+)|\b([a-z_]+)\(")
_ABOUT = frozenset({"show", "information_schema", "sqlite_master", "summarize", "pragma"})


def subjects() -> list[str]:
    """The names of the files in sql/, in the order in which they are run."""
    names = [
        PurePosixPath(file.name).stem
        for file in resources.files("curriculum.catalog").joinpath("sql").iterdir()
        if file.name.endswith(".sql")
    ]
    return [*FIRST, *sorted(set(names) - set(FIRST))]


def text_of(subject: str) -> str:
    """A file of sql/, as it stands."""
    file = resources.files("curriculum.catalog").joinpath("sql", f"{subject}.sql")
    return file.read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One statement of sql/: what it makes or tells of."""

    name: str
    text: str
    reads: frozenset[str]
    """The names that it reads from or calls; some are DuckDB's own."""
    makes: bool
    """True if it makes something; others are comments on what is made."""


@functools.cache
def statements() -> tuple[Statement, ...]:
    """All statements of sql/, in the order in which they are run; each ends with a line's last `;`."""
    texts = itertools.chain(*(_END.split(text_of(subject)) for subject in subjects()))
    return tuple(
        Statement(name=found[2], text=text.strip(), reads=_reads(text), makes=found[1] == "CREATE")
        for text in texts
        if (found := _NAME.search(text)) is not None
    )


def needed(asked: str) -> list[Statement]:
    """The statements that a question rests on: those that it mentions, and what they read.

    A word of a question that only looks like a name costs a moment. A question about the catalog itself
    rests on all of it.
    """
    words = words_of(asked)
    if any(word in _ABOUT or word.startswith(("duckdb_", "pragma_")) for word in words):
        return [*statements()]
    open_ends, wanted = words, set[str]()
    while open_ends:
        wanted |= open_ends
        read = (each.reads for each in statements() if each.makes and each.name in open_ends)
        open_ends = frozenset().union(*read) - wanted
    return [each for each in statements() if each.name in wanted and each.makes]


def words_of(sql: str) -> frozenset[str]:
    """The words of a text that may be names."""
    return frozenset(_WORD.findall(sql.lower()))


def _reads(text: str) -> frozenset[str]:
    """Return the relations that a statement of sql/ reads from or calls.

    >>> sorted(_reads("CREATE VIEW a AS SELECT lineage FROM main.b JOIN c USING (file) -- FROM d"))
    ['b', 'c']
    """
    return frozenset(
        read or called for read, called in _READ.findall(_REMARK.sub("", text)) if read or called
    )


def script(
    snapshot: Snapshot, *, root: str, memory: Mapping[str, str], asked: str | None = None
) -> str:
    """All views and macros over a snapshot's files; paths begin with `root`, which may be empty.

    Tables that are in memory are read from the relations that `memory` names. Of what nothing in the
    question `asked` needs, nothing is made; and what a file says of itself is kept for the next
    question, where one can come.
    """

    def relation(found: re.Match[str]) -> str:
        name = found[1]
        return memory[name] if name in memory else _relation(snapshot, name, root)

    settings = (_CACHED, _SCHEMA) if asked is None else (_SCHEMA,)
    wanted = statements() if asked is None else needed(asked)
    texts = (_RELATION.sub(relation, each.text) for each in wanted)
    return "".join(f"{text};\n\n" for text in (*settings, *texts))


def _relation(snapshot: Snapshot, name: str, root: str) -> str:
    if name in snapshot.kept:
        return f"read_parquet({quoted(pattern(root + snapshot.kept[name]))})"
    files = snapshot.files.get(name)
    if not files:
        return _empty(name)
    listed = ",\n".join(quoted(pattern(root + file)) for file in files)
    # What a file of an earlier version lacks is null; no other file is opened to learn that.
    read = f"read_parquet([{listed}], filename = 'file', schema = MAP {{{_columns(name)}}})"
    return f"(SELECT * REPLACE (substr(file, {len(root) + 1}) AS file) FROM {read})"


@functools.cache
def _columns(name: str) -> str:
    return ", ".join(
        f"{quoted(column)}: {{'name': {quoted(column)}, 'type': {quoted(kind)}, 'default_value': NULL}}"
        for column, kind in types_of(SCHEMAS[name])
    )


@functools.cache
def _empty(name: str) -> str:
    """A relation of no lines with the columns of a table or of a kind of data."""
    columns = [*types_of(SCHEMAS[name]), *([("file", "VARCHAR")] if name in _DATA else [])]
    return "(SELECT {} WHERE false)".format(
        ", ".join(f'NULL::{kind} AS "{column}"' for column, kind in columns)
    )


def types_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """The columns of a schema with their types in SQL."""
    return [(field.name, _sql(field.type)) for field in schema]


def _sql(kind: pa.DataType) -> str:
    """A type as DuckDB writes it.

    >>> _sql(pa.list_(pa.struct([("at", pa.int32()), ("what", pa.string())])))
    'STRUCT("at" INTEGER, "what" VARCHAR)[]'
    """
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"STRUCT({', '.join(f'{chr(34)}{each.name}{chr(34)} {_sql(each.type)}' for each in fields)})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{_sql(kind.value_type)}[]"
    return _PLAIN[str(kind)]


_PLAIN = {
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "bool": "BOOLEAN",
    "uint8": "UTINYINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE",
}


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
