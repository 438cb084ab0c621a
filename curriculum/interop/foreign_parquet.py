"""Parquet files of others: limits of values and memory, and checks of columns, types and labels.

A megabyte of Parquet may decode to any number of gigabytes. Footers are held against the length of rows
before anything is decoded; a page that says other than its footer runs into the limit of memory.
"""

import contextlib
import os
import resource
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum.interop.derive_columns import CURE, FILLS, LABELS, RowFacts
from curriculum.interop.row_order import WIDE
from curriculum.packing.rows import KNOWN
from schemas.corpus import is_name
from schemas.errors import SchemaError
from schemas.objectives import OBJECTIVES

LEAST_ROOM = 4 << 30
"""Bytes that an import may take on any machine; on larger ones half of their memory."""
MOST_VALUES = 16
"""Values of a column that has no value a token, as pieces and edges, for each token of a row."""
_STATUS = Path("/proc/self/status")


@contextlib.contextmanager
def bounded_memory(path: Path) -> Iterator[None]:
    """Let what is read from `path` take some gigabytes, whatever it says of itself.

    Raises:
        SchemaError: where it asks for more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    room = _memory_limit()
    limits = [_held() + room, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    except MemoryError:
        raise SchemaError(
            str(path),
            f"more than {room / 1e9:.0f} GB of memory",
            cause="a few of its rows decode to more than an import may take",
            cure="Write it anew with rows of one length and row groups of some MB",
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def require_room(file: Path, content: pq.ParquetFile, row_length: int) -> None:
    """Refuse a file whose footer promises more values than rows of a length have.

    Raises:
        SchemaError: naming the column.
    """
    for number in range(content.metadata.num_row_groups):
        group = content.metadata.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            name = column.path_in_schema.partition(".")[0]
            most = group.num_rows * row_length * (1 if name in WIDE else MOST_VALUES)
            if column.num_values > most:
                raise SchemaError(
                    file.name,
                    f"{column.num_values:,} values of {name} in {group.num_rows:,} rows",
                    cause=f"rows of {row_length:,} tokens have at most {most:,}",
                    cure="Write rows of one length, or leave the column out",
                )


def _memory_limit() -> int:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(LEAST_ROOM, machine // 2)


def _held() -> int:
    """Bytes of private memory of this process, as the kernel counts them; 0 where it doesn't say."""
    lines = _STATUS.read_text().splitlines() if _STATUS.is_file() else []
    found = (line.split() for line in lines if line.startswith("VmData:"))
    return next((int(words[1]) << 10 for words in found), 0)


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
