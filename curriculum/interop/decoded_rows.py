"""Rows decoded once, from where any of them can be taken in any order.

What has a value a token lies in mapped Arrow files, batch by batch, and is copied row by row; what is less
lies there as one batch a shard, of which Arrow takes many rows at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.structure import STRUCTURE_TOKENS

WIDE = ("input_ids", "loss_mask", "target_ids", "doc_ids", *STRUCTURE_TOKENS)
"""Columns of a value a token."""

Int64s = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedShard:
    """A shard in mapped files."""

    narrow: pa.RecordBatch
    wide: dict[str, tuple[Values, ...]]
    """[n, T] a batch."""
    first_rows: Int64s
    """First row of each batch."""

    def values(self, name: str, rows: Int64s) -> Iterator[Values]:
        """[T] for each of the rows, without a copy."""
        batches = np.searchsorted(self.first_rows, rows, side="right") - 1
        inside = rows - self.first_rows[batches]
        arrays = self.wide[name]
        for batch, row in zip(batches.tolist(), inside.tolist(), strict=True):
            yield arrays[batch][row]


def stage(tables: Iterable[pa.Table], schema: pa.Schema, file: Path) -> DecodedShard:
    """The tables of a shard in files whose names begin with `file`; memory holds only what is narrow."""
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
    """Rows in an order: each of them is row `rows[i]` of shard `numbers[i]`; T may differ between shards."""
    places = [(number, np.flatnonzero(numbers == number)) for number in np.unique(numbers).tolist()]
    parts = [shards[number].narrow.take(_numbers(rows[at])) for number, at in places]
    back = np.argsort(np.concatenate([at for _, at in places]))
    narrow = pa.Table.from_batches(parts).combine_chunks().take(_numbers(back))
    columns: dict[str, Any] = {name: narrow[name] for name in narrow.column_names}
    for name in (name for name in schema.names if name in WIDE):
        values: list[Any] = [None] * len(rows)
        for number, at in places:
            for place, each in zip(at.tolist(), shards[number].values(name, rows[at]), strict=True):
                values[place] = each
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
    ends = np.cumsum([len(each) for each in values], dtype=np.int32)
    offsets = pa.array(np.concatenate([np.zeros(1, dtype=np.int32), ends]), type=pa.int32())
    items: Any = pa.array(np.concatenate(values))
    return pa.ListArray.from_arrays(offsets, items, type=kind)
