"""Where documents lie in n rows, and all that follows from it without looking at a token."""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curriculum.rows.ragged import Int64s
from schemas.packed_row import HISTOGRAM_EDGES

Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where n rows of d documents hold them. Rows and documents are counted from the block's first."""

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
