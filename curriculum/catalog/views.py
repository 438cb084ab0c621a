"""The SQL of a catalog: views and macros as they stand in sql/*.sql, over the files of a snapshot.

`$name` in those files is a relation: a table of the snapshot, or all data files of a kind. Everything
else is plain DuckDB SQL, of forms that versions 1.5 and 2.0 both have.
"""

import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath

import pyarrow as pa

from curriculum.catalog.snapshot import KEPT, Snapshot
from curriculum.catalog.sql_text import pattern, quoted
from curriculum.catalog.tables import OPEN_TABLES
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
