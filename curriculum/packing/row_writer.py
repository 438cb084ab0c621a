"""Conversion of a plan and spooled documents to Parquet columns, in shards of limited size.

Columns of T values per row are laid out flat, row after row. In all functions, `documents` has the number in
the spool of each document in the layout.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curriculum.packing.boundaries import Int64s, RowLayout
from curriculum.packing.packed_rows import ArrowArray, RowTokens, as_column, lists, row_schema
from curriculum.packing.spool import ID_BYTES, SpooledDocuments, as_buffer
from curriculum.parquet import ShardWriter
from schemas.packed_row import (
    FAR_CONTEXT,
    HISTOGRAM_EDGES,
    PACKED_ROW_SCHEMA,
    PIECE_TYPE,
    ROW_MULTIPLE,
    RowFormat,
)
from schemas.structure import ROW_CHUNK_TYPE, STRUCTURE_EDGE_TYPE, STRUCTURE_TOKENS

KEY_DIGITS = 12
Int32s = npt.NDArray[np.int32]
_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], dtype=np.uint8)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLabels:
    """Labels that all rows of an artefact have in common; the domain is passed to each `write`."""

    rows_key: str
    """Full key of the artefact; its first 12 digits are the beginning of every pack_id."""
    family: str
    objective: str
    variant: int
    split: str
    structured: bool = False
    """True if the rows have STRUCTURE_COLUMNS; then all encodings in the spool must have structure."""


def pieces(layout: RowLayout, documents: Int64s, spooled: SpooledDocuments) -> ArrowArray:
    """Return the column `pieces`, with one list per row; token offsets count from the row's first token."""
    counts = spooled.pieces.counts(documents)
    table = spooled.pieces.take(documents)
    kind, token_start, token_end, byte_start, byte_end = table.T
    slot, start = _repeated(counts, layout.slot, layout.start)
    columns = (slot, kind, token_start + start, token_end + start, byte_start, byte_end)
    return _structs(columns, layout.per_row(counts), PIECE_TYPE)


def document_ids(layout: RowLayout, documents: Int64s, spooled: SpooledDocuments) -> ArrowArray:
    """Return the column `document_ids`, with one list per row; an id has 32 hex digits."""
    digits = _HEX[spooled.document_ids[documents]]
    offsets = np.arange(len(documents) + 1, dtype=np.int32) * (2 * ID_BYTES)
    items = pa.StringArray.from_buffers(len(documents), as_buffer(offsets), as_buffer(digits))
    return lists(items, layout.num_docs, pa.string())


def structure_columns(
    layout: RowLayout, documents: Int64s, spooled: SpooledDocuments
) -> dict[str, ArrowArray]:
    """Return the STRUCTURE_COLUMNS of the rows in a layout."""
    columns: dict[str, ArrowArray] = {}
    shape = (len(layout.num_docs), layout.row_length)
    codes = spooled.structure["codes"].take(documents)
    for name, column in zip(STRUCTURE_TOKENS, codes.T, strict=True):
        columns[name] = as_column(layout.fill(np.ascontiguousarray(column), 0).reshape(shape), name)
    chunk_counts = spooled.structure["chunks"].counts(documents)
    start, end, kind, level = spooled.structure["chunks"].take(documents).T
    slot, shift = _repeated(chunk_counts, layout.slot, layout.start)
    chunks = (start + shift, end + shift, kind, level, slot)
    columns["chunk_boundaries"] = _structs(chunks, layout.per_row(chunk_counts), ROW_CHUNK_TYPE)
    for name in ("call_edges", "type_edges"):
        counts = spooled.structure[name].counts(documents)
        source, target, label = spooled.structure[name].take(documents).T
        (shift,) = _repeated(counts, _chunks_before(layout, chunk_counts))
        edges = (source + shift, target + shift, label)
        columns[name] = _structs(edges, layout.per_row(counts), STRUCTURE_EDGE_TYPE)
    return columns


def _chunks_before(layout: RowLayout, counts: Int64s) -> Int64s:
    """Return the number of chunks that precede each document's chunks in its row, [d].

    `counts` is the number of chunks of each document: [2 3 1] in rows of 2 and 1 documents gives [0 2 0].
    """
    before = np.cumsum(counts) - counts
    chunks: Int64s = before - before[layout.first_document[:-1]][layout.row]
    return chunks


def _repeated(counts: Int64s, *values: Int64s) -> list[Int32s]:
    """Return each of `values`, in which the value of a document is repeated for each of its items.

    `counts` is the number of items of each document.
    """
    return [np.repeat(value.astype(np.int32), counts) for value in values]


def _structs(columns: tuple[Int32s, ...], counts: Int64s, kind: pa.StructType) -> ArrowArray:
    items = pa.StructArray.from_arrays(
        [pa.array(np.ascontiguousarray(column)) for column in columns], fields=list(kind)
    )
    return lists(items, counts, kind)


GROUP_TOKENS = 1 << 16
"""Number of positions in a row group. A random read of one row takes 0.7 ms; it would take 11 ms with a
million positions.
"""
BLOCK_TOKENS = 1 << 20
"""Number of positions that are filled at a time: about 30 MB, with structure 45 MB. With smaller blocks,
memory is returned to the system between blocks.
"""
SHARD_TOKENS = 1 << 26
"""Maximum number of positions in a file."""
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
"""Columns that a dictionary makes smaller. Token ids are smaller without a dictionary, as plain values
compressed by zstd.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowCounts:
    """Counts of written rows."""

    rows: int
    positions: int
    documents: int
    valid_tokens: int
    scored_tokens: int
    context_sum: int
    """Sum, over all scored tokens, of the number of tokens that precede them in their document."""
    context_histogram: tuple[int, ...]
    """Numbers of scored tokens with < 1k, 1–4k, 4–16k, > 16k preceding tokens of their document."""
    far: int
    """Number of scored tokens with at least FAR_CONTEXT preceding tokens; 0 if rows aren't longer than
    FAR_CONTEXT.
    """


def row_shards(
    folder: Path,
    schema: pa.Schema,
    *,
    row_length: int,
    group_tokens: int = GROUP_TOKENS,
    byte_by_byte: Sequence[str] = (),
) -> ShardWriter:
    """Open a writer of row shards.

    Args:
        folder: folder of the shards.
        schema: schema of the rows.
        row_length: number of positions in a row.
        group_tokens: number of positions in a row group.
        byte_by_byte: list columns for which the first bytes of all values are stored together, then the
            second bytes, and so on.
    """
    encodings = {f"{column}.list.element": BYTE_BY_BYTE for column in byte_by_byte}
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
    """Writer of the files data/part-00000.parquet, data/part-00001.parquet, … in a folder.

    The rows are written domain by domain.
    """

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
        self._format, self._labels = row_format, labels
        without = () if store_targets else ("target_ids",)
        self._schema = row_schema(row_format, without=without, structured=labels.structured)
        self._shards = row_shards(folder, self._schema, row_length=length)
        self._shard_rows = max(1, shard_tokens // length)
        self._next_row = 0
        self._room = 0

    def write(
        self, spooled: SpooledDocuments, order: Int64s, row_starts: Int64s, *, domain: str
    ) -> RowCounts:
        """Append the rows of a plan: row i holds order[row_starts[i] : row_starts[i + 1]].

        Every row must have a document with targets, so `order` must be planned over `spooled.with_targets()`.
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
            table = self.table(spooled, documents, starts - starts[0], domain=domain)
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

    def table(
        self, spooled: SpooledDocuments, documents: Int64s, row_starts: Int64s, *, domain: str
    ) -> pa.Table:
        """Return the next rows as a table: row i holds documents[row_starts[i] : row_starts[i + 1]]."""
        row_length = self._format.row_length
        layout = RowLayout(
            row_length=row_length,
            first_document=row_starts,
            lengths=spooled.lengths[documents],
        )
        shape = (len(layout.num_docs), row_length)
        rows = RowTokens(
            layout=layout,
            input_ids=layout.fill(spooled.ids.take(documents), self._format.pad_id).reshape(shape),
            loss_mask=layout.fill(spooled.loss_mask.take(documents), 0).reshape(shape),
            pad_id=self._format.pad_id,
        )
        assert rows.loss_mask.any(axis=1).all(), "a row has a target"
        columns = {
            **rows.columns(self._schema.names),
            **self._label_columns(shape[0], domain),
            "input_ids": as_column(rows.input_ids, "input_ids"),
            "loss_mask": as_column(rows.loss_mask, "loss_mask"),
            "doc_starts": lists(
                pa.array(layout.start.astype(np.int32)), layout.num_docs, pa.int32()
            ),
            "document_ids": document_ids(layout, documents, spooled),
            "pieces": pieces(layout, documents, spooled),
        }
        if self._labels.structured:
            assert spooled.structured, "a spool of documents with structure"
            columns |= structure_columns(layout, documents, spooled)
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)

    def _label_columns(self, rows: int, domain: str) -> dict[str, ArrowArray]:
        same: dict[str, Any] = {
            "family": self._labels.family,
            "objective": self._labels.objective,
            "variant": np.int32(self._labels.variant),
            "domain": domain,
            "split": self._labels.split,
        }
        columns: dict[str, ArrowArray] = {
            name: pa.repeat(pa.scalar(value), rows) for name, value in same.items()
        }
        prefix, first = self._labels.rows_key[:KEY_DIGITS], self._next_row
        pack_ids = [f"{prefix}-{row:010d}" for row in range(first, first + rows)]
        return {**columns, "pack_id": pa.array(pack_ids, type=pa.string())}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shards.close()


def _far(table: pa.Table, row_length: int) -> int:
    """Count the scored tokens that follow at least FAR_CONTEXT tokens of their document."""
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
    """Sum the column `context_histogram` over all rows, [4]."""
    counts = pc.list_flatten(table["context_histogram"]).to_numpy()
    sums: Int64s = counts.reshape(-1, len(HISTOGRAM_EDGES) + 1).sum(axis=0, dtype=np.int64)
    return sums
