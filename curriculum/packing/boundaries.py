"""Boundaries of documents in rows: one convention, `Layout`, and every view of it.

    input_ids   [BOS a EOS BOS c PAD PAD]      doc_starts   [0 3]       lengths  [3 2]
    doc_ids     [ 0  0 0   1  1  2   2 ]       cu_seqlens   [0 3 5 7]   valid    [5]
    position_ids[ 0  1 2   0  1  0   1 ]

Padding is the last segment of its row, with id num_docs; cu_seqlens always ends at the end of a row. n rows
are one flat row of n·T positions.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import PackError
from schemas.packed_row import HISTOGRAM_EDGES

Values = npt.NDArray[Any]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


def require_tokens(lengths: Int64s) -> None:
    """Raise unless every document has a token.

    Raises:
        PackError: naming the first that has none.
    """
    if len(lengths) and lengths.min() < 1:
        empty = int(np.argmax(lengths < 1))
        raise PackError(
            f"document {empty}",
            f"{lengths[empty]} tokens",
            cause="a row holds documents of one token or more",
            cure="Leave out documents without a token",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Places of d documents in n rows; rows and documents are counted from 0."""

    row_length: int
    first_document: Int64s
    """[n + 1]: row i holds documents first_document[i] : first_document[i + 1]."""
    lengths: Int64s
    """[d]: tokens of each document, by row and slot; at least 1."""

    @staticmethod
    def of(doc_starts: Int64s, num_docs: Int64s, valid: Int64s, row_length: int) -> "Layout":
        """The layout of rows by their doc_starts end to end, and how many documents and tokens each has.

        Starts [0 3] of one row with 2 documents and 5 valid tokens -> lengths [3 2].
        """
        first_document = np.concatenate([[0], np.cumsum(num_docs)])
        ends = np.append(doc_starts[1:], 0)
        ends[first_document[1:] - 1] = valid
        return Layout(
            row_length=row_length, first_document=first_document, lengths=ends - doc_starts
        )

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

    @property
    def doc_ids(self) -> Int32s:
        """[n·T]: the segment of each position: lengths 3, 2 in a row of 7 -> [0 0 0 1 1 2 2]."""
        after_row = self.first_document[1:]
        slots = np.insert(self.slot, after_row, self.num_docs)
        return np.repeat(slots.astype(np.int32), self._with_padding)

    @property
    def cu_seqlens(self) -> Int32s:
        """Edges of all segments, rows laid end to end: lengths 3, 2 in a row of 7 -> [0 3 5 7].

        A full row has no padding segment: lengths 3, 4 in a row of 7 -> [0 3 7].
        """
        segments = self._with_padding
        return np.concatenate([[0], np.cumsum(segments[segments > 0])]).astype(np.int32)

    @property
    def position_ids(self) -> Int32s:
        """[n·T]: positions that restart at each segment: lengths 3, 2 in a row of 7 -> [0 1 2 0 1 0 1]."""
        edges = self.cu_seqlens
        everywhere = np.arange(edges[-1], dtype=np.int32)
        return everywhere - np.repeat(edges[:-1], np.diff(edges))

    @property
    def attention_pairs(self) -> Int64s:
        """[n]: Σ len·(len+1)/2 over the documents of each row."""
        return self.per_row(self.lengths * (self.lengths + 1) // 2)

    @property
    def _with_padding(self) -> Int64s:
        """Lengths of the documents and, after those of each row, of its padding, which may be 0."""
        return np.insert(self.lengths, self.first_document[1:], self.row_length - self.valid)

    def context_histogram(self, loss_mask: npt.NDArray[np.uint8]) -> Int32s:
        """[n, 4]: scored tokens by how many tokens of their document are before them; `loss_mask` is [n·T].

        The token that position p of a document predicts has p + 1 before it, so the first bucket ends at
        position 1022.
        """
        scored = np.zeros(len(loss_mask) + 1, dtype=np.int64)
        np.cumsum(loss_mask, out=scored[1:])
        start = self.flat_start
        below = [
            scored[start + np.minimum(self.lengths, edge - 1)] for edge in (1, *HISTOGRAM_EDGES)
        ]
        below.append(scored[start + self.lengths])
        counts = [self.per_row(upper - lower) for lower, upper in itertools.pairwise(below)]
        return np.stack(counts, axis=1).astype(np.int32)

    def fill(self, values: Values, blank: int) -> Values:
        """[n·T]: a value a token, documents end to end, become rows; padding is `blank`.

        Values [5 6 7 8 9] of lengths 3, 2 in a row of 7 -> [5 6 7 8 9 0 0].
        """
        rows = np.full((len(self.valid), self.row_length), blank, dtype=values.dtype)
        start = 0
        for row, end in enumerate(np.cumsum(self.valid).tolist()):
            rows[row, : end - start] = values[start:end]
            start = end
        return rows.reshape(-1)

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
