"""Parquet files that DuckDB reads: the globs that match them, and damaged or wrong files."""

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
    r"""Return the glob that matches only this path, since DuckDB reads every path as a glob.

    >>> pattern("/w*s [a]/rows.parquet")
    '/w[*]s [[]a]/rows.parquet'

    Raises:
        CatalogError: if the path has both a backslash and glob characters; DuckDB reads the backslash as a
            separator.
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
    """Return a text as a quoted SQL string."""
    return "'" + text.replace("'", "''") + "'"


def fault_of(file: Path, kind: DataTable) -> str | None:
    """Return the reason why a file of this kind can't be read by a view, or None if it can."""
    try:
        found = parquet.read_schema(file)
    except StoreError as refused:
        return f"{refused.value}: {refused.cause}"
    except (OSError, UnicodeDecodeError, pa.ArrowException) as broken:
        return f"it is no Parquet file: {str(broken).splitlines()[0]}"
    return _schema_fault(found.remove_metadata(), kind)


def damage_of(file: Path, kind: DataTable | None, *, sha256: str, footer: str | None) -> str | None:
    """Return how a file differs from its published version, or None if it doesn't.

    `kind` is None for a file that belongs to no table. Normally all bytes are read and compared with
    `sha256`. If the file has lists of tokens, only its footer and the pages of its other columns are read.
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
    """Return the first fault of a schema. Results are cached, since thousands of files share few schemas."""
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
    """Return the class of a type without its width: text, number, bool, or nested classes."""
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
