"""Parquet files that DuckDB reads: their paths, and what is wrong with them."""

import contextlib
import functools
import re
from pathlib import Path

import pyarrow as pa

from curriculum import parquet
from curriculum.page_checksums import pages_fault
from curriculum.published_files import footer_of, sha256_of
from schemas.errors import CatalogError, StoreError
from schemas.stages import DataTable

_GLOB = re.compile(r"[*?\[]")


def pattern(path: str) -> str:
    r"""The pattern that matches a path alone: DuckDB takes whatever it reads for a pattern.

    >>> pattern("/w*s [a]/rows.parquet")
    '/w[*]s [[]a]/rows.parquet'

    Raises:
        CatalogError: for a backslash beside pattern characters; DuckDB takes it for a separator there.
    """
    if not _GLOB.search(path):
        return path
    if "\\" in path:
        raise CatalogError(
            path,
            cause="DuckDB can't read a path with a backslash and one of * ? [",
            cure="Rename the folder",
        )
    return _GLOB.sub(r"[\g<0>]", path)


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def fault_of(file: Path, kind: DataTable) -> str | None:
    """Return the reason why a view can't read a file; None where it can."""
    try:
        found = parquet.read_schema(file)
    except StoreError as refused:
        return f"{refused.value}: {refused.cause}"
    except (OSError, UnicodeDecodeError, pa.ArrowException) as broken:
        return f"it is no Parquet file: {str(broken).splitlines()[0]}"
    return _schema_fault(found.remove_metadata(), kind)


def damage_of(file: Path, kind: DataTable | None, *, sha256: str, footer: str | None) -> str | None:
    """Return what tells a file from the one that was published; None where nothing does.

    `kind` is None for a file of no table. Of a file with token lists the footer and the other columns' pages
    are read, of others all bytes.
    """
    try:
        if kind is not None and kind.token_lists and footer is not None:
            if footer_of(file) != footer:
                return "its footer isn't the published one"
            with contextlib.suppress(LookupError):
                return pages_fault(file, kind.token_lists)
        return None if sha256_of(file) == sha256 else "its bytes aren't those published"
    except StoreError as refused:
        return f"{refused.value}: {refused.cause}"
    except (OSError, pa.ArrowException) as broken:
        return str(broken).splitlines()[0]


@functools.lru_cache(maxsize=256)
def _schema_fault(found: pa.Schema, kind: DataTable) -> str | None:
    """Find the first fault of a schema; cached, since few of thousands of files differ in their columns."""
    wanted = kind.schema
    shared = {*found.names} & {*wanted.names}
    if not shared:
        return "it has none of the columns that it should have"
    for name in shared:
        if found.names.count(name) > 1:
            return f"several of its columns are named {name}"
    for field in wanted:
        if field.name not in shared:
            continue
        type_there = found.field(field.name).type
        if _type_class(type_there) != _type_class(field.type):
            return f"its column {field.name} is {type_there}, not {field.type}"
    return None


def _type_class(kind: pa.DataType) -> str:
    """The class of a type, whatever its width: text, number, bool, or its nesting."""
    if pa.types.is_dictionary(kind):
        return _type_class(kind.value_type)
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list of {_type_class(kind.value_type)}"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    return str(kind)
