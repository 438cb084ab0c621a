"""Layout of documents in rows, as arrays: variable-length columns, positions, targets, list columns."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.document import list_of
from schemas.packed_row import HISTOGRAM_EDGES

Values = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]


class RaggedWriter:
    """Appends entries; memory doesn't grow with them."""

    def __init__(self, path: Path) -> None:
        self._values: BinaryIO = path.with_suffix(".values").open("wb")
        self._offsets: BinaryIO = path.with_suffix(".offsets").open("wb")
        self._end = 0
        np.zeros(1, dtype=np.int64).tofile(self._offsets)

    def append(self, values: Values, counts: Int64s) -> None:
        """Add entries of `counts` items, laid end to end along the first axis of `values`."""
        assert int(counts.sum()) == len(values), "counts and values of one batch belong together"
        np.ascontiguousarray(values).tofile(self._values)
        item_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:]))
        ends = self._end + np.cumsum(counts) * item_bytes
        ends.astype(np.int64).tofile(self._offsets)
        self._end += len(values) * item_bytes

    def close(self) -> None:
        """Everything that was added is in the files."""
        self._values.close()
        self._offsets.close()


class VariableLengthColumn:
    """Reads entries by number; the files are mapped, not loaded."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int = 1) -> None:
        self._values = mapped(path.with_suffix(".values"), np.uint8)
        self._offsets = mapped(path.with_suffix(".offsets"), np.int64)
        self._dtype = np.dtype(dtype)
        self._width = width

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def counts(self, entries: Int64s | slice = slice(None)) -> Int64s:
        """Items of the given entries, or of all."""
        item_bytes = self._dtype.itemsize * self._width
        if isinstance(entries, slice):
            return np.diff(self._offsets) // item_bytes
        counts: Int64s = (self._offsets[entries + 1] - self._offsets[entries]) // item_bytes
        return counts

    def take(self, entries: Int64s) -> Values:
        """The items of the given entries end to end, [sum] or [sum, width]: one memcpy an entry.

        Entries [[7 8] [9]], taken in the order 1 0, are [9 7 8].
        """
        # Arrow copies a binary entry as a block, where numpy would index item by item.
        everything = pa.Array.from_buffers(
            pa.large_binary(),
            len(self),
            [None, as_buffer(self._offsets), as_buffer(self._values)],
        )
        data = everything.take(entries).buffers()[2]
        flat = np.frombuffer(memoryview(data) if data else b"", dtype=self._dtype)
        return flat if self._width == 1 else flat.reshape(-1, self._width)


def mapped(path: Path, dtype: npt.DTypeLike) -> Values:
    """A file as an array that the kernel pages in; an empty file, which can't be mapped, is empty."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


def as_buffer(array: Values) -> pa.Buffer:
    """An array's bytes as Arrow sees them, without a copy."""
    return pa.py_buffer(array.data)


Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Places of d documents in n rows. Rows and documents are counted from the block's first."""

    row_length: int
    first_document: Int64s
    """[n + 1]: row i holds documents first_document[i] : first_document[i + 1]."""
    lengths: Int64s
    """[d]: tokens of each document, by row and slot; at least 1."""

    def __post_init__(self) -> None:
        assert not len(self.lengths) or self.valid.max() <= self.row_length, "a row is too full"

    @property
    def num_docs(self) -> Int64s:
        """[n]."""
        return np.diff(self.first_document)

    @property
    def valid(self) -> Int64s:
        """[n]: tokens that aren't padding."""
        return self.per_row(self.lengths)

    @property
    def row(self) -> Int64s:
        """[d]: the row of each document."""
        return np.repeat(np.arange(len(self.num_docs)), self.num_docs)

    @property
    def slot(self) -> Int64s:
        """[d]: the place of each document in its row, 0, 1, 2 and so on."""
        return np.arange(len(self.lengths)) - self.first_document[self.row]

    @property
    def start(self) -> Int64s:
        """[d]: the position in its row at which each document begins."""
        before = np.cumsum(self.lengths) - self.lengths
        starts: Int64s = before - before[self.first_document[:-1]][self.row]
        return starts

    @property
    def flat_start(self) -> Int64s:
        """[d]: where each document begins, rows laid end to end."""
        return self.row * self.row_length + self.start

    def only(self, rows: npt.NDArray[np.bool_]) -> "Layout":
        """The rows where `rows` is true."""
        return Layout(
            row_length=self.row_length,
            first_document=np.concatenate([[0], np.cumsum(self.num_docs[rows])]),
            lengths=self.lengths[rows[self.row]],
        )

    def per_row(self, values: Int64s) -> Int64s:
        """Sums of the documents' values, row by row."""
        sums: Int64s = np.add.reduceat(values, self.first_document[:-1])
        return sums


def doc_ids(layout: Layout) -> Int32s:
    """[n·T]: lengths 2, 1 in a row of 4 -> [0 0 1 2]."""
    after_row = layout.first_document[1:]
    lengths = np.insert(layout.lengths, after_row, layout.row_length - layout.valid)
    slots = np.insert(layout.slot, after_row, layout.num_docs)
    return np.repeat(slots.astype(np.int32), lengths)


def attention_pairs(layout: Layout) -> Int64s:
    """[n]: Σ len·(len+1)/2 over the documents of each row."""
    return layout.per_row(layout.lengths * (layout.lengths + 1) // 2)


def context_histogram(layout: Layout, loss_mask: npt.NDArray[np.uint8]) -> Int32s:
    """[n, 4]: scored tokens by how many tokens of their document stand before them.

    The token that position p of a document predicts has p + 1 before it, so the first bucket ends at
    position 1022.
    """
    scored = np.zeros(len(loss_mask) + 1, dtype=np.int64)
    np.cumsum(loss_mask, out=scored[1:])
    start = layout.flat_start
    below = [scored[start + np.minimum(layout.lengths, edge - 1)] for edge in (1, *HISTOGRAM_EDGES)]
    below.append(scored[start + layout.lengths])
    counts = [layout.per_row(upper - lower) for lower, upper in itertools.pairwise(below)]
    return np.stack(counts, axis=1).astype(np.int32)


def target_ids(input_ids: Int32s, loss_mask: npt.NDArray[np.uint8], pad_id: int) -> Int32s:
    """The token after each, pad_id where it doesn't count: [5 6 7 8] masked [1 0 1 0] -> [6 P 8 P].

    Any number of rows, as [n, T] or end to end. The shift reads past each row's end; it can't be seen,
    because the mask is 0 at the last token of every document, and so at the last of every row.
    """
    targets = np.empty_like(input_ids)
    flat = targets.reshape(-1)
    flat[:-1] = input_ids.reshape(-1)[1:]
    flat[-1:] = pad_id
    np.putmask(targets, loss_mask == 0, pad_id)
    return targets


ArrowArray: TypeAlias = "pa.Array[Any]"


def lists(items: ArrowArray, counts: Int64s, kind: pa.DataType) -> ArrowArray:
    """Items end to end as lists of `counts` items each."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    listed: ArrowArray = pa.ListArray.from_arrays(
        pa.array(offsets, type=pa.int32()), items, type=list_of(kind)
    )
    return listed


def padded(values: Values, layout: Layout, fill: int) -> Values:
    """[d] documents end to end become [n·T], filled up row by row."""
    rows = np.full((len(layout.valid), layout.row_length), fill, dtype=values.dtype)
    ends = np.cumsum(layout.valid).tolist()
    start = 0
    for row, end in enumerate(ends):
        rows[row, : end - start] = values[start:end]
        start = end
    return rows.reshape(-1)
