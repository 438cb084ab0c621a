"""Rows into Parquet: a plan and spooled documents become columns, and shards of bounded size.

Columns of T values are laid out flat, row after row. `documents` are the numbers of the layout's
documents in the spool.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curriculum.packing.boundaries import Int64s, Layout, Values
from curriculum.packing.rows import ArrowArray, lists, target_ids
from curriculum.packing.spool import ID_BYTES, SpooledDocuments, as_buffer, structure_columns
from curriculum.parquet import ShardWriter
from schemas.packed_row import (
    FAR_CONTEXT,
    HISTOGRAM_EDGES,
    PACKED_ROW_SCHEMA,
    PIECE_TYPE,
    ROW_MULTIPLE,
    RowFormat,
)
from schemas.structure import STRUCTURE_COLUMNS, STRUCTURE_TOKENS

KEY_DIGITS = 12
Int32s = npt.NDArray[np.int32]
_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], dtype=np.uint8)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLabels:
    """Labels that all rows of one artefact share; a domain comes with each `write`."""

    rows_key: str
    """The artefact's full key; its first 12 digits begin every pack_id."""
    family: str
    objective: str
    variant: int
    split: str
    structured: bool = False
    """True if rows have STRUCTURE_COLUMNS; then all encodings in the spool have structure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowBuilder:
    """Makes tables of rows that differ in their documents only."""

    row_format: RowFormat
    labels: RowLabels
    store_targets: bool = True

    @property
    def schema(self) -> pa.Schema:
        """The contract's columns, with the format as metadata."""
        fields = [
            field for field in PACKED_ROW_SCHEMA if self.store_targets or field.name != "target_ids"
        ]
        fields += STRUCTURE_COLUMNS if self.labels.structured else ()
        metadata: dict[bytes | str, bytes | str] = dict(self.row_format.metadata().items())
        return pa.schema(fields, metadata=metadata)

    def table(
        self,
        spooled: SpooledDocuments,
        documents: Int64s,
        row_starts: Int64s,
        *,
        domain: str,
        first_row: int,
    ) -> pa.Table:
        """Row i holds documents[row_starts[i] : row_starts[i + 1]]; first_row numbers the first pack_id."""
        layout = Layout(
            row_length=self.row_format.row_length,
            first_document=row_starts,
            lengths=spooled.lengths[documents],
        )
        scored = layout.per_row(spooled.scored[documents])
        assert scored.min() > 0, "a row has a target"
        columns = self._token_columns(layout, documents, spooled)
        columns |= self._label_columns(len(scored), domain, first_row)
        columns |= {
            "doc_starts": lists(
                pa.array(layout.start.astype(np.int32)), layout.num_docs, pa.int32()
            ),
            "valid_token_count": pa.array(layout.valid.astype(np.int32)),
            "num_docs": pa.array(layout.num_docs.astype(np.int32)),
            "loss_token_count": pa.array(scored.astype(np.int32)),
            "attention_pairs": pa.array(layout.attention_pairs),
            "document_ids": document_ids(layout, documents, spooled),
            "pieces": pieces(layout, documents, spooled),
        }
        if self.labels.structured:
            assert spooled.structures is not None, "a spool of documents with structure"
            columns |= structure_columns(layout, documents, spooled.structures)
        schema = self.schema
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def _token_columns(
        self, layout: Layout, documents: Int64s, spooled: SpooledDocuments
    ) -> dict[str, ArrowArray]:
        ids = input_ids(layout, documents, spooled, self.row_format.pad_id)
        mask = loss_mask(layout, documents, spooled)
        columns: dict[str, Values] = {
            "input_ids": ids,
            "loss_mask": mask,
            "doc_ids": layout.doc_ids,
        }
        if self.store_targets:
            columns["target_ids"] = target_ids(ids, mask, self.row_format.pad_id)
        rows_of_tokens = np.full(len(layout.num_docs), layout.row_length)
        listed = {
            name: lists(pa.array(flat), rows_of_tokens, pa.from_numpy_dtype(flat.dtype))
            for name, flat in columns.items()
        }
        return {**listed, "context_histogram": histogram_lists(layout, mask)}

    def _label_columns(self, rows: int, domain: str, first_row: int) -> dict[str, ArrowArray]:
        prefix = self.labels.rows_key[:KEY_DIGITS]
        same: dict[str, Any] = {
            "family": self.labels.family,
            "objective": self.labels.objective,
            "variant": np.int32(self.labels.variant),
            "domain": domain,
            "split": self.labels.split,
        }
        columns: dict[str, ArrowArray] = {
            name: pa.repeat(pa.scalar(value), rows) for name, value in same.items()
        }
        pack_ids = [f"{prefix}-{first_row + row:010d}" for row in range(rows)]
        return {**columns, "pack_id": pa.array(pack_ids, type=pa.string())}


def input_ids(layout: Layout, documents: Int64s, spooled: SpooledDocuments, pad_id: int) -> Int32s:
    """[n·T]: tokens of the documents, then pad_id."""
    return layout.fill(spooled.ids.take(documents), pad_id)


def loss_mask(
    layout: Layout, documents: Int64s, spooled: SpooledDocuments
) -> npt.NDArray[np.uint8]:
    """[n·T]: 1 where a prediction counts; 0 at each document's last token and in padding."""
    return layout.fill(spooled.loss_mask.take(documents), 0)


def histogram_lists(layout: Layout, loss_mask: npt.NDArray[np.uint8]) -> ArrowArray:
    """`context_histogram` as lists of 4."""
    counts = layout.context_histogram(loss_mask)
    return lists(pa.array(counts.reshape(-1)), np.full(len(counts), counts.shape[1]), pa.int32())


def pieces(layout: Layout, documents: Int64s, spooled: SpooledDocuments) -> ArrowArray:
    """Lists of pieces, one a row; token offsets count from the row's first token."""
    counts = spooled.pieces.counts(documents)
    table = spooled.pieces.take(documents)
    kind, token_start, token_end, byte_start, byte_end = table.T
    slot, start = (
        np.repeat(values.astype(np.int32), counts) for values in (layout.slot, layout.start)
    )
    columns = (slot, kind, token_start + start, token_end + start, byte_start, byte_end)
    items = pa.StructArray.from_arrays(
        [pa.array(np.ascontiguousarray(column)) for column in columns], fields=list(PIECE_TYPE)
    )
    return lists(items, layout.per_row(counts), PIECE_TYPE)


def document_ids(layout: Layout, documents: Int64s, spooled: SpooledDocuments) -> ArrowArray:
    """Lists of 32 hex digits, one a document."""
    digits = _HEX[spooled.document_ids[documents]]
    offsets = np.arange(len(documents) + 1, dtype=np.int32) * (2 * ID_BYTES)
    items = pa.StringArray.from_buffers(len(documents), as_buffer(offsets), as_buffer(digits))
    return lists(items, layout.num_docs, pa.string())


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
    far: int
    """Scored tokens with FAR_CONTEXT or more, in rows longer than that."""


def row_shards(
    folder: Path,
    schema: pa.Schema,
    *,
    row_length: int,
    group_tokens: int = GROUP_TOKENS,
    byte_by_byte: Sequence[str] = (),
) -> ShardWriter:
    """Open shards of rows; lists of `byte_by_byte` keep their first bytes together, then the others."""
    encodings = {f"{each}.list.element": BYTE_BY_BYTE for each in byte_by_byte}
    return ShardWriter(
        folder,
        schema,
        group_rows=max(1, group_tokens // row_length),
        use_dictionary=_RECURRING,
        column_encoding=encodings or None,
        write_statistics=_SCALARS,
        write_page_checksum=True,
    )


class RowWriter:
    """Writes data/part-00000.parquet, data/part-00001.parquet … of a folder, one domain after another."""

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
        self._shards = row_shards(folder, self._filler.schema, row_length=length)
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
        done, far, histogram = 0, 0, np.zeros(len(HISTOGRAM_EDGES) + 1, dtype=np.int64)
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
            far += _far(table, self._format.row_length)
            done = upto
        return RowCounts(
            rows=rows,
            positions=rows * self._format.row_length,
            documents=len(order),
            valid_tokens=int(spooled.lengths[order].sum()),
            scored_tokens=int(spooled.scored[order].sum()),
            context_sum=int(spooled.context_sums[order].sum()),
            context_histogram=tuple(histogram.tolist()),
            far=far,
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


def _far(table: pa.Table, row_length: int) -> int:
    """Scored tokens with FAR_CONTEXT tokens of their document before them; the prediction is one further."""
    if row_length <= FAR_CONTEXT:
        return 0
    doc_ids, scored = (
        pc.list_flatten(table[name]).to_numpy().reshape(-1, row_length)
        for name in ("doc_ids", "loss_mask")
    )
    before = FAR_CONTEXT - 1
    same = doc_ids[:, before:] == doc_ids[:, : row_length - before]
    return int((same & (scored[:, before:] == 1)).sum())


def _histogram(table: pa.Table) -> Int64s:
    """[4]: `context_histogram` of all rows."""
    counts = pc.list_flatten(table["context_histogram"]).to_numpy()
    sums: Int64s = counts.reshape(-1, len(HISTOGRAM_EDGES) + 1).sum(axis=0, dtype=np.int64)
    return sums
