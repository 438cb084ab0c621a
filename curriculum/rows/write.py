"""Rows go into Parquet: shards of bounded size, small row groups, every stored column of the contract."""

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.rows import fill
from curriculum.rows.fill import ArrowArray
from curriculum.rows.layout import Layout, attention_pairs, doc_ids
from curriculum.rows.ragged import Int64s, Values
from curriculum.rows.spool import SpooledDocuments
from curriculum.rows.targets import target_ids
from schemas.packed_row import PACKED_ROW_SCHEMA, ROW_MULTIPLE, RowFormat

GROUP_TOKENS = 1 << 16
"""Positions in a row group: 0.7 ms to read one row at random, 11 ms with a million."""
BLOCK_TOKENS = 1 << 20
"""Positions filled at a time: some 30 MB."""
SHARD_TOKENS = 1 << 26
"""Positions in a file."""
KEY_DIGITS = 12
_SCALARS = [field.name for field in PACKED_ROW_SCHEMA if not pa.types.is_list(field.type)]
_RECURRING: Any = [
    *(name for name in _SCALARS if name != "pack_id"),
    *(f"{name}.list.element" for name in ("loss_mask", "doc_ids", "context_histogram")),
    *(f"pieces.list.element.{name}" for name in ("doc", "kind")),
]
"""Columns that a dictionary makes small; token ids it makes larger than plain values under zstd."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLabels:
    """What all rows of one artefact have in common; a domain comes with each `write`."""

    rows_key: str
    """The artefact's full key; its first 12 digits begin every pack_id."""
    family: str
    objective: str
    variant: int
    split: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RowCounts:
    """What was written."""

    rows: int
    positions: int
    documents: int
    valid_tokens: int
    scored_tokens: int


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
        self._folder = folder
        self._format = row_format
        self._labels = labels
        self._schema = _schema(row_format, store_targets=store_targets)
        self._group_rows = max(1, GROUP_TOKENS // length)
        self._shard_rows = max(1, shard_tokens // length)
        self._shards = 0
        self._next_row = 0
        self._room = 0
        self._file: pq.ParquetWriter | None = None

    def write(
        self, spooled: SpooledDocuments, order: Int64s, row_starts: Int64s, *, domain: str
    ) -> RowCounts:
        """Add the rows of a plan: row i holds documents order[row_starts[i] : row_starts[i + 1]].

        Every row must hold a document with targets: plan over `spooled.with_targets()`.
        """
        rows = len(row_starts) - 1
        done = 0
        while done < rows:
            if self._room == 0:
                self._open_shard()
            block_rows = max(1, BLOCK_TOKENS // self._format.row_length)
            upto = done + min(rows - done, self._room, block_rows)
            starts = row_starts[done : upto + 1]
            self._append(self._table(spooled, order[starts[0] : starts[-1]], starts, domain))
            done = upto
        return RowCounts(
            rows=rows,
            positions=rows * self._format.row_length,
            documents=len(order),
            valid_tokens=int(spooled.lengths[order].sum()),
            scored_tokens=int(spooled.scored[order].sum()),
        )

    def _append(self, table: pa.Table) -> None:
        assert self._file is not None, "a shard is open wherever there is room"
        self._file.write_table(table, row_group_size=self._group_rows)
        self._room -= len(table)
        self._next_row += len(table)

    def _table(
        self, spooled: SpooledDocuments, documents: Int64s, row_starts: Int64s, domain: str
    ) -> pa.Table:
        layout = Layout(
            row_length=self._format.row_length,
            first_document=row_starts - row_starts[0],
            lengths=spooled.lengths[documents],
        )
        pad_id, labels, rows = self._format.pad_id, self._labels, len(layout.num_docs)
        ids = fill.input_ids(layout, documents, spooled, pad_id)
        mask = fill.loss_mask(layout, documents, spooled)
        scored = layout.per_row(spooled.scored[documents])
        assert scored.min() > 0, "a row without targets teaches nothing"
        columns: dict[str, ArrowArray] = {
            "pack_id": pa.array(self._pack_ids(rows)),
            "input_ids": self._token_lists(ids),
            "loss_mask": self._token_lists(mask),
            "doc_ids": self._token_lists(doc_ids(layout)),
            "doc_starts": fill.lists(
                pa.array(layout.start.astype(np.int32)), layout.num_docs, pa.int32()
            ),
            "valid_token_count": pa.array(layout.valid.astype(np.int32)),
            "num_docs": pa.array(layout.num_docs.astype(np.int32)),
            "loss_token_count": pa.array(scored.astype(np.int32)),
            "attention_pairs": pa.array(attention_pairs(layout)),
            "context_histogram": fill.histogram_lists(layout, mask),
            "family": _constant(labels.family, rows),
            "objective": _constant(labels.objective, rows),
            "variant": _constant(np.int32(labels.variant), rows),
            "domain": _constant(domain, rows),
            "split": _constant(labels.split, rows),
            "document_ids": fill.document_ids(layout, documents, spooled),
            "pieces": fill.pieces(layout, documents, spooled),
        }
        if "target_ids" in self._schema.names:
            columns["target_ids"] = self._token_lists(target_ids(ids, mask, pad_id))
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)

    def _token_lists(self, flat: Values) -> ArrowArray:
        length = self._format.row_length
        return fill.lists(
            pa.array(flat), np.full(len(flat) // length, length), pa.from_numpy_dtype(flat.dtype)
        )

    def _pack_ids(self, rows: int) -> list[str]:
        prefix = self._labels.rows_key[:KEY_DIGITS]
        return [f"{prefix}-{self._next_row + row:010d}" for row in range(rows)]

    def _open_shard(self) -> None:
        self.close()
        path = self._folder / f"part-{self._shards:05d}.parquet"
        self._file = pq.ParquetWriter(
            path,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_RECURRING,
            write_statistics=_SCALARS,
            write_page_checksum=True,
        )
        self._shards += 1
        self._room = self._shard_rows

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


def _schema(row_format: RowFormat, *, store_targets: bool) -> pa.Schema:
    kept = [field for field in PACKED_ROW_SCHEMA if store_targets or field.name != "target_ids"]
    metadata: dict[bytes | str, bytes | str] = dict(row_format.metadata().items())
    return pa.schema(kept, metadata=metadata)


def _constant(value: Any, rows: int) -> ArrowArray:
    repeated: ArrowArray = pa.repeat(pa.scalar(value), rows)
    return repeated
