"""Lengths of documents where leaks hide, at the sizes of a job."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from curriculum.model.inputs import SPAN
from curriculum.model.masks import BLOCK
from schemas.job import ModelSpec

Layout = tuple[int, ...]

CHUNK = 64


def layouts(row_length: int) -> tuple[Layout, ...]:
    """Lengths of documents in rows of that length, the last often read as padding.

    Boundaries stand at edges of blocks (128) and of chunks (64) and one beside them, documents have 1, 2
    and 3 tokens, one fills its row. 256 -> (127 1 128), (64 64 64 64), (63 66 62 65), …
    """
    T = row_length
    cuts = (
        (BLOCK - 1, BLOCK, T - BLOCK),
        (CHUNK, BLOCK, BLOCK + CHUNK, T - CHUNK),
        (CHUNK - 1, BLOCK + 1, T - BLOCK + 1, T - CHUNK - 1),
        (CHUNK + 1, BLOCK + 2, T - BLOCK - 1, T - CHUNK + 1),
        (1, 3, 6, T // 2, T - 1),
        (),
        (T // 7, T // 2, T * 5 // 6, T - 2),
        (T * 2 // 5, T * 3 // 5),
    )
    return tuple(_cut_at(each, T) for each in cuts)


def _cut_at(cuts: Sequence[int], row_length: int) -> Layout:
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < row_length}), row_length]
    return tuple(end - start for start, end in itertools.pairwise(edges))


def doc_ids_of(layouts: Sequence[Sequence[int]]) -> Tensor:
    """Ids of rows from the lengths of their documents: (2, 1), (3,) -> [[0 0 1] [0 0 0]]."""
    rows = [
        torch.arange(len(lengths), dtype=torch.int32).repeat_interleave(torch.tensor(lengths))
        for lengths in layouts
    ]
    return torch.stack(rows)


MANY = 260
"""Documents of the fullest row: more than a byte counts."""
LONG_ROW = 8192
SHORT_ROW = 2048
"""Rows up to this many tokens are cheap: each layout has a row of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Sizes at which layers of a model change what they do."""

    row_length: int
    kernel: int
    chunk: int
    block: int = BLOCK
    span: int = SPAN

    @staticmethod
    def of(spec: ModelSpec, row_length: int) -> "Sizes":
        """The sizes of a model in rows of this length."""
        return Sizes(row_length=row_length, kernel=spec.conv_kernel, chunk=spec.mamba.chunk)

    @property
    def edges(self) -> tuple[int, ...]:
        """Lengths at and one beside each of the sizes, and one that the second level of a scan reads."""
        beside = (size + by for size in (self.kernel, self.chunk, self.block) for by in (-1, 0, 1))
        second = self.span * self.chunk + self.chunk + 1
        return tuple(dict.fromkeys(n for n in (*beside, max(second, 2049)) if n > 0))


def step_layouts(sizes: Sizes) -> tuple[Layout, ...]:
    """Lengths of documents in the rows of one step: four long rows, or twice as many short ones.

    One document that fills its row, before another row of its micro-batch; a row of more than 256 documents,
    of one token most of them; lengths and boundaries at kernels, chunks and blocks and one beside; a document
    with a second level of the scan; padding, and rows without. What doesn't fit into a row is left out.
    """
    T = sizes.row_length
    many, mixed = _many(sizes), _random(T, seed=1)
    if T > SHORT_ROW:
        return ((T,), many, _aligned(T), mixed)
    rows = [(T,), many, _aligned(T), layouts(T)[1], *_packed(sizes), mixed]
    rows += [_random(T, seed=2 + at) for at in range(-len(rows) % 4)]
    return tuple(rows)


def muted_layouts(sizes: Sizes) -> tuple[Layout, ...]:
    """The layouts of a step some of whose documents are not scored: no row is one document.

    Of rows of more than LONG_ROW tokens two are enough; the others cost the square of their length.
    """
    several = tuple(each for each in step_layouts(sizes) if len(each) > 1)
    if sizes.row_length <= LONG_ROW:
        return several
    return several[:2]


def _many(sizes: Sizes) -> Layout:
    """Short documents, then what fits of the edges, the longest first, then documents by chance."""
    T = sizes.row_length
    count = min(MANY, T * 2 // 3)
    lengths = [2 if at % 5 == 4 else 3 if at % 9 == 8 else 1 for at in range(count)]
    left = T - sum(lengths)
    for length in sorted(sizes.edges, reverse=True):
        if length <= left - 1:
            lengths.append(length)
            left -= length
    return (*lengths, *_random(left, seed=3)) if left > SHORT_ROW else tuple(lengths)


def _packed(sizes: Sizes) -> list[Layout]:
    """All edges that fit into a row, in as few rows as it takes."""
    rows: list[list[int]] = []
    for length in sorted((n for n in sizes.edges if n <= sizes.row_length), reverse=True):
        fitting = (row for row in rows if sum(row) + length <= sizes.row_length)
        row = next(fitting, None)
        if row is None:
            rows.append(row := [])
        row.append(length)
    return [tuple(row) for row in rows]


def _aligned(row_length: int) -> Layout:
    """Boundaries of many layouts in one row."""
    cuts = {0, row_length}
    for lengths in layouts(row_length):
        cuts |= set(itertools.accumulate(lengths))
    return tuple(end - start for start, end in itertools.pairwise(sorted(cuts)))


def _random(row_length: int, *, seed: int) -> Layout:
    """Lengths by chance, as many short as long ones; the rest is padding."""
    chance = np.random.default_rng([seed, row_length])
    lengths: list[int] = []
    while sum(lengths) < row_length - 64:
        most = row_length - sum(lengths)
        lengths.append(min(int(2 ** chance.uniform(0, np.log2(row_length / 4))), most))
    return tuple(lengths)
