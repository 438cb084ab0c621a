"""Parquet files of others: their columns, types, labels and pack_ids, each checked before use."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum.interop.derive_columns import CURE, FILLS, LABELS, RowFacts
from curriculum.packing.columns import KNOWN
from schemas.corpus import is_name
from schemas.errors import SchemaError
from schemas.objectives import OBJECTIVES

PACK_ID = "pack_id"
SPLITS = ("train", "val", "anchor")
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""The errors of Arrow for a file that isn't what it says, such as one of names that aren't UTF-8."""


def fault_of(label: str, value: object) -> str | None:
    """Return what is wrong with a label of rows; None where it is sound.

    Labels become names in paths, tables and diets: `family` and `domain` are names, `objective` and
    `split` are of the known ones, `variant` counts from 0.

    >>> fault_of("domain", "templates"), fault_of("domain", "../x")
    (None, 'a domain is of letters, digits, dot, dash and underscore')
    """
    known = {"objective": tuple(OBJECTIVES), "split": SPLITS}
    if value is None:
        return f"every row has one {label}"
    if label in known:
        listed = ", ".join(known[label])
        return None if value in known[label] else f"the known ones are {listed}"
    if label == "variant":
        return None if isinstance(value, int) and value >= 0 else "variants count from 0"
    if not is_name(str(value)):
        return f"a {label} is of letters, digits, dot, dash and underscore"
    return None


def check_facts(facts: RowFacts) -> None:
    """Refuse labels that rows can't have.

    Raises:
        SchemaError: naming the option and its value.
    """
    for label, value in asdict(facts).items():
        if value is not None and (fault := fault_of(label, value)):
            raise SchemaError(f"--{label}", value, cause=fault, cure="Give another one")


@contextlib.contextmanager
def opened(file: Path) -> Iterator[pq.ParquetFile]:
    """Open a file for reading; what goes wrong while it is read names it.

    Raises:
        SchemaError: for a file that can't be read.
    """
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as content:
            yield content
    except MemoryError:
        raise
    except UNREADABLE as unreadable:
        raise _broken(file, unreadable) from None


def batches(
    content: pq.ParquetFile, columns: Sequence[str], rows: int = 65_536
) -> Iterator[pa.RecordBatch]:
    """Some columns, at most so many rows at once, each batch held against its types.

    Raises:
        ArrowInvalid: for text that isn't UTF-8, and for lists whose edges lie outside of their values.
    """
    for batch in content.iter_batches(rows, columns=list(columns), use_threads=False):
        batch.validate(full=True)
        yield batch


def schema_of(file: Path) -> pa.Schema:
    """The schema of a file, in which each column has a name of its own.

    Raises:
        SchemaError: for a file that can't be read, and a name that stands twice.
    """
    try:
        schema: pa.Schema = pq.read_schema(file)
        names = schema.names
    except UNREADABLE as unreadable:
        raise _broken(file, unreadable) from None
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise SchemaError(
            file.name,
            f"{twice!r} names several columns",
            cause="a column is found by its name, so which of them counts isn't known",
            cure=CURE,
        )
    return schema


def _broken(file: Path, unreadable: Exception) -> SchemaError:
    return SchemaError(
        file.name,
        str(unreadable).splitlines()[0],
        cause="the file is damaged, or is not Parquet at all",
        cure="Copy it again, or leave it out",
    )


def labels_of(files: Sequence[Path], stored: Sequence[str], said: RowFacts) -> RowFacts:
    """Labels of all rows: those that are stored, else those that were said, else the fills.

    Raises:
        SchemaError: for a stored label that can't be one or differs, with its row, and for no family.
    """
    labels = [name for name in LABELS if name in stored]
    known: dict[str, Any] = {
        name: value for name, value in asdict(said).items() if value is not None
    }
    for file in files if labels else ():
        first = 0
        with opened(file) as content:
            for batch in batches(content, labels):
                for name in labels:
                    _agree(file, first, batch[name], name, known)
                first += len(batch)
    if known.get("family") is None:
        raise SchemaError(
            "--family",
            cause="the rows don't say of which family they are",
            cure="Say it: --family v3_simple, or a name of your own",
        )
    return replace(FILLS, **known)


def _agree(file: Path, first: int, values: Any, name: str, known: dict[str, Any]) -> None:
    """Check the values of a label; `first` is the number of the first row in its file."""
    for value in pc.unique(values).to_pylist():
        wanted = value if name == "domain" else known.setdefault(name, value)
        fault, cure = fault_of(name, value), CURE
        if fault is None and value != wanted:
            option = f"--{name.replace('_', '-')}"
            fault = f"other rows, or {option}, say {wanted!r}; rows of one import are alike"
            cure = "Import them one by one"
        if fault is not None:
            row = first + values.to_pylist().index(value)
            raise SchemaError(
                f"row {row} of {file.name}", f"{name} is {value!r}", cause=fault, cure=cure
            )


def require_distinct(files: Sequence[Path]) -> None:
    """Refuse rows of files with a pack_id that repeats: rows that came in twice. Some 60 bytes a row.

    Raises:
        SchemaError: naming both rows.
    """
    columns = [_pack_ids(file) for file in files]
    every = pa.chunked_array([chunk for each in columns for chunk in each.chunks], type=pa.string())
    if every.null_count or pc.count_distinct(every).as_py() < len(every):
        places: dict[str | None, str] = {}
        for file, column in zip(files, columns, strict=True):
            for row, pack_id in enumerate(column.to_pylist()):
                place = f"row {row} of {file.name}"
                if pack_id is None or pack_id in places:
                    raise SchemaError(
                        place,
                        f"pack_id is {pack_id!r}",
                        cause=f"{places[pack_id]} has the same"
                        if pack_id is not None
                        else "every row has a pack_id, or none has",
                        cure="Leave out what came in twice, or the column pack_id if rows are distinct",
                    )
                places[pack_id] = place


def _pack_ids(file: Path) -> Any:
    with opened(file) as content:
        column = pa.Table.from_batches(
            batches(content, [PACK_ID]), schema=pa.schema([content.schema_arrow.field(PACK_ID)])
        )[PACK_ID]
    if not is_readable(column.type, pa.string()):
        raise SchemaError(
            file.name,
            f"{PACK_ID} is {column.type}",
            cause=f"it must be {plain(pa.string())}",
            cure=CURE,
        )
    return column.cast(pa.string())


def require_types(file: Path, schema: pa.Schema, stored: Sequence[str]) -> None:
    """Refuse columns whose values aren't of the contract's types, whatever their width.

    Raises:
        SchemaError: naming the file, the column and both types.
    """
    for name in stored:
        if not is_readable(schema.field(name).type, KNOWN[name]):
            raise SchemaError(
                file.name,
                f"{name} is {schema.field(name).type}",
                cause=f"it must be {plain(KNOWN[name])}",
                cure=CURE,
            )


def as_known(file: Path, table: pa.Table, stored: Sequence[str]) -> pa.Table:
    """Cast the stored columns to the contract's types.

    Raises:
        SchemaError: for a value that doesn't fit.
    """
    columns: dict[str, Any] = {}
    for name in stored:
        column: Any = table[name].combine_chunks()
        try:
            columns[name] = column.cast(KNOWN[name])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as lossy:
            raise SchemaError(
                file.name,
                f"{name}: {str(lossy).splitlines()[0]}",
                cause=f"a value doesn't fit {plain(KNOWN[name])}",
                cure=CURE,
            ) from None
    return pa.table(columns)


def is_readable(found: Any, expected: Any) -> bool:
    """Return True where values can be read without a change, but for their range."""
    kinds = pa.types
    if kinds.is_list(expected):
        lists = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)
        return any(kind(found) for kind in lists) and is_readable(
            found.value_type, expected.value_type
        )
    if kinds.is_struct(expected):
        names = [field.name for field in expected]
        return (
            kinds.is_struct(found)
            and [field.name for field in found] == names
            and all(
                is_readable(found.field(name).type, expected.field(name).type) for name in names
            )
        )
    if kinds.is_string(expected):
        value = found.value_type if kinds.is_dictionary(found) else found
        return bool(kinds.is_string(value) or kinds.is_large_string(value))
    return bool(kinds.is_integer(found) or (kinds.is_boolean(found) and expected == pa.uint8()))


def plain(kind: Any) -> str:
    """A type in words, without what Arrow says of nulls and the names of items."""
    for prefix in ("list", "large_list", "fixed_size_list"):
        if getattr(pa.types, f"is_{prefix}")(kind):
            return f"{prefix}<{plain(kind.value_type)}>"
    return str(kind).replace(" not null", "")
