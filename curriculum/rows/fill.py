"""A plan and spooled documents become packed rows: whole columns at a time, never token by token.

Columns of T values are laid out flat, row after row. `documents` are the numbers of the layout's
documents in the spool.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.rows.layout import Layout, context_histogram
from curriculum.rows.ragged import Int64s, Values, as_buffer
from curriculum.rows.spool import ID_BYTES, SpooledDocuments
from schemas.arrow import list_of
from schemas.packed_row import PIECE_TYPE

Int32s = npt.NDArray[np.int32]
ArrowArray: TypeAlias = "pa.Array[Any]"
_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], dtype=np.uint8)


def input_ids(layout: Layout, documents: Int64s, spooled: SpooledDocuments, pad_id: int) -> Int32s:
    """[n·T]: tokens of the documents, then pad_id."""
    return _padded(spooled.ids.take(documents), layout, pad_id)


def loss_mask(
    layout: Layout, documents: Int64s, spooled: SpooledDocuments
) -> npt.NDArray[np.uint8]:
    """[n·T]: 1 where a prediction counts; 0 at each document's last token and in padding."""
    return _padded(spooled.loss_mask.take(documents), layout, 0)


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


def lists(items: ArrowArray, counts: Int64s, kind: pa.DataType) -> ArrowArray:
    """Items end to end as lists of `counts` items each."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    listed: ArrowArray = pa.ListArray.from_arrays(
        pa.array(offsets, type=pa.int32()), items, type=list_of(kind)
    )
    return listed


def _padded(values: Values, layout: Layout, fill: int) -> Values:
    """[d] documents end to end become [n·T], filled up row by row."""
    rows = np.full((len(layout.valid), layout.row_length), fill, dtype=values.dtype)
    ends = np.cumsum(layout.valid).tolist()
    start = 0
    for row, end in enumerate(ends):
        rows[row, : end - start] = values[start:end]
        start = end
    return rows.reshape(-1)
