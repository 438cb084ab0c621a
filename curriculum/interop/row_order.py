"""Rows in stored order, or rows of a mixture in training order; each shard is decoded once.

A plan reads rows in random order, but Parquet decodes a whole row group to read one row. So the rows of
a plan are decoded once, into memory-mapped Arrow files in a scratch folder. Memory use is constant; the
scratch folder needs about 11 bytes per token of the source rows.

Columns with one value per token are stored batch by batch and copied row by row. The other columns are
stored as one batch per shard, from which Arrow takes many rows at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum import parquet
from curriculum.mixing.mix import PLAN_NAME
from curriculum.packing.read import load_format, read_rows
from curriculum.store import Artefact, Store
from schemas.errors import StoreError
from schemas.manifest import Manifest
from schemas.mixture import MixtureReport
from schemas.packed_row import PACKED_ROW_SCHEMA, RowFormat
from schemas.structure import STRUCTURE_COLUMNS, STRUCTURE_TOKENS

WIDE = ("input_ids", "loss_mask", "target_ids", "doc_ids", *STRUCTURE_TOKENS)
"""Columns with one value per token."""

Int64s = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedShard:
    """A shard decoded into memory-mapped files."""

    narrow: pa.RecordBatch
    wide: dict[str, tuple[Values, ...]]
    """Values of the columns WIDE by column name: one array [n, T] per batch."""
    first_rows: Int64s
    """Number of each batch's first row in the shard."""

    def values(self, name: str, rows: Int64s) -> Iterator[Values]:
        """Yield the values [T] of the column `name` for each of `rows`, without copying them."""
        batches = np.searchsorted(self.first_rows, rows, side="right") - 1
        inside = rows - self.first_rows[batches]
        arrays = self.wide[name]
        for batch, row in zip(batches.tolist(), inside.tolist(), strict=True):
            yield arrays[batch][row]


def stage(tables: Iterable[pa.Table], schema: pa.Schema, file: Path) -> DecodedShard:
    """Write the tables of a shard to memory-mapped files; the names of the files begin with `file`.

    Columns with one value per token aren't kept in memory.
    """
    wide = pa.schema([field for field in schema if field.name in WIDE])
    narrow = pa.schema([field for field in schema if field.name not in WIDE])
    kept = []
    with pa.ipc.new_file(str(file.with_suffix(".wide")), wide) as writer:
        for table in tables:
            kept.append(table.select(narrow.names))
            writer.write_table(table.select(wide.names).combine_chunks())
    with pa.ipc.new_file(str(file.with_suffix(".narrow")), narrow) as writer:
        writer.write_table(pa.concat_tables(kept).combine_chunks())
    batches = _mapped(file.with_suffix(".wide"))
    (one,) = _mapped(file.with_suffix(".narrow"))
    ends = np.cumsum([batch.num_rows for batch in batches], dtype=np.int64)
    return DecodedShard(
        narrow=one,
        wide={name: tuple(_matrix(batch, name) for batch in batches) for name in wide.names},
        first_rows=np.concatenate([[0], ends[:-1]]).astype(np.int64),
    )


def take_rows(
    shards: Sequence[DecodedShard], numbers: Int64s, rows: Int64s, schema: pa.Schema
) -> pa.Table:
    """Return a table whose row i is row `rows[i]` of shard `numbers[i]`; row lengths may differ."""
    places = [(number, np.flatnonzero(numbers == number)) for number in np.unique(numbers).tolist()]
    parts = [shards[number].narrow.take(_numbers(rows[at])) for number, at in places]
    back = np.argsort(np.concatenate([at for _, at in places]))
    narrow = pa.Table.from_batches(parts).combine_chunks().take(_numbers(back))
    columns: dict[str, Any] = {name: narrow[name] for name in narrow.column_names}
    for name in (name for name in schema.names if name in WIDE):
        values: list[Any] = [None] * len(rows)
        for number, at in places:
            for place, value in zip(
                at.tolist(), shards[number].values(name, rows[at]), strict=True
            ):
                values[place] = value
        columns[name] = _lists(values, schema.field(name).type)
    return pa.table([columns[name] for name in schema.names], schema=schema).combine_chunks()


def _numbers(values: Int64s) -> pa.Int64Array:
    return pa.array(values, type=pa.int64())


def _mapped(file: Path) -> list[pa.RecordBatch]:
    reader = pa.ipc.open_file(pa.memory_map(str(file)))
    return [reader.get_batch(number) for number in range(reader.num_record_batches)]


def _matrix(batch: pa.RecordBatch, name: str) -> Values:
    column: Any = batch.column(name)
    values: Values = column.flatten().to_numpy(zero_copy_only=True)
    return values.reshape(batch.num_rows, -1)


def _lists(values: Sequence[Values], kind: Any) -> Any:
    ends = np.cumsum([len(value) for value in values], dtype=np.int32)
    offsets = pa.array(np.concatenate([np.zeros(1, dtype=np.int32), ends]), type=pa.int32())
    items: Any = pa.array(np.concatenate(values))
    return pa.ListArray.from_arrays(offsets, items, type=kind)


PLAN_COLUMNS = ("rows_key", "shard", "row")
TABLE_TOKENS = 1 << 20
"""Approximate number of row positions per table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRows:
    """Rows of one rows artefact."""

    key: str
    files: tuple[Path, ...]
    row_format: RowFormat
    columns: tuple[str, ...]

    @staticmethod
    def of(artefact: Artefact) -> "SourceRows":
        """Return the rows of a rows artefact."""
        files = tuple(artefact.shards())
        if not files:
            raise StoreError(
                str(artefact.path),
                cause="there isn't a row in it",
                cure="Choose rows of another split, or build from more",
            )
        return SourceRows(
            key=artefact.key,
            files=files,
            row_format=load_format(files[0]),
            columns=tuple(parquet.read_schema(files[0]).names),
        )

    @property
    def structured(self) -> bool:
        """True if the rows have structure columns."""
        return STRUCTURE_TOKENS[0] in self.columns


@dataclass(frozen=True, kw_only=True, slots=True)
class Ordered:
    """Rows of one artefact in stored order, or rows of a mixture in training order."""

    artefact: Artefact
    sources: tuple[SourceRows, ...]
    plan: Path | None = None
    steps: int | None = None

    @staticmethod
    def of(store: Store, artefact: Artefact) -> "Ordered":
        """Return the rows of `artefact`, which is a rows artefact or a mixture.

        Raises:
            StoreError: if rows of the mixture are missing.
        """
        if artefact.manifest.stage == "rows":
            return Ordered(artefact=artefact, sources=(SourceRows.of(artefact),))
        report = artefact.reported(MixtureReport)
        return Ordered(
            artefact=artefact,
            sources=tuple(map(SourceRows.of, _rows_of(store, artefact.manifest))),
            plan=artefact.path / PLAN_NAME,
            steps=report.steps,
        )

    @property
    def structured(self) -> bool:
        """True if any row has structure; the structure codes of rows without structure are then 0."""
        return any(source.structured for source in self.sources)

    @property
    def row_format(self) -> RowFormat:
        """Format of the first source's rows.

        The rows of a mixture share tokenizer and padding, but their row lengths may differ.
        """
        return self.sources[0].row_format

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """All row lengths that occur, ascending."""
        return tuple(sorted({source.row_format.row_length for source in self.sources}))

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of the tables: those of `columns` that all sources store, and structure."""
        stored = set.intersection(*(set(source.columns) for source in self.sources))
        fields = [field for field in PACKED_ROW_SCHEMA if field.name in stored]
        fields += STRUCTURE_COLUMNS if self.structured else ()
        metadata: dict[bytes | str, bytes | str] = dict(self.row_format.metadata().items())
        if len(self.row_lengths) > 1:
            del metadata["row_length"]
        return pa.schema([field for field in fields if field.name in columns], metadata=metadata)

    def tables(self, columns: Sequence[str], scratch: Path) -> Iterator[pa.Table]:
        """Yield the rows in order, in tables of about TABLE_TOKENS row positions.

        The rows of a mixture are decoded into `scratch`, which must be an empty folder.
        """
        schema = self.schema(columns)
        if self.plan is None:
            (source,) = self.sources
            yield from _tables(source, source.files, schema)
            return
        staged = {source.key: _stage(source, schema, scratch) for source in self.sources}
        longest = self.row_lengths[-1]
        rows = max(1, TABLE_TOKENS // longest)
        yield from _planned(self.plan, staged, rows, schema)


def training_order(rows: int, steps: int) -> str:
    """Return the sentence on a dataset card about the order of a mixture's rows.

    >>> training_order(352, 44)
    'These are 352 rows, all of the 44 steps of the plan, in training order.'
    """
    return f"These are {rows:,} rows, all of the {steps:,} steps of the plan, in training order."


def _stage(source: SourceRows, schema: pa.Schema, scratch: Path) -> list[DecodedShard]:
    return [
        stage(_tables(source, [file], schema), schema, scratch / f"{source.key}-{number}")
        for number, file in enumerate(source.files)
    ]


def _planned(
    plan: Path,
    staged: Mapping[str, Sequence[DecodedShard]],
    rows: int,
    schema: pa.Schema,
) -> Iterator[pa.Table]:
    shards = [shard for group in staged.values() for shard in group]
    ends = np.cumsum([len(group) for group in staged.values()])
    first = dict(zip(staged, [0, *ends.tolist()], strict=False))
    for batch in parquet.File(plan).iter_batches(rows, columns=[*PLAN_COLUMNS]):
        keys = map(str, batch["rows_key"].to_pylist())
        source = np.array([first[key] for key in keys], dtype=np.int64)
        numbers = source + batch["shard"].to_numpy()
        yield take_rows(shards, numbers, batch["row"].to_numpy().astype(np.int64), schema)


def _tables(source: SourceRows, files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    stored = [name for name in schema.names if name in source.columns]
    for batch in read_rows(files, stored, row_format=source.row_format):
        yield _uniform(batch.table, source.row_format.row_length, schema)


def _uniform(table: pa.Table, row_length: int, schema: pa.Schema) -> pa.Table:
    """Return `table` with the columns of `schema`.

    Rows without structure get structure codes of 0 and no chunks.
    """
    columns: dict[str, Any] = {name: table[name] for name in table.column_names}
    for field in schema:
        if field.name not in columns:
            width = row_length if field.name in STRUCTURE_TOKENS else 0
            columns[field.name] = _blank(len(table), width, field.type)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _blank(rows: int, width: int, kind: Any) -> Any:
    """Return a column of `rows` lists, each with `width` zeros."""
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * width, type=pa.int32())
    codes = pa.array(np.zeros(rows * width, dtype=np.uint8))
    items = codes if width else pa.array([], type=kind.value_type)
    return pa.ListArray.from_arrays(offsets, items, type=kind)


def _rows_of(store: Store, mixture: Manifest) -> list[Artefact]:
    wanted = {record.key for record in mixture.inputs}
    found = {
        artefact.key: artefact for artefact in store.artefacts("rows") if artefact.key in wanted
    }
    if lacking := wanted - found.keys():
        raise StoreError(
            f"mixture {mixture.key[:12]}",
            ", ".join(sorted(key[:12] for key in lacking)),
            cause="rows that it is made of aren't there",
            cure="Build them again, or merge the workspace that holds them",
        )
    return list(found.values())
