"""Document masks as tensors: the torch twin of curriculum/packing/boundaries.py.

Shapes in names: B rows, T positions, N = B·T positions of the rows laid end to end, S segments.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from schemas.errors import SchemaError

BLOCK = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class Boundaries:
    """Boundaries of the documents of a batch; built once a batch, read by every layer.

    doc_ids [[0 0 1 1 1]] -> position_ids [[0 1 0 1 2]], starts [[0 0 2 2 2]], cu_seqlens [0 2 5].
    All are int32; `starts` holds the place in the row where a position's document begins,
    `cu_seqlens` cuts the rows laid end to end; `lengths` holds its differences on the host.
    """

    doc_ids: Tensor
    position_ids: Tensor
    starts: Tensor
    cu_seqlens: Tensor
    lengths: tuple[int, ...]

    @staticmethod
    def of(doc_ids_BT: Tensor) -> "Boundaries":
        """The boundaries of rows whose ids never fall, so that no id comes again in its row.

        Raises:
            SchemaError: for ids that fall, or that aren't two-dimensional integers.
        """
        _require_contiguous_documents(doc_ids_BT)
        B, T = doc_ids_BT.shape
        cu_seqlens = segment_edges(doc_ids_BT)
        lengths = cu_seqlens.diff()
        flat_starts = cu_seqlens[:-1].repeat_interleave(lengths).view(B, T)
        everywhere = torch.arange(B * T, device=doc_ids_BT.device).view(B, T)
        row_starts = everywhere[:, :1]
        return Boundaries(
            doc_ids=doc_ids_BT.int(),
            position_ids=(everywhere - flat_starts).int(),
            starts=(flat_starts - row_starts).int(),
            cu_seqlens=cu_seqlens.int(),
            lengths=tuple(lengths.tolist()),
        )

    def to(self, device: torch.device) -> "Boundaries":
        """The same boundaries on another device."""
        return Boundaries(
            doc_ids=self.doc_ids.to(device, non_blocking=True),
            position_ids=self.position_ids.to(device, non_blocking=True),
            starts=self.starts.to(device, non_blocking=True),
            cu_seqlens=self.cu_seqlens.to(device, non_blocking=True),
            lengths=self.lengths,
        )


def _require_contiguous_documents(doc_ids_BT: Tensor) -> None:
    if doc_ids_BT.ndim != 2 or doc_ids_BT.is_floating_point() or doc_ids_BT.numel() == 0:
        raise SchemaError(
            "doc_ids",
            f"shape {tuple(doc_ids_BT.shape)}, {doc_ids_BT.dtype}",
            cause="boundaries are read from whole numbers, rows by positions",
            cure="Give a batch of doc_ids [rows, T]",
        )
    falls = (doc_ids_BT.diff(dim=1) < 0).nonzero()
    if len(falls):
        row, before = falls[0].tolist()
        first, second = doc_ids_BT[row, before : before + 2].tolist()
        raise SchemaError(
            f"row {row} of the batch",
            f"doc_ids falls from {first} to {second} at token {before + 1}",
            cause="documents must be contiguous, and no id may come again",
            cure="Build the rows again",
        )


def segment_edges(doc_ids_BT: Tensor) -> Tensor:
    """Edges [S + 1] of all segments of the rows laid end to end: [[0 0 1] [0 1 1]] -> [0 2 3 4 6]."""
    begins_BT = torch.ones_like(doc_ids_BT, dtype=torch.bool)
    begins_BT[:, 1:] = doc_ids_BT[:, 1:] != doc_ids_BT[:, :-1]
    starts = begins_BT.flatten().nonzero().flatten()
    return torch.cat([starts, starts.new_tensor([doc_ids_BT.numel()])])


def document_mask(boundaries: Boundaries) -> Tensor:
    """True where q may see k [B, 1, T, T]: same document and not later.

    doc_ids [[0 0 1]] -> [[1 0 0] [1 1 0] [0 0 1]].
    """
    doc_ids_BT = boundaries.doc_ids
    same_BTT = doc_ids_BT[:, :, None] == doc_ids_BT[:, None, :]
    return same_BTT.tril()[:, None]


def block_mask(boundaries: Boundaries, block: int = BLOCK) -> BlockMask:
    """The document mask in blocks, from each block's least and largest id: O((T / block)²).

    `kv >= starts[q]` says the same as equal ids in causal rows, for one read instead of two.

    Raises:
        SchemaError: for a row length that is no multiple of the block.
    """
    B, T = boundaries.doc_ids.shape
    if T % block:
        raise SchemaError(
            "row_length",
            T,
            cause=f"a block mask needs a multiple of {block}",
            cure="Pad the rows, or choose the documents backend",
        )
    starts_BT = boundaries.starts

    def visible(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (kv <= q) & (kv >= starts_BT[b, q])

    ids_BnS = boundaries.doc_ids.view(B, T // block, block)
    low_Bn, high_Bn = ids_BnS.amin(-1), ids_BnS.amax(-1)
    n = torch.arange(T // block, device=starts_BT.device)
    meets_Bnn = (low_Bn[:, :, None] <= high_Bn[:, None]) & (high_Bn[:, :, None] >= low_Bn[:, None])
    one_Bn = low_Bn == high_Bn
    same_Bnn = (low_Bn[:, :, None] == low_Bn[:, None]) & one_Bn[:, :, None] & one_Bn[:, None]
    some_Bnn = meets_Bnn & (n[:, None] >= n)
    whole_Bnn = same_Bnn & (n[:, None] > n)
    return BlockMask.from_kv_blocks(
        *_listed(some_Bnn & ~whole_Bnn),
        *_listed(whole_Bnn),
        BLOCK_SIZE=block,
        mask_mod=visible,
        seq_lengths=(T, T),
    )


def _listed(blocks_Bnn: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's number of blocks [B, 1, n], and their indices, those first [B, 1, n, n]."""
    counts = blocks_Bnn.sum(-1, dtype=torch.int32)[:, None]
    order = torch.argsort(blocks_Bnn.to(torch.int8), dim=-1, descending=True, stable=True)
    return counts, order.int()[:, None]
