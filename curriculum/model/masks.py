"""Document masks as torch tensors, and inputs that layers share.

The counterpart in numpy is packing/boundaries.py. Shape letters: B rows, T positions, N = B·T positions
of concatenated rows, S segments, n chunks of q positions, m spans.

Chunks are pieces of documents. One scan passes states from chunk to chunk in all documents at once. Its
first step takes the first chunk of every document, its second step takes the second chunk of every
document that has two, and so on. Chunks are ordered by step. The scan takes as many steps as the longest
document has chunks, for any number of documents, and passes states only to the next chunk of the same
document. Long documents are cut into spans of chunks, which are scanned side by side. A second scan
connects the spans: 1024 chunks take 32 + 32 steps.
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


def map_tensors(value: Held, change: Callable[[Tensor], Tensor]) -> Held:
    """Return a copy of a dataclass with `change` applied to all its tensors, even in nested dataclasses."""
    changed: dict[str, Any] = {}
    for field in fields(value):  # type: ignore[arg-type]
        held = getattr(value, field.name)
        if isinstance(held, Tensor):
            changed[field.name] = change(held)
        elif is_dataclass(held):
            changed[field.name] = map_tensors(held, change)
    return replace(value, **changed)  # type: ignore[type-var]


@dataclass(frozen=True, kw_only=True, slots=True)
class Boundaries:
    """Document boundaries of a batch. They are built once per batch, and all layers share them.

    doc_ids [[0 0 1 1 1]] -> position_ids [[0 1 0 1 2]], starts [[0 0 2 2 2]], cu_seqlens [0 2 5]. All are
    int32. For each position, `starts` is the first position of its document in the row. `cu_seqlens` are the
    segment edges of the concatenated rows. `lengths` are the differences of the edges, in host memory.
    """

    doc_ids: Tensor
    position_ids: Tensor
    starts: Tensor
    cu_seqlens: Tensor
    lengths: tuple[int, ...]
    rotated_by: Tensor | None = None
    """Positions that rotations use instead of position_ids in some studies; otherwise None."""

    @staticmethod
    def from_doc_ids(doc_ids_BT: Tensor) -> "Boundaries":
        """Build the boundaries of rows from doc_ids [B, T], which must not decrease within a row.

        Raises:
            SchemaError: if doc_ids decrease or aren't two-dimensional integers.
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
        """Number of each position's segment, counted across all rows, int64 [B, T].

        doc_ids [[0 0 1] [0 1 1]] -> [[0 0 1] [2 3 3]].
        """
        edges = self.cu_seqlens.long()
        numbers = torch.arange(len(self.lengths), device=edges.device)
        return numbers.repeat_interleave(edges.diff(), output_size=self.doc_ids.numel()).view_as(
            self.doc_ids
        )

    def to(self, device: torch.device) -> "Boundaries":
        """Copy the boundaries to another device."""
        return map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True))

    def select_row(self, at: int) -> "Boundaries":
        """Return the boundaries of row `at` as a batch with this row alone."""
        one = slice(at, at + 1)
        rotated_by = None if self.rotated_by is None else self.rotated_by[one]
        return replace(Boundaries.from_doc_ids(self.doc_ids[one]), rotated_by=rotated_by)


def _require_contiguous_documents(doc_ids_BT: Tensor) -> None:
    if doc_ids_BT.ndim != 2 or doc_ids_BT.is_floating_point() or doc_ids_BT.numel() == 0:
        raise SchemaError(
            "doc_ids",
            f"shape {tuple(doc_ids_BT.shape)}, {doc_ids_BT.dtype}",
            cause="doc_ids must be a two-dimensional tensor of integers",
            cure="Pass doc_ids of the shape [rows, T]",
        )
    falls = (doc_ids_BT.diff(dim=1) < 0).nonzero()
    if len(falls):
        row, before = falls[0].tolist()
        first, second = doc_ids_BT[row, before : before + 2].tolist()
        raise SchemaError(
            f"row {row} of the batch",
            f"doc_ids decreases from {first} to {second} at token {before + 1}",
            cause="documents must be contiguous, and every document needs its own id",
            cure="Build the rows again",
        )


def segment_edges(doc_ids_BT: Tensor) -> Tensor:
    """Return the segment edges of concatenated rows, [S + 1]: [[0 0 1] [0 1 1]] -> [0 2 3 4 6]."""
    begins_BT = torch.ones_like(doc_ids_BT, dtype=torch.bool)
    begins_BT[:, 1:] = doc_ids_BT[:, 1:] != doc_ids_BT[:, :-1]
    starts = begins_BT.flatten().nonzero().flatten()
    return torch.cat([starts, starts.new_tensor([doc_ids_BT.numel()])])


def document_mask(boundaries: Boundaries, queries: range | None = None) -> Tensor:
    """Return a mask [B, 1, Q, T] of the keys that each query sees: in its document, and not after the query.

    doc_ids [[0 0 1]] -> [[1 0 0] [1 1 0] [0 0 1]]. `queries` limits the queries to a part of the rows.
    """
    doc_ids_BT = boundaries.doc_ids
    at = queries or range(doc_ids_BT.shape[1])
    same_BQT = doc_ids_BT[:, at.start : at.stop, None] == doc_ids_BT[:, None, :]
    return same_BQT.tril(at.start)[:, None]


def block_mask(
    boundaries: Boundaries, block: int = BLOCK, queries: range | None = None
) -> BlockMask:
    """Return the document mask as blocks, derived from the lowest and highest id of every block.

    The costs are O((T / block)²). In causal rows, `kv >= starts[q]` is equivalent to equal ids and needs one
    read instead of two. `queries` limits the queries to a part of the rows that consists of whole blocks.

    Raises:
        SchemaError: if the row length isn't a multiple of the block.
    """
    B, T = boundaries.doc_ids.shape
    at = queries or range(T)
    if T % block:
        raise SchemaError(
            "row_length",
            T,
            cause=f"a block mask needs a multiple of {block} tokens",
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
        blocks_Bnn[:, at.start // block : at.stop // block] for blocks_Bnn in (some_Bnn, whole_Bnn)
    )
    return BlockMask.from_kv_blocks(
        *_listed(some_Bmn & ~whole_Bmn),
        *_listed(whole_Bmn),
        BLOCK_SIZE=block,
        mask_mod=visible,
        seq_lengths=(len(at), T),
    )


def _listed(blocks_Bnn: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's number of selected blocks, [B, 1, n], and its block indices, selected ones first.

    The indices have the shape [B, 1, n, n].
    """
    counts = blocks_Bnn.sum(-1, dtype=torch.int32)[:, None]
    order = torch.argsort(blocks_Bnn.to(torch.int8), dim=-1, descending=True, stable=True)
    return counts, order.int()[:, None]


SPAN = 32
"""Maximum number of chunks in a span."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunks:
    """Positions of a batch, arranged in chunks of `size`. The last chunk of every document is padded.

    doc_ids [[0 0 0 1 1]], size 2 -> slots [0 1 4 2 3], sizes (2, 1): chunks [[0 1] [3 4] [2 -]].
    """

    size: int
    slots: Tensor
    """Slot of each position, int64 [N]. Chunk c has `size` slots, beginning with slot c · size."""
    sizes: tuple[int, ...]
    """Number of chunks in each step of the first scan.

    The chunks of a step follow, in order, the first chunks of the previous step.
    """
    spans: Tensor
    """For each span, in the order of the first scan: its place in the second scan, int64 [m]."""
    span_sizes: tuple[int, ...]
    """Number of spans in each step of the second scan. It has one step if no document has two spans."""
    count: int
    """Total number of chunks."""
    steps: Tensor
    """Number of steps of the first scan, then `sizes`, then `span_sizes`, as int64 in host memory."""

    @staticmethod
    def from_boundaries(boundaries: Boundaries, size: int) -> "Chunks":
        """Compute a batch's chunks of `size` positions from the lengths of its documents."""
        lengths_S = torch.tensor(boundaries.lengths)
        chunks_S, _ = pieces(lengths_S, size)
        spans_S, lengths_m = pieces(chunks_S, SPAN)
        within, between = Steps.from_lengths(lengths_m), Steps.from_lengths(spans_S)
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

    def to_chunks(self, x_NX: Tensor, *, blank: float = 0.0) -> Tensor:
        """Arrange the positions of x_NX in chunks x_nqX with the padding `blank`.

        [a b c d e] -> [[a b] [d e] [c 0]].
        """
        blank_MX = x_NX.new_full((self.count * self.size, *x_NX.shape[1:]), blank)
        return blank_MX.index_copy(0, self.slots, x_NX).view(-1, self.size, *x_NX.shape[1:])

    def unchunk(self, x_nqX: Tensor) -> Tensor:
        """Arrange the chunks of x_nqX as positions x_NX: [[a b] [d e] [c -]] -> [a b c d e]."""
        return x_nqX.flatten(0, 1).index_select(0, self.slots)


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Order in which a scan visits the elements of several sequences.

    In each step, longer sequences come first. Lengths [2 3] -> places [1 3 0 2 4], ranks [1 0], sizes (2, 2,
    1).
    """

    places: Tensor
    """Place of each element in the order of the scan.

    The elements are those of the concatenated sequences.
    """
    ranks: Tensor
    """Place of each sequence within every step that it reaches, [S]."""
    sizes: tuple[int, ...]
    """Number of sequences that reach each step. They are the first ones in all earlier steps, too."""

    @staticmethod
    def from_lengths(lengths_S: Tensor) -> "Steps":
        """Compute the order for sequences with these lengths. No sequence may be empty."""
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
    """Cut sequences into pieces; return the number of pieces of each sequence, and all pieces' lengths.

    Lengths [2 3], size 2 -> [1 2], [2 2 1].
    """
    counts_S = (lengths_S + size - 1) // size
    left = lengths_S.repeat_interleave(counts_S) - ranges(counts_S) * size
    return counts_S, left.clamp(max=size)


def ranges(lengths_S: Tensor) -> Tensor:
    """Concatenate the ranges from 0 that have the given lengths: [2 3] -> [0 1 0 1 2]."""
    firsts_S = lengths_S.cumsum(0) - lengths_S
    return torch.arange(int(lengths_S.sum())) - firsts_S.repeat_interleave(lengths_S)


Rotation = tuple[Tensor, Tensor]
"""Cosines and sines of the rotation angles, each [B, 1, T, head_width / 2]."""


class Attend(Protocol):
    """Function that computes attention within the documents of one batch."""

    def __call__(
        self, q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK.

        `table_HR` has each head's bias for each relation between the chunks of q and k.
        """


BEFORE_ALL = -1
"""doc_id for positions before the start of a row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextRanks:
    """Ranks that share rows, and the number of this rank. Every rank computes a part of each row."""

    rank: int
    size: int
    group: dist.ProcessGroup | None
    """Process group of the ranks. None means all processes."""

    def positions(self, row_length: int) -> range:
        """Return the positions of a row that this rank computes.

        Raises:
            SchemaError: if the number of ranks doesn't divide the row length.
        """
        if row_length % self.size:
            raise SchemaError(
                "row_length",
                row_length,
                cause=f"{self.size} ranks that share a row must compute parts of equal length",
                cure="Choose a context_parallel that divides the row length",
            )
        length = row_length // self.size
        return range(self.rank * length, (self.rank + 1) * length)

    def part(self, x_BT: Tensor) -> Tensor:
        """Return this rank's part x_Bt of whole rows."""
        at = self.positions(x_BT.shape[1])
        return x_BT[:, at.start : at.stop]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowPart:
    """Part of each row that this rank computes, and the boundaries that matter at its borders."""

    context: ContextRanks
    positions: range
    doc_ids: Tensor
    """Document ids of the part, [B, t]."""
    reach: int
    """Number of positions before the part that a convolution reads."""
    near: Boundaries
    """Boundaries of the part together with the `reach` positions before it."""
    fills: Tensor
    """For each rank and row, True if a single document fills the rank's part, bool [C, B]."""
    continues: Tensor
    """For each rank and row, True if the part begins with a document of a previous rank, bool [C, B]."""

    @property
    def rank(self) -> int:
        """Number of this rank among the ranks that share rows."""
        return self.context.rank

    @staticmethod
    def from_boundaries(boundaries: Boundaries, context: ContextRanks, reach: int) -> "RowPart":
        """Compute the part of this rank.

        Raises:
            SchemaError: if the ranks don't divide the row length, or parts are shorter than `reach`.
        """
        ids_BT = boundaries.doc_ids
        at = context.positions(ids_BT.shape[1])
        if len(at) < reach:
            raise SchemaError(
                "row_length",
                ids_BT.shape[1],
                cause=f"a part of a row has {len(at)} positions, but the convolution at its beginning reads "
                f"the {reach} positions before the part",
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
            near=Boundaries.from_doc_ids(padded_BT[:, at.start : at.stop + reach]),
            fills=(firsts_BC == lasts_BC).t(),
            continues=(firsts_BC == before_BC).t(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerInputs:
    """Ids and boundaries of a batch, and values derived from them. All layers share these inputs."""

    ids: Tensor
    """Token ids, [B, T]."""
    boundaries: Boundaries
    """Boundaries of whole rows, even if layers compute only a part."""
    rotation: Rotation
    attend: Attend
    chunks: Chunks | None = None
    """Chunks of the batch; None for a model without M layers."""
    part: RowPart | None = None
    """Part that this rank computes; None if it computes whole rows."""
