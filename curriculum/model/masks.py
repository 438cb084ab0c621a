"""Document masks as tensors, the torch twin of curriculum/packing/boundaries.py, and inputs of every layer.

Shapes in names: B rows, T positions, N = B·T positions of the rows laid end to end, S segments, n chunks of q
positions, m spans.

Chunks are in the order in which a scan over all documents at once reaches them: the first of every document,
then the second of those that have one, and so on. Such a scan takes as many steps as the longest document has
chunks, however many documents there are, and a state has nowhere to go but to the next chunk of its document.
A long document is cut into spans of chunks that are scanned side by side, and a second scan walks its spans:
1024 chunks are 32 + 32 steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask

from schemas.errors import SchemaError

BLOCK = 128
Held = TypeVar("Held")


def with_each_tensor(value: Held, change: Callable[[Tensor], Tensor]) -> Held:
    """A dataclass with each of its tensors changed, and those of dataclasses in it."""
    changed: dict[str, Any] = {}
    for field in fields(value):  # type: ignore[arg-type]
        held = getattr(value, field.name)
        if isinstance(held, Tensor):
            changed[field.name] = change(held)
        elif is_dataclass(held):
            changed[field.name] = with_each_tensor(held, change)
    return replace(value, **changed)  # type: ignore[type-var]


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
    rotated_by: Tensor | None = None
    """Positions of rotations in a study that counts them otherwise than position_ids; else None."""

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

    @property
    def segments(self) -> Tensor:
        """Number of each position's segment among all of the rows, int64 [B, T].

        doc_ids [[0 0 1] [0 1 1]] -> [[0 0 1] [2 3 3]].
        """
        edges = self.cu_seqlens.long()
        numbers = torch.arange(len(self.lengths), device=edges.device)
        return numbers.repeat_interleave(edges.diff(), output_size=self.doc_ids.numel()).view_as(
            self.doc_ids
        )

    def to(self, device: torch.device) -> "Boundaries":
        """The same boundaries on another device."""
        return with_each_tensor(self, lambda tensor: tensor.to(device, non_blocking=True))

    def of_row(self, at: int) -> "Boundaries":
        """The boundaries of one row of the batch, for a batch of that row alone."""
        one = slice(at, at + 1)
        rotated_by = None if self.rotated_by is None else self.rotated_by[one]
        return replace(Boundaries.of(self.doc_ids[one]), rotated_by=rotated_by)


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


def document_mask(boundaries: Boundaries, queries: range | None = None) -> Tensor:
    """True where q may see k [B, 1, Q, T]: same document and not later; all q, or those of a part.

    doc_ids [[0 0 1]] -> [[1 0 0] [1 1 0] [0 0 1]].
    """
    doc_ids_BT = boundaries.doc_ids
    at = queries or range(doc_ids_BT.shape[1])
    same_BQT = doc_ids_BT[:, at.start : at.stop, None] == doc_ids_BT[:, None, :]
    return same_BQT.tril(at.start)[:, None]


def block_mask(
    boundaries: Boundaries, block: int = BLOCK, queries: range | None = None
) -> BlockMask:
    """The document mask in blocks, from each block's least and largest id: O((T / block)²).

    `kv >= starts[q]` says the same as equal ids in causal rows, for one read instead of two. `queries` are
    those of a part of the rows, whole blocks.

    Raises:
        SchemaError: for a row length that is no multiple of the block.
    """
    B, T = boundaries.doc_ids.shape
    at = queries or range(T)
    if T % block:
        raise SchemaError(
            "row_length",
            T,
            cause=f"a block mask needs a multiple of {block}",
            cure="Pad the rows, or choose the documents backend",
        )
    starts_BT = boundaries.starts

    def visible(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        q = q + at.start if at.start else q
        return (kv <= q) & (kv >= starts_BT[b, q])

    ids_BnS = boundaries.doc_ids.view(B, T // block, block)
    low_Bn, high_Bn = ids_BnS.amin(-1), ids_BnS.amax(-1)
    n = torch.arange(T // block, device=starts_BT.device)
    meets_Bnn = (low_Bn[:, :, None] <= high_Bn[:, None]) & (high_Bn[:, :, None] >= low_Bn[:, None])
    one_Bn = low_Bn == high_Bn
    same_Bnn = (low_Bn[:, :, None] == low_Bn[:, None]) & one_Bn[:, :, None] & one_Bn[:, None]
    some_Bnn = meets_Bnn & (n[:, None] >= n)
    whole_Bnn = same_Bnn & (n[:, None] > n)
    some_Bmn, whole_Bmn = (
        each[:, at.start // block : at.stop // block] for each in (some_Bnn, whole_Bnn)
    )
    return BlockMask.from_kv_blocks(
        *_listed(some_Bmn & ~whole_Bmn),
        *_listed(whole_Bmn),
        BLOCK_SIZE=block,
        mask_mod=visible,
        seq_lengths=(len(at), T),
    )


def _listed(blocks_Bnn: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's number of blocks [B, 1, n], and their indices, those first [B, 1, n, n]."""
    counts = blocks_Bnn.sum(-1, dtype=torch.int32)[:, None]
    order = torch.argsort(blocks_Bnn.to(torch.int8), dim=-1, descending=True, stable=True)
    return counts, order.int()[:, None]


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
    count: int
    """Chunks of all documents."""
    steps: Tensor
    """int64 on the host: the number of steps within spans, then `sizes`, then `span_sizes`."""

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
            count=sum(within.sizes),
            steps=torch.tensor([len(within.sizes), *within.sizes, *between.sizes]),
        )

    def placed(self, x_NX: Tensor, *, blank: float = 0.0) -> Tensor:
        """x_NX -> x_nqX in chunks, `blank` in their padding: [a b c d e] -> [[a b] [d e] [c 0]]."""
        blank_MX = x_NX.new_full((self.count * self.size, *x_NX.shape[1:]), blank)
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


BEFORE_ALL = -1
"""The doc_id of what would lie before a row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextRanks:
    """The ranks that share rows, each computing a part of every row; and the number of this one."""

    rank: int
    size: int
    group: dist.ProcessGroup | None
    """None for all processes."""

    def positions(self, row_length: int) -> range:
        """The positions of this rank's part.

        Raises:
            SchemaError: for a row length that the ranks don't divide.
        """
        if row_length % self.size:
            raise SchemaError(
                "row_length",
                row_length,
                cause=f"{self.size} ranks that share a row each compute as much of it",
                cure="Choose a context_parallel that divides it",
            )
        length = row_length // self.size
        return range(self.rank * length, (self.rank + 1) * length)

    def part(self, x_BT: Tensor) -> Tensor:
        """x_Bt of this rank, from that of whole rows."""
        at = self.positions(x_BT.shape[1])
        return x_BT[:, at.start : at.stop]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowPart:
    """The part of each row of a batch that one rank computes, by the boundaries of whole rows."""

    context: ContextRanks
    positions: range
    doc_ids: Tensor
    """[B, t]"""
    reach: int
    """Positions before the part that a convolution reads."""
    near: Boundaries
    """Boundaries of those positions and the part."""
    fills: Tensor
    """bool [C, B]: True where one document fills the part of a rank."""
    continues: Tensor
    """bool [C, B]: True where the first document of a rank's part began on a rank before."""

    @property
    def rank(self) -> int:
        """The rank among those that share rows."""
        return self.context.rank

    @staticmethod
    def of(boundaries: Boundaries, context: ContextRanks, reach: int) -> "RowPart":
        """The part of a rank.

        Raises:
            SchemaError: for a row length that the ranks don't divide, and parts shorter than `reach`.
        """
        ids_BT = boundaries.doc_ids
        at = context.positions(ids_BT.shape[1])
        if len(at) < reach:
            raise SchemaError(
                "row_length",
                ids_BT.shape[1],
                cause=f"a part of {len(at)} positions is shorter than the {reach} that a convolution "
                "reads before it",
                cure="Choose a smaller context_parallel",
            )
        padded_BT = F.pad(ids_BT, (reach, 0), value=BEFORE_ALL)
        parts_BCt = ids_BT.view(len(ids_BT), context.size, -1)
        firsts_BC, lasts_BC = parts_BCt[:, :, 0], parts_BCt[:, :, -1]
        before_BC = F.pad(lasts_BC[:, :-1], (1, 0), value=BEFORE_ALL)
        return RowPart(
            context=context,
            positions=at,
            doc_ids=ids_BT[:, at.start : at.stop],
            reach=reach,
            near=Boundaries.of(padded_BT[:, at.start : at.stop + reach]),
            fills=(firsts_BC == lasts_BC).t(),
            continues=(firsts_BC == before_BC).t(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerInputs:
    """Ids and boundaries of a batch, and what follows from them for all layers of one family."""

    ids: Tensor
    """[B, T]"""
    boundaries: Boundaries
    """Those of whole rows, also where layers compute a part."""
    rotation: Rotation
    attend: Attend
    chunks: Chunks | None = None
    """Chunks, where a pattern has an M."""
    part: RowPart | None = None
    """The part that this rank computes; None where it computes whole rows."""
