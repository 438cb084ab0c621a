"""Rows go into Parquet: shards of bounded size, small row groups, every stored column of the contract."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum.packing.layout import Int64s
from curriculum.packing.row_builder import RowBuilder
from curriculum.packing.row_builder import RowLabels as RowLabels
from curriculum.packing.spool import SpooledDocuments
from schemas.packed_row import HISTOGRAM_EDGES, PACKED_ROW_SCHEMA, ROW_MULTIPLE, RowFormat
from schemas.structure import STRUCTURE_TOKENS

GROUP_TOKENS = 1 << 16
"""Positions in a row group: 0.7 ms to read one row at random, 11 ms with a million."""
BLOCK_TOKENS = 1 << 20
"""Positions filled at a time: some 30 MB, 45 with structure. With fewer, memory goes back to the system in
between."""
SHARD_TOKENS = 1 << 26
"""Positions in a file."""
BYTE_BY_BYTE = "BYTE_STREAM_SPLIT"
_SCALARS = [field.name for field in PACKED_ROW_SCHEMA if not pa.types.is_list(field.type)]
_RECURRING: Any = [
    *(name for name in _SCALARS if name != "pack_id"),
    *(f"{name}.list.element" for name in ("loss_mask", "doc_ids", "context_histogram")),
    *(f"pieces.list.element.{name}" for name in ("doc", "kind")),
    *(f"{name}.list.element" for name in STRUCTURE_TOKENS),
    *(f"chunk_boundaries.list.element.{name}" for name in ("kind", "dep_level", "doc")),
    *(f"{name}.list.element.label" for name in ("call_edges", "type_edges")),
]
"""Columns that a dictionary makes small; token ids it makes larger than plain values under zstd."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowCounts:
    """Counts of written rows."""

    rows: int
    positions: int
    documents: int
    valid_tokens: int
    scored_tokens: int
    context_sum: int
    """Σ over scored tokens of the tokens of their document before them: over scored_tokens, the mean."""
    context_histogram: tuple[int, ...]
    """Scored tokens with < 1k, 1–4k, 4–16k, > 16k tokens of their document before them."""


class ShardWriter:
    """Writes tables of rows into part-00000.parquet, part-00001.parquet … of a folder, as they come."""

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        *,
        row_length: int,
        group_tokens: int = GROUP_TOKENS,
        byte_by_byte: Sequence[str] = (),
    ) -> None:
        """Write into `folder`; of lists of `byte_by_byte` all first bytes lie together, then all second."""
        self._folder = folder
        self._schema = schema
        self._group_rows = max(1, group_tokens // row_length)
        self._encodings: Any = {f"{each}.list.element": BYTE_BY_BYTE for each in byte_by_byte}
        self._shards = 0
        self._file: pq.ParquetWriter | None = None

    def begin(self) -> None:
        """Finish the shard that is open and open the next."""
        self.close()
        path = self._folder / f"part-{self._shards:05d}.parquet"
        self._file = pq.ParquetWriter(
            path,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_RECURRING,
            column_encoding=self._encodings or None,
            write_statistics=_SCALARS,
            write_page_checksum=True,
        )
        self._shards += 1

    def append(self, table: pa.Table) -> None:
        """Add rows to the open shard."""
        assert self._file is not None, "begin a shard first"
        self._file.write_table(table, row_group_size=self._group_rows)

    def close(self) -> None:
        """Finish the shard that is open; without it that file has no footer and no reader."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class RowWriter:
    """Writes part-00000.parquet, part-00001.parquet … into a folder, one domain after another."""

    def __init__(
        self,
        folder: Path,
        *,
        row_format: RowFormat,
        labels: RowLabels,
        store_targets: bool = True,
        shard_tokens: int = SHARD_TOKENS,
    ) -> None:
        length = row_format.row_length
        assert length % ROW_MULTIPLE == 0, f"a row has a multiple of {ROW_MULTIPLE} tokens"
        self._format = row_format
        self._filler = RowBuilder(row_format=row_format, labels=labels, store_targets=store_targets)
        self._shards = ShardWriter(folder, self._filler.schema, row_length=length)
        self._shard_rows = max(1, shard_tokens // length)
        self._next_row = 0
        self._room = 0

    def write(
        self, spooled: SpooledDocuments, order: Int64s, row_starts: Int64s, *, domain: str
    ) -> RowCounts:
        """Add the rows of a plan: row i holds documents order[row_starts[i] : row_starts[i + 1]].

        Every row must hold a document with targets: plan over `spooled.with_targets()`.
        """
        rows = len(row_starts) - 1
        done, histogram = 0, np.zeros(len(HISTOGRAM_EDGES) + 1, dtype=np.int64)
        while done < rows:
            if self._room == 0:
                self._shards.begin()
                self._room = self._shard_rows
            block_rows = max(1, BLOCK_TOKENS // self._format.row_length)
            upto = done + min(rows - done, self._room, block_rows)
            starts = row_starts[done : upto + 1]
            documents = order[starts[0] : starts[-1]]
            table = self._filler.table(
                spooled, documents, starts - starts[0], domain=domain, first_row=self._next_row
            )
            self._shards.append(table)
            self._room -= len(table)
            self._next_row += len(table)
            histogram += _histogram(table)
            done = upto
        return RowCounts(
            rows=rows,
            positions=rows * self._format.row_length,
            documents=len(order),
            valid_tokens=int(spooled.lengths[order].sum()),
            scored_tokens=int(spooled.scored[order].sum()),
            context_sum=int(spooled.context_sums[order].sum()),
            context_histogram=tuple(histogram.tolist()),
        )

    def close(self) -> None:
        """Finish the shard that is open; without it that file has no footer and no reader."""
        self._shards.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _histogram(table: pa.Table) -> Int64s:
    """[4]: `context_histogram` of all rows."""
    counts = pc.list_flatten(table["context_histogram"]).to_numpy()
    sums: Int64s = counts.reshape(-1, len(HISTOGRAM_EDGES) + 1).sum(axis=0, dtype=np.int64)
    return sums
