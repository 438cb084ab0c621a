"""Packed rows that others wrote as Parquet.

Whole numbers of another width, large lists and dictionaries of strings are read as what the contract has
for them where no value changes; any other type is an error. Columns that the contract doesn't know stay
behind, and the report names them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.interop.derive_columns import Completion, RowFacts, format_of, require
from curriculum.interop.foreign_parquet import (
    PACK_ID,
    as_known,
    batches,
    check_facts,
    labels_of,
    opened,
    plain,
    require_distinct,
    require_types,
    schema_of,
)
from curriculum.interop.limits import require_room
from curriculum.interop.publish import Imported, Shard, stored_names
from curriculum.packing.columns import KNOWN
from curriculum.tokens.codec import Tokenizer
from schemas.errors import SchemaError
from schemas.packed_row import LONGEST_ROW, ROW_MULTIPLE, RowFormat
from schemas.reports import ImportReport

BATCH_TOKENS = 1 << 18


def parquet_rows(path: Path, said: RowFacts, tokenizer: Tokenizer) -> Imported:
    """The rows of a Parquet file, or of all below a folder in name order.

    `said` is what people say of the rows; what the rows themselves store must agree with it.

    Raises:
        SchemaError: for no rows, a required column that lacks or stands twice, a type that can't be read,
            a pack_id that repeats, and labels that can't be labels, aren't those that were said, or (but
            for the domain) aren't alike in all rows.
    """
    check_facts(said)
    files = _files(path)
    schemas = [schema_of(file) for file in files]
    stored = stored_names(schemas[0].names, KNOWN)
    for file, schema in zip(files, schemas, strict=True):
        _require_same(file, stored_names(schema.names, KNOWN), stored, files[0])
    row_format = format_of(tokenizer, _row_length(files[0], schemas[0]))
    for file in files:
        with opened(file) as content:
            require_room(file, content, row_format.row_length)
    require(stored, row_format, name=files[0].name)
    for file, schema in zip(files, schemas, strict=True):
        _require_format(file, schema, row_format)
        require_types(file, schema, stored)
    require_distinct(
        [file for file, schema in zip(files, schemas, strict=True) if PACK_ID in schema.names]
    )
    facts = labels_of(files, stored, said)
    others = [name for name in schemas[0].names if name not in {*stored, PACK_ID}]
    read = [
        f"{name}: {plain(schemas[0].field(name).type)} is read as {plain(KNOWN[name])}"
        for name in stored
        if plain(schemas[0].field(name).type) != plain(KNOWN[name])
    ]
    return Imported(
        format="parquet",
        files=tuple(files),
        shards=[_shard(file, stored) for file in files],
        completion=Completion(row_format=row_format, facts=facts, stored=stored),
        notes=ImportReport(columns_left_behind=tuple(others), read_as=tuple(read)),
    )


def _files(path: Path) -> list[Path]:
    below = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    files = [each for each in below if each.is_file()]
    if not files:
        raise SchemaError(
            str(path),
            cause="there are no Parquet files",
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


def _row_length(file: Path, schema: pa.Schema) -> int:
    if "input_ids" not in schema.names:
        raise SchemaError(
            file.name,
            "no column input_ids",
            cause="it is required, and nothing may stand in for it",
            cure="Give packed rows",
        )
    with opened(file) as content:
        require_room(file, content, LONGEST_ROW)
        length = _first_length(content)
    if not length or length > LONGEST_ROW or length % ROW_MULTIPLE:
        raise SchemaError(
            f"row 0 of {file.name}",
            f"{length:,} tokens",
            cause=f"rows are packed: a multiple of {ROW_MULTIPLE} tokens, the same in all, at most "
            f"{LONGEST_ROW:,}",
            cure="Pack the documents, or import them as --format flat",
        )
    return length


def _require_format(file: Path, schema: pa.Schema, expected: RowFormat) -> None:
    """Require that what a file says of itself agrees with the tokenizer; most say nothing."""
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


def _shard(file: Path, stored: Sequence[str]) -> Shard:
    def tables() -> Iterator[pa.Table]:
        with opened(file) as content:
            length = max(1, _first_length(content))
            for batch in batches(content, stored, max(1, BATCH_TOKENS // length)):
                yield as_known(file, pa.Table.from_batches([batch]), stored)

    return Shard(name=file.name, tables=tables)


def _first_length(content: pq.ParquetFile) -> int:
    """Tokens of the first row; 0 where there is none, or it is null or no list."""
    first = next(batches(content, ["input_ids"], 1), None)
    ids = first["input_ids"][0].as_py() if first is not None and len(first) else None
    return len(ids) if isinstance(ids, list) else 0
