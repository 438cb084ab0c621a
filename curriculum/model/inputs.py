"""Inputs of every layer beside the stream: boundaries, rotations, and chunks of a document.

Shapes: N = B·T positions of the rows laid end to end, S sequences, n chunks of q positions, m spans.

Chunks stand in the order in which a scan over all documents at once reaches them: the first of every
document, then the second of those that have one, and so on. Such a scan takes as many steps as the
longest document has chunks, however many documents there are, and a state has nowhere to go but to the
next chunk of its document. A long document is cut into spans of chunks that are scanned side by side,
and a second scan walks its spans: 1024 chunks are 32 + 32 steps.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from curriculum.model.masks import Boundaries

SPAN = 32
"""Chunks of one span."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunks:
    """Places of each position in chunks of `size`, the last of a document padded.

    doc_ids [[0 0 0 1 1]], size 2 -> slots [0 1 4 2 3], sizes (2, 1): chunks [[0 1] [3 4] [2 -]].
    """

    size: int
    slots: Tensor
    """int64 [N]: the slot of each position; chunk c holds the slots from c · size on."""
    sizes: tuple[int, ...]
    """Chunks of each step of the scan within spans; later ones continue the first of those before."""
    spans: Tensor
    """int64 [m]: where the span that begins at each chunk of the first step stands in the second scan."""
    span_sizes: tuple[int, ...]
    """Spans of each step of the second scan; one step where no document has two spans."""

    @staticmethod
    def of(boundaries: Boundaries, size: int) -> "Chunks":
        """The chunks of a batch; they follow from the lengths of its documents alone."""
        lengths_S = torch.tensor(boundaries.lengths)
        chunks_S, _ = pieces(lengths_S, size)
        spans_S, lengths_m = pieces(chunks_S, SPAN)
        within, between = Steps.of(lengths_m), Steps.of(spans_S)
        at_N = ranges(lengths_S)
        first_N = (chunks_S.cumsum(0) - chunks_S).repeat_interleave(lengths_S)
        slots_N = within.places[first_N + at_N // size] * size + at_N % size
        spans_m = torch.empty_like(lengths_m)
        spans_m[within.ranks] = between.places
        device = boundaries.doc_ids.device
        return Chunks(
            size=size,
            slots=slots_N.to(device, non_blocking=True),
            sizes=within.sizes,
            spans=spans_m.to(device, non_blocking=True),
            span_sizes=between.sizes,
        )

    def placed(self, x_NX: Tensor, *, blank: float = 0.0) -> Tensor:
        """x_NX -> x_nqX in chunks, `blank` in their padding: [a b c d e] -> [[a b] [d e] [c 0]]."""
        slots = sum(self.sizes) * self.size
        blank_MX = x_NX.new_full((slots, *x_NX.shape[1:]), blank)
        return blank_MX.index_copy(0, self.slots, x_NX).view(-1, self.size, *x_NX.shape[1:])

    def unchunk(self, x_nqX: Tensor) -> Tensor:
        """x_nqX -> x_NX, back from their chunks: [[a b] [d e] [c -]] -> [a b c d e]."""
        return x_nqX.flatten(0, 1).index_select(0, self.slots)


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Elements of sequences in the order of a scan over all at once, the longest sequence first.

    Lengths [2 3] -> places [1 3 0 2 4], ranks [1 0], sizes (2, 2, 1).
    """

    places: Tensor
    """[elements] where each stands, of the sequences laid end to end."""
    ranks: Tensor
    """[S] where each sequence stands in every step that it reaches."""
    sizes: tuple[int, ...]
    """Sequences that each step reaches; those of a later step are the first of an earlier one."""

    @staticmethod
    def of(lengths_S: Tensor) -> "Steps":
        """The steps of sequences none of which is empty."""
        order_S = lengths_S.argsort(descending=True, stable=True)
        ranks_S = torch.empty_like(order_S)
        ranks_S[order_S] = torch.arange(len(order_S))
        sizes = torch.bincount(lengths_S).flip(0).cumsum(0).flip(0)[1:]
        firsts = sizes.cumsum(0) - sizes
        return Steps(
            places=firsts[ranges(lengths_S)] + ranks_S.repeat_interleave(lengths_S),
            ranks=ranks_S,
            sizes=tuple(sizes.tolist()),
        )


def pieces(lengths_S: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces of `size` of each sequence, and their lengths: [2 3], 2 -> [1 2], [2 2 1]."""
    counts_S = (lengths_S + size - 1) // size
    left = lengths_S.repeat_interleave(counts_S) - ranges(counts_S) * size
    return counts_S, left.clamp(max=size)


def ranges(lengths_S: Tensor) -> Tensor:
    """Each sequence counted from 0, laid end to end: [2 3] -> [0 1 0 1 2]."""
    firsts_S = lengths_S.cumsum(0) - lengths_S
    return torch.arange(int(lengths_S.sum())) - firsts_S.repeat_interleave(lengths_S)


Rotation = tuple[Tensor, Tensor]
"""Cos and sin [B, 1, T, head_width / 2]."""


class Attend(Protocol):
    """Attention within the documents of one batch."""

    def __call__(
        self, q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK; `table_HR` biases scores by what chunk q is to chunk k."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerInputs:
    """Ids and boundaries of a batch, and what follows from them for all layers of one family."""

    ids: Tensor
    """[B, T]"""
    boundaries: Boundaries
    rotation: Rotation
    attend: Attend
    chunks: Chunks | None = None
    """Chunks, where a pattern has an M."""
