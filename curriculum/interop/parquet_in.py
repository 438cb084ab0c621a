"""Packed rows that others wrote as Parquet.

Whole numbers of another width, large lists and dictionaries of strings are read as what the contract has
for them where no value changes; any other type is an error. Columns that the contract doesn't know stay
behind, and the report names them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum.interop.complete import (
    CURE,
    FILLS,
    LABELS,
    Completion,
    RowFacts,
    format_of,
    require,
)
from curriculum.interop.publish import Imported, Shard, stored_names
from curriculum.rows.columns import KNOWN
from curriculum.tokens.codec import Tokenizer
from schemas.errors import SchemaError
from schemas.packed_row import ROW_MULTIPLE, RowFormat

BATCH_TOKENS = 1 << 18


def parquet_rows(path: Path, said: RowFacts, tokenizer: Tokenizer) -> Imported:
    """The rows of a Parquet file, or of all below a folder in name order.

    `said` is what people say of the rows; what the rows themselves store must agree with it.

    Raises:
        SchemaError: for no rows, a required column that lacks, a type that can't be read, and labels
            that aren't those that were said, or one for all rows.
    """
    files = _files(path)
    schemas = [_schema(file) for file in files]
    stored = stored_names(schemas[0].names, KNOWN)
    for file, schema in zip(files, schemas, strict=True):
        _require_same(file, stored_names(schema.names, KNOWN), stored, files[0])
    row_format = format_of(tokenizer, _row_length(files[0], schemas[0]))
    require(stored, row_format, name=files[0].name)
    for file, schema in zip(files, schemas, strict=True):
        _require_format(file, schema, row_format)
        _require_types(file, schema, stored)
    facts = _facts(files, stored, said)
    others = [name for name in schemas[0].names if name not in {*stored, "pack_id"}]
    read = [
        f"{name}: {_plain(schemas[0].field(name).type)} is read as {_plain(KNOWN[name])}"
        for name in stored
        if _plain(schemas[0].field(name).type) != _plain(KNOWN[name])
    ]
    return Imported(
        format="parquet",
        files=tuple(files),
        shards=[_shard(file, stored) for file in files],
        completion=Completion(row_format=row_format, facts=facts, stored=stored),
        notes={"columns_left_behind": [*others], "read_as": [*read]},
    )


def _files(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    if not files:
        raise SchemaError(
            str(path),
            cause="there are no Parquet files",
            cure="Give a file of packed rows, or a folder that holds some",
        )
    return files


def _schema(file: Path) -> pa.Schema:
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as unreadable:
        raise _broken(file, unreadable) from None


def _broken(file: Path, unreadable: Exception) -> SchemaError:
    return SchemaError(
        file.name,
        str(unreadable).splitlines()[0],
        cause="the file is damaged, or is not Parquet at all",
        cure="Copy it again, or leave it out",
    )


def _require_same(file: Path, found: Sequence[str], stored: Sequence[str], first: Path) -> None:
    if {*found} != {*stored}:
        differ = ", ".join(sorted({*found} ^ {*stored}))
        raise SchemaError(
            file.name,
            differ,
            cause=f"it and {first.name} don't store the same columns",
            cure="Import what belongs together: one folder a data set",
        )


def _row_length(file: Path, schema: pa.Schema) -> int:
    if "input_ids" not in schema.names:
        raise SchemaError(
            file.name,
            "no column input_ids",
            cause="it is required, and nothing may stand in for it",
            cure="Give packed rows",
        )
    first = next(pq.ParquetFile(file).iter_batches(1, columns=["input_ids"]), None)
    length = len(first["input_ids"][0]) if first is not None and len(first) else 0
    if not length or length % ROW_MULTIPLE:
        raise SchemaError(
            f"row 0 of {file.name}",
            f"{length:,} tokens",
            cause=f"rows are packed: a multiple of {ROW_MULTIPLE} tokens, the same in all",
            cure="Pack the documents, or import them as --format flat",
        )
    return length


def _require_format(file: Path, schema: pa.Schema, expected: RowFormat) -> None:
    """Whether what a file says of itself agrees with the tokenizer; most say nothing."""
    found = schema.metadata or {}
    for name, value in expected.metadata().items():
        theirs = found.get(name.encode())
        if name != "schema_version" and theirs is not None and theirs.decode() != value:
            raise SchemaError(
                file.name,
                f"{name} {theirs.decode() or 'none'}",
                cause=f"the tokenizer, or the first row, has {value or 'none'}",
                cure="Give the tokenizer that the rows were made with",
            )


def _require_types(file: Path, schema: pa.Schema, stored: Sequence[str]) -> None:
    for name in stored:
        if not _readable(schema.field(name).type, KNOWN[name]):
            raise SchemaError(
                file.name,
                f"{name} is {schema.field(name).type}",
                cause=f"it must be {_plain(KNOWN[name])}",
                cure=CURE,
            )


def _facts(files: Sequence[Path], stored: Sequence[str], said: RowFacts) -> RowFacts:
    """What the rows store of themselves, else what is said, else what fills it."""
    labels = [name for name in LABELS if name in stored and name != "domain"]
    known: dict[str, Any] = {
        name: value for name, value in asdict(said).items() if value is not None
    }
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(columns=labels) if labels else ():
            for name in labels:
                _agree(file, name, pc.unique(batch[name]).to_pylist(), known)
    if known.get("family") is None:
        raise SchemaError(
            "--family",
            cause="the rows don't say of which family they are",
            cure="Say it: --family v3_simple, or a name of your own",
        )
    return replace(FILLS, **known)


def _agree(file: Path, name: str, found: list[Any], known: dict[str, Any]) -> None:
    wanted = known.setdefault(name, found[0])
    if (wrong := [value for value in found if value != wanted]) or wanted is None:
        raise SchemaError(
            file.name,
            f"{name} is {(wrong or [wanted])[0]!r}",
            cause=f"other rows, or --{name.replace('_', '-')}, say {wanted!r}; rows of one import are alike",
            cure="Import them one by one",
        )


def _shard(file: Path, stored: Sequence[str]) -> Shard:
    def tables() -> Iterator[pa.Table]:
        with pq.ParquetFile(file, page_checksum_verification=True) as content:
            length = max(1, _first_length(content))
            batches = content.iter_batches(
                max(1, BATCH_TOKENS // length), columns=list(stored), use_threads=False
            )
            try:
                for batch in batches:
                    yield _as_known(file, pa.Table.from_batches([batch]), stored)
            except (pa.ArrowException, OSError) as unreadable:
                raise _broken(file, unreadable) from None

    return Shard(name=file.name, tables=tables)


def _first_length(content: pq.ParquetFile) -> int:
    first = next(content.iter_batches(1, columns=["input_ids"]), None)
    return len(first["input_ids"][0]) if first is not None and len(first) else 0


def _as_known(file: Path, table: pa.Table, stored: Sequence[str]) -> pa.Table:
    columns: dict[str, Any] = {}
    for name in stored:
        column: Any = table[name].combine_chunks()
        try:
            columns[name] = column.cast(KNOWN[name])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as lossy:
            raise SchemaError(
                file.name,
                f"{name}: {str(lossy).splitlines()[0]}",
                cause=f"a value doesn't fit {_plain(KNOWN[name])}",
                cure=CURE,
            ) from None
    return pa.table(columns)


def _readable(found: Any, expected: Any) -> bool:
    """Whether values can be read without a change, but for their range."""
    kinds = pa.types
    if kinds.is_list(expected):
        lists = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)
        return any(kind(found) for kind in lists) and _readable(
            found.value_type, expected.value_type
        )
    if kinds.is_struct(expected):
        names = [field.name for field in expected]
        return (
            kinds.is_struct(found)
            and [field.name for field in found] == names
            and all(_readable(found.field(name).type, expected.field(name).type) for name in names)
        )
    if kinds.is_string(expected):
        value = found.value_type if kinds.is_dictionary(found) else found
        return bool(kinds.is_string(value) or kinds.is_large_string(value))
    return bool(kinds.is_integer(found) or (kinds.is_boolean(found) and expected == pa.uint8()))


def _plain(kind: Any) -> str:
    """A type in words, without what Arrow says of nulls and the names of items."""
    for prefix in ("list", "large_list", "fixed_size_list"):
        if getattr(pa.types, f"is_{prefix}")(kind):
            return f"{prefix}<{_plain(kind.value_type)}>"
    return str(kind).replace(" not null", "")
