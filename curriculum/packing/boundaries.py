"""Boundaries of documents in rows: `RowLayout` and the arrays derived from it.

For example, a row of 7 positions with two documents, of 3 and 2 tokens, has these arrays:

    input_ids   [BOS a EOS BOS c PAD PAD]      doc_starts   [0 3]       lengths  [3 2]
    doc_ids     [ 0  0 0   1  1  2   2 ]       cu_seqlens   [0 3 5 7]   valid    [5]
    position_ids[ 0  1 2   0  1  0   1 ]

The padding is the last segment of its row; its id is num_docs. cu_seqlens always ends at the end of a row. n
rows of T positions are treated as one flat row of n·T positions.
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
    """Raise an error unless every document has at least one token.

    Raises:
        PackError: names the first empty document.
    """
    if len(lengths) and lengths.min() < 1:
        empty = int(np.argmax(lengths < 1))
        raise PackError(
            f"document {empty}",
            f"{lengths[empty]} tokens",
            cause="a document in a row has at least one token",
            cure="Drop empty documents before packing",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLayout:
    """Positions of d documents in n rows. Rows and documents are counted from 0."""

    row_length: int
    first_document: Int64s
    """[n + 1]: row i holds the documents first_document[i] : first_document[i + 1]."""
    lengths: Int64s
    """[d]: number of tokens of each document, at least 1; sorted by row and slot."""

    @staticmethod
    def from_starts(
        doc_starts: Int64s, num_docs: Int64s, valid: Int64s, row_length: int
    ) -> "RowLayout":
        """Build the layout from `doc_starts`, the first position of each document in its row, row after row.

        `num_docs` and `valid` are the numbers of documents and of tokens of each row. The doc_starts [0 3] of
        one row with 2 documents and 5 tokens give the lengths [3 2].
        """
        first_document = np.concatenate([[0], np.cumsum(num_docs)])
        ends = np.append(doc_starts[1:], 0)
        ends[first_document[1:] - 1] = valid
        return RowLayout(
            row_length=row_length, first_document=first_document, lengths=ends - doc_starts
        )

    def __post_init__(self) -> None:
        assert not len(self.lengths) or self.valid.max() <= self.row_length, "a row is too full"

    @property
    def num_docs(self) -> Int64s:
        """Number of documents of each row, [n]."""
        return np.diff(self.first_document)

    @property
    def valid(self) -> Int64s:
        """Number of tokens of each row without padding, [n]."""
        return self.per_row(self.lengths)

    @property
    def row(self) -> Int64s:
        """Row of each document, [d]."""
        return np.repeat(np.arange(len(self.num_docs)), self.num_docs)

    @property
    def slot(self) -> Int64s:
        """Index of each document within its row, counted from 0, [d]."""
        return np.arange(len(self.lengths)) - self.first_document[self.row]

    @property
    def start(self) -> Int64s:
        """First position of each document within its row, [d]."""
        before = np.cumsum(self.lengths) - self.lengths
        starts: Int64s = before - before[self.first_document[:-1]][self.row]
        return starts

    @property
    def flat_start(self) -> Int64s:
        """First position of each document if all rows are joined to one flat row, [d]."""
        return self.row * self.row_length + self.start

    @property
    def doc_ids(self) -> Int32s:
        """Id of the segment of each position, [n·T]: lengths 3, 2 in a row of 7 -> [0 0 0 1 1 2 2].

        A segment is a document or the padding of a row.
        """
        after_row = self.first_document[1:]
        slots = np.insert(self.slot, after_row, self.num_docs)
        return np.repeat(slots.astype(np.int32), self._with_padding)

    @property
    def cu_seqlens(self) -> Int32s:
        """Borders of all segments if all rows are joined: lengths 3, 2 in a row of 7 -> [0 3 5 7].

        A full row has no padding segment: lengths 3, 4 in a row of 7 -> [0 3 7].
        """
        segments = self._with_padding
        return np.concatenate([[0], np.cumsum(segments[segments > 0])]).astype(np.int32)

    @property
    def position_ids(self) -> Int32s:
        """Position of each token within its segment, [n·T]: lengths 3, 2 in a row of 7 -> [0 1 2 0 1 0 1]."""
        edges = self.cu_seqlens
        everywhere = np.arange(edges[-1], dtype=np.int32)
        return everywhere - np.repeat(edges[:-1], np.diff(edges))

    @property
    def attention_pairs(self) -> Int64s:
        """Number of pairs that masked attention computes per row, [n]: Σ len·(len+1)/2 over documents."""
        return self.per_row(self.lengths * (self.lengths + 1) // 2)

    @property
    def _with_padding(self) -> Int64s:
        """Lengths of all segments: for each row, its documents, then its padding (maybe 0)."""
        return np.insert(self.lengths, self.first_document[1:], self.row_length - self.valid)

    def context_histogram(self, loss_mask: npt.NDArray[np.uint8]) -> Int32s:
        """Count the scored tokens of each row by the number of tokens before them in their document, [n, 4].

        `loss_mask` is [n·T]. Position p of a document predicts a token with p + 1 preceding tokens, so the
        first bucket ends at position 1022.
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
        """Distribute one value per token over the rows, [n·T]; padding gets the value `blank`.

        `values` has the tokens of all documents in the order of the rows. The values [5 6 7 8 9] for lengths
        3, 2 in a row of 7 give [5 6 7 8 9 0 0].
        """
        rows = np.full((len(self.valid), self.row_length), blank, dtype=values.dtype)
        start = 0
        for row, end in enumerate(np.cumsum(self.valid).tolist()):
            rows[row, : end - start] = values[start:end]
            start = end
        return rows.reshape(-1)

    def filter(self, rows: npt.NDArray[np.bool_]) -> "RowLayout":
        """Return the layout of those rows for which the mask `rows` [n] is True."""
        return RowLayout(
            row_length=self.row_length,
            first_document=np.concatenate([[0], np.cumsum(self.num_docs[rows])]),
            lengths=self.lengths[rows[self.row]],
        )

    def per_row(self, values: Int64s) -> Int64s:
        """Return, for each row, the sum of the values of its documents, [n]; `values` is [d]."""
        sums: Int64s = np.add.reduceat(values, self.first_document[:-1])
        return sums
