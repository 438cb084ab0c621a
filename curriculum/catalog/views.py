"""The SQL of a catalog: views and macros as they stand in sql/*.sql, over the files of a snapshot.

`$name` in those files is a relation: a table of the snapshot, or all data files of a kind. Everything
else is plain DuckDB SQL, of forms that versions 1.5 and 2.0 both have.
"""

import functools
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import PurePosixPath

import pyarrow as pa

from curriculum.catalog.data import KINDS
from curriculum.catalog.snapshot import KEPT, Snapshot
from curriculum.catalog.tables import OPEN_TABLES

FIRST = ("tables", "views")
"""Subjects that others build on; the rest follow by name."""
SCHEMAS: dict[str, pa.Schema] = {
    **KEPT,
    **OPEN_TABLES,
    **{kind.name: kind.schema for kind in KINDS},
}
_DATA = frozenset(kind.name for kind in KINDS)
_RELATION = re.compile(r"\$([a-z_]+)")


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


def script(snapshot: Snapshot, *, root: str, memory: Mapping[str, str]) -> str:
    """All views and macros over a snapshot's files; paths begin with `root`, which may be empty.

    Tables that are in memory are read from the relations that `memory` names.
    """
    relations = {
        name: memory[name] if name in memory else _relation(snapshot, name, root)
        for name in SCHEMAS
    }
    return "\n".join(
        _RELATION.sub(lambda found: relations[found[1]], text_of(subject)) for subject in subjects()
    )


def _relation(snapshot: Snapshot, name: str, root: str) -> str:
    if name in snapshot.kept:
        return f"read_parquet({quoted(root + snapshot.kept[name])})"
    files = snapshot.files.get(name)
    if not files:
        return _empty(name)
    listed = ",\n".join(quoted(root + file) for file in files)
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


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
