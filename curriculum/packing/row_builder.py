"""A plan and spooled documents become packed rows: whole columns at a time, never token by token.

Columns of T values are laid out flat, row after row. `documents` are the numbers of the layout's
documents in the spool.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing.layout import (
    ArrowArray,
    Int64s,
    Layout,
    Values,
    as_buffer,
    attention_pairs,
    context_histogram,
    doc_ids,
    lists,
    padded,
    target_ids,
)
from curriculum.packing.spool import SpooledDocuments
from curriculum.packing.structure_columns import ID_BYTES, structure_columns
from schemas.packed_row import PACKED_ROW_SCHEMA, PIECE_TYPE, RowFormat
from schemas.structure import STRUCTURE_COLUMNS

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
            "attention_pairs": pa.array(attention_pairs(layout)),
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
            "doc_ids": doc_ids(layout),
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
    return padded(spooled.ids.take(documents), layout, pad_id)


def loss_mask(
    layout: Layout, documents: Int64s, spooled: SpooledDocuments
) -> npt.NDArray[np.uint8]:
    """[n·T]: 1 where a prediction counts; 0 at each document's last token and in padding."""
    return padded(spooled.loss_mask.take(documents), layout, 0)


def histogram_lists(layout: Layout, loss_mask: npt.NDArray[np.uint8]) -> ArrowArray:
    """`context_histogram` as lists of 4."""
    counts = context_histogram(layout, loss_mask)
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
