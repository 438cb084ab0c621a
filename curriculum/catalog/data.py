"""The data files that views read: which of an artefact's files they are, and whether they can be read."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from curriculum import parquet
from schemas.document import KEPT_SCHEMA, SELECTION_SCHEMA, TOKEN_PARTS_SCHEMA
from schemas.errors import StoreError
from schemas.job import METRICS_SCHEMA
from schemas.mixture import LEFT_OUT_SCHEMA, PLAN_SCHEMA
from schemas.packed_row import PACKED_ROW_SCHEMA
from schemas.structure import ENRICHED_SCHEMA, STRUCTURE_COLUMNS


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Data files of one kind: the Parquet files of a stage whose names begin with `prefix`."""

    name: str
    stage: str
    prefix: str
    schema: pa.Schema
    """Its columns; a file of an earlier minor version lacks some, and they are null there."""


KINDS: tuple[Kind, ...] = (
    Kind(name="documents", stage="documents", prefix="part-", schema=ENRICHED_SCHEMA),
    Kind(name="selection", stage="selections", prefix="selection.", schema=SELECTION_SCHEMA),
    Kind(name="kept", stage="selections", prefix="kept.", schema=KEPT_SCHEMA),
    Kind(
        name="rows",
        stage="rows",
        prefix="part-",
        schema=pa.schema([*PACKED_ROW_SCHEMA, *STRUCTURE_COLUMNS]),
    ),
    Kind(name="plan", stage="mixtures", prefix="plan.", schema=PLAN_SCHEMA),
    Kind(name="left_out", stage="mixtures", prefix="left_out.", schema=LEFT_OUT_SCHEMA),
    Kind(name="metrics", stage="runs", prefix="metrics/", schema=METRICS_SCHEMA),
    Kind(name="token_parts", stage="tokens", prefix="parts.", schema=TOKEN_PARTS_SCHEMA),
)


def kind_of(stage: str, name: str) -> Kind | None:
    """The kind of an artefact's file, if a view reads it."""
    if not name.endswith(".parquet"):
        return None
    return next(
        (each for each in KINDS if each.stage == stage and name.startswith(each.prefix)), None
    )


def fault_of(file: Path, kind: Kind) -> str | None:
    """Why a view can't read a file; None where it can."""
    try:
        there = parquet.read_schema(file)
    except StoreError as refused:
        return f"{refused.value}: {refused.cause}"
    except (OSError, UnicodeDecodeError, pa.ArrowException) as broken:
        return f"it is no Parquet file: {str(broken).splitlines()[0]}"
    return _fault(there.remove_metadata(), kind)


@functools.lru_cache(maxsize=256)
def _fault(there: pa.Schema, kind: Kind) -> str | None:
    """Of thousands of files few differ in their columns."""
    return next(_foreign(there, kind.schema), None)


def _foreign(there: pa.Schema, wanted: pa.Schema) -> Iterator[str]:
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
    """What a type is to a question, whatever its width: text, number, truth, or how it is nested."""
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
