"""Parquet files that DuckDB reads, and that may be somebody else's: their paths, faults and sizes.

A file of some kilobytes can hold gigabytes: runs of one value, pages that are packed a thousandfold, one long
text that each line refers to. What the file says of its own size isn't to be believed, and a reader that
takes a batch at a time still unpacks whole pages. DuckDB counts all that it allocates against its
limit, pages included; `read` counts the result batch by batch.
"""

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
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


MOST_BYTES = 128 << 20
"""Bytes of a table that is read."""
_WORKING_BYTES = 128 << 20
"""Memory that DuckDB may need beside it."""
_ROWS = 2048
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "temp_directory": "",
    "threads": "1",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def read(file: Path, columns: Sequence[str] | None = None, *, most: int = MOST_BYTES) -> pa.Table:
    """The rows of a file, by default all columns, in their order; at most so many bytes.

    Raises:
        CatalogError: for a file that holds more than that.
        OSError: for one that is no Parquet file, or lacks a column.
    """
    names = [each.replace('"', '""') for each in columns or ()]
    listed = "*" if columns is None else ", ".join(f'"{each}"' for each in names)
    path = quoted(pattern(str(file)))
    # What is on its way into Arrow isn't counted; what lies in a table is.
    held = (
        f"CREATE TABLE held AS SELECT {listed} FROM read_parquet({path}, hive_partitioning = false)"
    )
    config = {**_CONFIG, "memory_limit": f"{most + _WORKING_BYTES}B"}
    with duckdb.connect(config=config) as connection:
        try:
            connection.execute(held)
            reader = connection.sql("FROM held").to_arrow_reader(_ROWS)
            return pa.Table.from_batches(_counted(reader, file, most), reader.schema)
        except (duckdb.OutOfMemoryException, MemoryError):
            raise _too_large(file, most) from None
        except (duckdb.Error, OSError) as refused:
            raise OSError(str(refused).partition("\n")[0]) from None


def _counted(reader: pa.RecordBatchReader, file: Path, most: int) -> Iterator[pa.RecordBatch]:
    num_bytes = 0
    for batch in reader:
        num_bytes += batch.nbytes
        if num_bytes > most:
            raise _too_large(file, most)
        yield batch


def _too_large(file: Path, most: int) -> CatalogError:
    return CatalogError(
        str(file),
        cause=f"it holds more than {most >> 20} MiB unpacked",
        cure="Remove it, or ask about it with curriculum query, which reads only what is asked",
    )


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
