"""Engram: a memory of n-grams. Hashes of the last ids find the entries, and the residual stream gates them.

After "Conditional Memory via Scalable Lookup" (arXiv 2601.07372). Shapes: ids_BT; slots_BTH with H
tables, one per order and head; memory_BTE with E = H · slot_width features.

No gradient flows through hashed ids, so gradients wouldn't show a leak between documents. Therefore,
n-grams that would cross a document's start are found by position and left blank: they read nothing and
add exactly 0.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from curriculum.model.context_ranks import convolve
from curriculum.model.conv import masked_conv
from curriculum.model.masks import Boundaries, LayerInputs, RowPart
from curriculum.model.n_gram_tables import BLANK, Table, tables
from curriculum.model.norm import RmsNorm
from schemas.job import ModelSpec


def ids_before(ids_BT: Tensor, positions_BT: Tensor, k: int) -> Tensor:
    """Return the id k positions before each position, or BLANK if it is in another document.

    Ids [7 8 5 6], positions [0 1 0 1], k 1 -> [-1 7 -1 5].
    """
    T = ids_BT.shape[1]
    shifted_BT = F.pad(ids_BT[:, : max(T - k, 0)], (min(k, T), 0), value=BLANK)
    return torch.where(positions_BT >= k, shifted_BT, BLANK)


def n_gram_slots(ids_BT: Tensor, boundaries: Boundaries, hashes: Sequence[Table]) -> Tensor:
    """Return the table row of each n-gram that ends at each token; BLANK if it crosses a document's start.

    Ids and multipliers are below 2³¹. So their products fit into int64, and every device finds the same rows.
    """
    longest = max(len(table.multipliers) for table in hashes)
    before = [ids_before(ids_BT.long(), boundaries.position_ids, k) for k in range(longest)]
    return torch.stack([_slots_of(before, table) for table in hashes], dim=-1)


def _slots_of(before: Sequence[Tensor], table: Table) -> Tensor:
    order = len(table.multipliers)
    mixed_BT = before[0] * table.multipliers[0]
    for ids_BT, multiplier in zip(before[1:order], table.multipliers[1:], strict=True):
        mixed_BT = mixed_BT ^ ids_BT * multiplier
    return torch.where(before[order - 1] >= 0, mixed_BT % table.size + table.offset, BLANK)


class Engram(nn.Module):
    """Memory layer, x_BTD -> x_BTD. It looks up the last ids; the match with the stream gates the result."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.hashes = tables(spec.engram)
        features = len(self.hashes) * spec.engram.slot_width
        rows = sum(table.size for table in self.hashes)
        self.table = nn.Embedding(rows, spec.engram.slot_width)
        self.key = nn.Linear(features, spec.width, bias=False)
        self.key_norm = RmsNorm(spec.width)
        self.value = nn.Linear(features, spec.width, bias=False)
        self.value_norm = RmsNorm(spec.width)
        self.taps_DK = nn.Parameter(torch.zeros(spec.width, spec.conv_kernel))

    def start(self, generator: torch.Generator) -> None:
        """Set the convolution to zero. Then at first every token adds only its own memory, which is small."""
        self.taps_DK.zero_()

    def forward(self, x_BTD: Tensor, inputs: LayerInputs) -> Tensor:
        """Return value + silu(conv(norm(value))). The value is gated by sigmoid(x · norm(key) / √D)."""
        memory_BTE = self.read(inputs.ids, inputs.boundaries, inputs.part)
        match_BTD = x_BTD * self.key_norm(self.key(memory_BTE))
        gate_BT1 = torch.sigmoid(match_BTD.sum(-1, keepdim=True) * x_BTD.shape[-1] ** -0.5)
        value_BTD = gate_BT1 * self.value(memory_BTE)
        mixed_BTD = convolve(masked_conv, self.value_norm(value_BTD), self.taps_DK, inputs)
        out_BTD: Tensor = value_BTD + F.silu(mixed_BTD)
        return out_BTD

    def read(self, ids_BT: Tensor, boundaries: Boundaries, part: RowPart | None = None) -> Tensor:
        """Look up memory_BTE of all tokens, or only of the rank's part. Blank n-grams read exactly 0."""
        slots_BTH = n_gram_slots(ids_BT, boundaries, self.hashes)
        if part is not None:
            slots_BTH = part.context.part(slots_BTH)
        rows_BTHE = self.table(slots_BTH.clamp(min=0))
        return torch.where(slots_BTH[..., None] >= 0, rows_BTHE, 0).flatten(2)
