"""Faults of data files: files that views can't read, and columns of other types than the table's."""

import functools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from curriculum import parquet
from schemas.errors import StoreError
from schemas.stages import DataTable


def fault_of(file: Path, kind: DataTable) -> str | None:
    """Return the reason why a view can't read a file; None where it can."""
    try:
        there = parquet.read_schema(file)
    except StoreError as refused:
        return f"{refused.value}: {refused.cause}"
    except (OSError, UnicodeDecodeError, pa.ArrowException) as broken:
        return f"it is no Parquet file: {str(broken).splitlines()[0]}"
    return _fault(there.remove_metadata(), kind)


@functools.lru_cache(maxsize=256)
def _fault(there: pa.Schema, kind: DataTable) -> str | None:
    """Find the first fault of a schema; cached, since few of thousands of files differ in their columns."""
    return next(_column_faults(there, kind.schema), None)


def _column_faults(there: pa.Schema, wanted: pa.Schema) -> Iterator[str]:
    if not set(there.names) & set(wanted.names):
        yield "it has none of the columns that it should have"
    for name in {*there.names} & {*wanted.names}:
        if there.names.count(name) > 1:
            yield f"several of its columns are named {name}"
    for field in wanted:
        if field.name in there.names and _sort(there.field(field.name).type) != _sort(field.type):
            found = there.field(field.name).type
            yield f"its column {field.name} is {found}, not {field.type}"


def _sort(kind: pa.DataType) -> str:
    """Return the sort of a type, whatever its width: text, number, truth, or its nesting."""
    if pa.types.is_dictionary(kind):
        return _sort(kind.value_type)
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list of {_sort(kind.value_type)}"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    return str(kind)
