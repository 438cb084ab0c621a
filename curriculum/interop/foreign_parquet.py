"""Packed rows in foreign Parquet files: checks of columns, types and labels.

A megabyte of Parquet may decode to any number of gigabytes. So the files are read in small batches, by a
process that has limits of memory and time.

Integers of another width, large lists and dictionaries of strings are converted to the types of our columns
if no value changes. Any other type is an error. Columns with unknown names are dropped and listed in the
report.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum.interop.eos_boundaries import Boundaries
from curriculum.interop.foreign_files import TYPES, batches, opened, schema_of
from curriculum.interop.packed_columns import SEGMENTS, PackedColumns
from curriculum.interop.publish import (
    CURE,
    FILLS,
    LABELS,
    Completion,
    Imported,
    ImportedShard,
    RowFacts,
    format_of,
    require,
)
from curriculum.packing.packed_rows import KNOWN
from curriculum.tokens.codec import Tokenizer
from schemas.corpus import is_name
from schemas.errors import SchemaError
from schemas.objectives import OBJECTIVES
from schemas.packed_row import MAX_ROW_LENGTH, PACKED_ROW_SCHEMA, ROW_MULTIPLE, RowFormat
from schemas.regular_files import kind_at
from schemas.reports import ImportReport
from schemas.windows import WINDOWS_NAME

PACK_ID = "pack_id"
SPLITS = ("train", "val", "anchor")


def fault_of(label: str, value: object) -> str | None:
    """Return what is wrong with the value of a label of rows, or None if the value is valid.

    Labels become names in paths, tables and diets: `family` and `domain` must be names, `objective` and
    `split` must be known values, and `variant` counts from 0.

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
    """Raise if one of the labels in `facts` is invalid.

    Raises:
        SchemaError: names the option and its value.
    """
    for label, value in asdict(facts).items():
        if value is not None and (fault := fault_of(label, value)):
            raise SchemaError(f"--{label}", value, cause=fault, cure="Give another one")


def labels_of(files: Sequence[Path], stored: Sequence[str], given: RowFacts) -> RowFacts:
    """Return the labels of all rows: those stored in the files, else those in `given`, else defaults.

    Raises:
        SchemaError: if a stored label is invalid or differs between rows, or there is no family.
    """
    labels = [name for name in LABELS if name in stored]
    known: dict[str, Any] = {
        name: value for name, value in asdict(given).items() if value is not None
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
    """Raise if `values` of the label `name` are invalid or differ from those in `known`.

    `first` is the number of the first of these rows in its file.
    """
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
    """Raise if a pack_id occurs twice, because the same row was then given twice.

    Needs about 60 bytes of memory per row.

    Raises:
        SchemaError: names both rows.
    """
    columns = [_pack_ids(file) for file in files]
    every = pa.chunked_array(
        [chunk for column in columns for chunk in column.chunks], type=pa.string()
    )
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
    """Raise unless the stored columns have the expected types; integers may have another width.

    Raises:
        SchemaError: names the file, the column and both types.
    """
    for name in stored:
        if not is_readable(schema.field(name).type, TYPES[name]):
            raise SchemaError(
                file.name,
                f"{name} is {schema.field(name).type}",
                cause=f"it must be {plain(TYPES[name])}",
                cure=CURE,
            )


def as_known(file: Path, table: pa.Table, stored: Sequence[str]) -> pa.Table:
    """Return the stored columns of a table, cast to the expected types.

    Raises:
        SchemaError: if a value doesn't fit its type.
    """
    columns: dict[str, Any] = {}
    for name in stored:
        column: Any = table[name].combine_chunks()
        try:
            columns[name] = column.cast(TYPES[name])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as lossy:
            raise SchemaError(
                file.name,
                f"{name}: {str(lossy).splitlines()[0]}",
                cause=f"a value doesn't fit {plain(TYPES[name])}",
                cure=CURE,
            ) from None
    return pa.table(columns)


def is_readable(found: Any, expected: Any) -> bool:
    """Return True if values of type `found` convert to type `expected` unchanged.

    Values outside the range of `expected` are not considered.
    """
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
    """Return an Arrow type in words, without nullability and the names of list items."""
    for prefix in ("list", "large_list", "fixed_size_list"):
        if getattr(pa.types, f"is_{prefix}")(kind):
            return f"{prefix}<{plain(kind.value_type)}>"
    return str(kind).replace(" not null", "")


def stored_names(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return those of the columns `names` that are in `known`.

    pack_id is left out, because it is assigned anew.
    """
    wanted = {*known} - {PACKED_ROW_SCHEMA.names[0]}
    return tuple(name for name in names if name in wanted)


BATCH_TOKENS = 1 << 18
LENGTHS_AT_ONCE = 1024
"""Number of rows whose lengths are read at a time."""


def parquet_rows(
    path: Path, given: RowFacts, tokenizer: Tokenizer, boundaries: Boundaries | None = None
) -> Imported:
    """Read the rows of a Parquet file, or of all Parquet files below a folder in name order.

    `given` are the labels from the options; stored labels must agree with them. `boundaries` is the source of
    boundaries that aren't stored.

    Raises:
        SchemaError: if there are no rows, a required column is missing or repeated, a type can't be read, a
            pack_id repeats, or a label is invalid, differs from the given one, or (except the domain)
            differs between rows.
    """
    check_facts(given)
    files = _files(path)
    schemas = [schema_of(file) for file in files]
    read = stored_names(schemas[0].names, TYPES)
    for file, schema in zip(files, schemas, strict=True):
        _require_same(file, stored_names(schema.names, TYPES), read, files[0])
        require_types(file, schema, read)
    is_filled = bool({*SEGMENTS} & {*read})
    first = _first_with_rows(path, files)
    length = _filled_length(files) if is_filled else _row_length(first, schemas[0])
    packed = PackedColumns.of(read, format_of(tokenizer, length))
    stored, row_format = (*packed.stored, *packed.derived), packed.row_format
    require(stored, row_format, name=files[0].name, tokenizer=tokenizer, boundaries=boundaries)
    for file, schema in zip(files, schemas, strict=True):
        _require_format(file, schema, row_format)
    require_distinct(
        [file for file, schema in zip(files, schemas, strict=True) if PACK_ID in schema.names]
    )
    facts = labels_of(files, stored, given)
    others = [name for name in schemas[0].names if name not in {*read, PACK_ID}]
    read_as = [
        f"{name}: {plain(schemas[0].field(name).type)} is read as {plain(KNOWN[name])}"
        for name in packed.stored
        if plain(schemas[0].field(name).type) != plain(KNOWN[name])
    ]
    return Imported(
        format="parquet",
        files=tuple(files),
        shards=[_shard(file, packed) for file in files],
        completion=Completion(
            row_format=row_format, facts=facts, stored=stored, boundaries=boundaries
        ),
        boundaries=boundaries,
        compared_with=tokenizer,
        notes=ImportReport(columns_left_behind=tuple(others), read_as=(*read_as, *packed.notes)),
    )


def _files(path: Path) -> list[Path]:
    below = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    # A folder of rows that were built here also contains a file of windows, which is skipped.
    files = [file for file in below if file.is_file() and file.name != WINDOWS_NAME]
    if not files:
        raise SchemaError(
            str(path),
            cause="there are no Parquet files"
            if path.is_dir()
            else f"{kind_at(path)} is at this path",
            cure="Give a file of packed rows, or a folder that holds some",
        )
    return files


def _require_same(file: Path, found: Sequence[str], stored: Sequence[str], first: Path) -> None:
    if {*found} != {*stored}:
        differ = ", ".join(sorted({*found} ^ {*stored}))
        raise SchemaError(
            file.name,
            differ,
            cause=f"it and {first.name} don't store the same columns",
            cure="Import what belongs together: one folder a data set",
        )


def _first_with_rows(path: Path, files: Sequence[Path]) -> Path:
    for file in files:
        with opened(file) as content:
            if content.metadata.num_rows:
                return file
    raise SchemaError(
        str(path),
        "0 rows",
        cause="the file is Parquet without rows" if path.is_file() else "no Parquet file has rows",
        cure="Give packed rows",
    )


def _row_length(file: Path, schema: pa.Schema) -> int:
    if "input_ids" not in schema.names:
        raise SchemaError(
            file.name,
            "no column input_ids",
            cause="it is required, and nothing may stand in for it",
            cure="Give packed rows",
        )
    with opened(file) as content:
        length = _first_length(content)
    if not length or length > MAX_ROW_LENGTH or length % ROW_MULTIPLE:
        raise SchemaError(
            f"row 0 of {file.name}",
            f"{length:,} tokens",
            cause=f"rows are packed: a multiple of {ROW_MULTIPLE} tokens, the same in all, at most "
            f"{MAX_ROW_LENGTH:,}",
            cure="Pack the documents, or import them as --format flat",
        )
    return length


def _filled_length(files: Sequence[Path]) -> int:
    """Return the row length for files whose rows differ in length; shorter rows are padded to it.

    It is the smallest multiple of ROW_MULTIPLE that is at least the length of the longest row.
    """
    longest = 1
    for file in files:
        with opened(file) as content:
            for batch in batches(content, ["input_ids"], LENGTHS_AT_ONCE):
                longest = max(
                    longest, pc.max(pc.list_value_length(batch["input_ids"])).as_py() or 0
                )
    return -(-longest // ROW_MULTIPLE) * ROW_MULTIPLE


def _require_format(file: Path, schema: pa.Schema, expected: RowFormat) -> None:
    """Raise if a file's metadata contradicts the tokenizer; most files have no such metadata."""
    found = schema.metadata or {}
    for name, value in expected.metadata().items():
        theirs = found.get(name.encode())
        if name != "schema_version" and theirs is not None and theirs != value.encode():
            raise SchemaError(
                file.name,
                f"{name} {theirs[:40].decode(errors='backslashreplace') or 'none'}",
                cause=f"the tokenizer, or the first row, has {value or 'none'}",
                cure="Give the tokenizer that the rows were made with",
            )


def _shard(file: Path, packed: PackedColumns) -> ImportedShard:
    names, rows = (*packed.stored, *packed.foreign), BATCH_TOKENS // packed.row_format.row_length

    def tables() -> Iterator[pa.Table]:
        first = 0
        with opened(file) as content:
            for batch in batches(content, names, max(1, rows)):
                table = as_known(file, pa.Table.from_batches([batch]), names)
                yield packed.read(table, file.name, first) if packed.foreign else table
                first += len(batch)

    return ImportedShard(name=file.name, tables=tables)


def _first_length(content: pq.ParquetFile) -> int:
    """Return the number of tokens of the first row; 0 if there is none, or its value is null or no list."""
    first = next(batches(content, ["input_ids"], 1), None)
    ids = first["input_ids"][0].as_py() if first is not None and len(first) else None
    return len(ids) if isinstance(ids, list) else 0
