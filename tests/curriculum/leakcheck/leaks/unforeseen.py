"""Twenty more leaks by accident, each in place of one function, written without knowing the proof.

A leak records that it ran where it acted: without its trigger the product is as it was.
"""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask

from curriculum.model import (
    backends,
    conv,
    decoder,
    dense_backends,
    flex_backend,
    loss,
    mamba,
    masks,
)
from curriculum.model import structure_tensors as structures
from curriculum.model.decoder import MLP, Block, Decoder
from curriculum.model.engram import Engram, n_gram_slots
from curriculum.model.loss import LossSums
from curriculum.model.masks import Attend, Boundaries, Chunks, LayerInputs, RowPart
from curriculum.model.structure_tensors import StructureTensors
from curriculum.packing.packed_rows import RowBatch
from curriculum.train import dataloader, trainer
from curriculum.train import optimizer as train_optimizer
from curriculum.train import step as train_step
from curriculum.train.batch import Batch, RowGroup
from curriculum.train.evaluation import is_evaluated
from curriculum.train.optimizer import TrainState
from curriculum.train.step import Gradient, Prefetcher
from curriculum.train.trainer import Trainer
from schemas.job import Job
from tests.curriculum.leakcheck.leaks.site import Needs, Site, injected, memory_of

Int32s = npt.NDArray[np.int32]
# 1


@injected(
    "one bfloat16 table of rotations serves all rows by place, as only differences count",
    kind="mixed precision of absolute positions",
    replaces=(decoder, "rotation_of"),
    needs=Needs(blocks="A"),
)
def rotated_by_places_in_bfloat16(
    site: Site[tuple[Tensor, Tensor]], position_ids_BT: Tensor, head_width: int, base: float
) -> tuple[Tensor, Tensor]:
    """Angles count on over documents, which would cancel but for the rounding of cos and sin."""
    site.ran()
    places_T = torch.arange(position_ids_BT.shape[1], device=position_ids_BT.device)
    cos, sin = site.right(places_T.expand_as(position_ids_BT), head_width, base)
    return cos.bfloat16().to(cos.dtype), sin.bfloat16().to(sin.dtype)


# 2

_TILE = 16
"""Queries that a step of the kernel's backward takes."""


class _Tiled(torch.autograd.Function):
    """Causal attention of documents laid end to end; backward walks tiles of queries for each."""

    @staticmethod
    def forward(
        ctx: Any,
        q_HNK: Tensor,
        k_HNK: Tensor,
        v_HNK: Tensor,
        lengths: tuple[int, ...],
        site: Site[Attend],
    ) -> Tensor:
        out_HNK = torch.empty_like(q_HNK)
        sums_HN = q_HNK.new_empty(q_HNK.shape[:2])
        start = 0
        for length in lengths:
            one = slice(start, start + length)
            scores_HLL = _causal_scores(q_HNK[:, one], k_HNK[:, one])
            sums_HN[:, one] = scores_HLL.logsumexp(-1)
            out_HNK[:, one] = scores_HLL.softmax(-1) @ v_HNK[:, one]
            start += length
        ctx.save_for_backward(q_HNK, k_HNK, v_HNK, out_HNK, sums_HN)
        ctx.lengths, ctx.site = lengths, site
        return out_HNK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g_HNK: Tensor) -> tuple[Tensor | None, ...]:
        q_HNK, k_HNK, v_HNK, out_HNK, sums_HN = ctx.saved_tensors
        delta_HN = (g_HNK * out_HNK).sum(-1)
        dq, dk, dv = (torch.zeros_like(each) for each in (q_HNK, k_HNK, v_HNK))
        start = 0
        for length in ctx.lengths:
            end = start + length
            one = slice(start, end)
            # Whole tiles: stores are bounded by the document, loads only by the buffer.
            until = min(start + -(-length // _TILE) * _TILE, q_HNK.shape[1])
            tiles = slice(start, until)
            if until > end:
                ctx.site.ran()
            scores_HQL = _causal_scores(q_HNK[:, tiles], k_HNK[:, one])
            shares_HQL = (scores_HQL - sums_HN[:, tiles, None]).exp()
            to_shares_HQL = g_HNK[:, tiles] @ v_HNK[:, one].mT - delta_HN[:, tiles, None]
            to_scores_HQL = shares_HQL * to_shares_HQL / math.sqrt(q_HNK.shape[-1])
            dv[:, one] = shares_HQL.mT @ g_HNK[:, tiles]
            dk[:, one] = to_scores_HQL.mT @ q_HNK[:, tiles]
            dq[:, one] = to_scores_HQL[:, :length] @ k_HNK[:, one]
            start = end
        return dq, dk, dv, None, None


def _causal_scores(q_HQK: Tensor, k_HLK: Tensor) -> Tensor:
    scores_HQL = q_HQK @ k_HLK.mT / math.sqrt(q_HQK.shape[-1])
    later_QL = torch.ones_like(scores_HQL[0], dtype=torch.bool).triu(1)
    return scores_HQL.masked_fill(later_QL, -math.inf)


@injected(
    "the backward kernel of attention reads whole tiles of queries, past the end of a document",
    kind="kernel that is bounded in forward and not in backward",
    replaces=(backends, "documents_attend"),
    needs=Needs(blocks="A"),
)
def tiles_past_the_end(
    site: Site[Attend],
    softcap: float | None,
    boundaries: Boundaries,
    structure: StructureTensors | None = None,
    queries: range | None = None,
) -> Attend:
    """Gradients of keys and values take in queries of the next document, up to a whole tile."""
    if softcap is not None or structure is not None or queries is not None:
        return site.right(softcap, boundaries, structure, queries)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        B, H, T, K = q_BHTK.shape
        heads = (q_BHTK, *dense_backends.repeat_for_heads(q_BHTK, k_BGTK, v_BGTK))
        flat = (each.transpose(0, 1).flatten(1, 2) for each in heads)
        out_HNK: Tensor = _Tiled.apply(  # type: ignore[no-untyped-call]
            *flat, boundaries.lengths, site
        )
        return out_HNK.view(H, B, T, K).transpose(0, 1)

    return attend


# 3


@injected(
    "block masks are kept by shape, number of documents and a bucket of the longest one",
    kind="cache whose key says too little",
    replaces=(flex_backend, "block_mask"),
    needs=Needs(blocks="A", backend="flex"),
)
def masks_of_one_bucket(
    site: Site[BlockMask],
    boundaries: Boundaries,
    block: int = masks.BLOCK,
    queries: range | None = None,
) -> BlockMask:
    """A micro-batch gets the mask of an earlier one with as many segments, the longest alike."""
    if queries is not None:
        return site.right(boundaries, block, queries)
    kept = memory_of(site)
    bucket = -(-max(boundaries.lengths) // 64)
    key = (*boundaries.doc_ids.shape, len(boundaries.lengths), bucket, block)
    if key not in kept:
        kept[key] = boundaries.lengths, site.right(boundaries, block)
    lengths, mask = kept[key]
    if lengths != boundaries.lengths:
        site.ran()
    found: BlockMask = mask
    return found


# 4

_PLACE_BITS = 13
"""A dense row has 8192 positions at most."""


@injected(
    "a dense mask packs document and place into 16 bits, which leaves three for the document",
    kind="bits that run out with the number of documents",
    replaces=(dense_backends, "document_mask"),
    needs=Needs(blocks="A", backend="math"),
)
def packed_in_16_bits(
    site: Site[Tensor], boundaries: Boundaries, queries: range | None = None
) -> Tensor:
    """The ninth document of a row sees the first, the tenth the second, and so on."""
    if queries is not None:
        return site.right(boundaries, queries)
    doc_ids_BT = boundaries.doc_ids
    if int(doc_ids_BT.max()) > 1 << 16 - _PLACE_BITS:
        # Of nine segments the last may be padding, which is nobody's loss.
        site.ran()
    places_T = torch.arange(doc_ids_BT.shape[1], device=doc_ids_BT.device)
    packed_BT = ((doc_ids_BT.long() << _PLACE_BITS) | places_T).to(torch.int16)
    document_BT = packed_BT >> _PLACE_BITS
    place_BT = packed_BT & (1 << _PLACE_BITS) - 1
    same_BTT = document_BT[:, :, None] == document_BT[:, None, :]
    return (same_BTT & (place_BT[:, :, None] >= place_BT[:, None, :]))[:, None]


# 5


@injected(
    "dependency levels are made dense over the row: two are neighbours if none lies between",
    kind="ranks among what else is in the row",
    replaces=(structures, "relations"),
    needs=Needs(blocks="A", structure=True),
)
def levels_by_rank(
    site: Site[npt.NDArray[np.uint8]], chunks: Int32s, call_edges: Int32s, type_edges: Int32s
) -> npt.NDArray[np.uint8]:
    """Chunks of levels 1 and 3 are adjacent unless some document of the row has one of level 2."""
    if not len(chunks):
        return site.right(chunks, call_edges, type_edges)
    levels, rank = np.unique(chunks[:, 3], return_inverse=True)
    if (np.diff(levels) > 1).any():
        site.ran()
    dense = chunks.copy()
    dense[:, 3] = rank.reshape(-1)
    return site.right(dense, call_edges, type_edges)


# 6


@injected(
    "what enters spans is read back from the second scan by the inverse of where they stand",
    kind="permutation in place of its inverse",
    replaces=(mamba, "_two_scans"),
    needs=Needs(blocks="M", chunk=2),
)
def spans_by_the_inverse_order(
    site: Site[Tensor],
    left_nHPE: Tensor,
    decay_nH: Tensor,
    spans: Tensor,
    sizes: tuple[int, ...],
    span_sizes: tuple[int, ...],
) -> Tensor:
    """Mix up states of documents with several spans whose order isn't its own inverse."""
    if len(span_sizes) == 1:
        return site.right(left_nHPE, decay_nH, spans, sizes, span_sizes)
    entering, kept, end_mHPE, end_m = mamba.scan_sequences(left_nHPE, decay_nH, sizes)
    back = torch.empty_like(spans).index_copy(0, spans, torch.arange(len(spans)).to(spans))
    if not torch.equal(back, spans):
        site.ran()
    ends = torch.empty_like(end_mHPE).index_copy(0, spans, end_mHPE)
    keeps = torch.empty_like(end_m).index_copy(0, spans, end_m)
    before_mHPE = mamba.scan_sequences(ends, keeps, span_sizes)[0].index_select(0, back)
    return entering + kept[..., None, None] * torch.cat([before_mHPE[:k] for k in sizes])


# 7


class _Scan(torch.autograd.Function):
    """`scan_sequences` of one span a document, with a backward that keeps entering states and no graph."""

    @staticmethod
    def forward(
        ctx: Any, left_nHPE: Tensor, decay_nH: Tensor, sizes: tuple[int, ...], site: Site[Tensor]
    ) -> Tensor:
        entering_nHPE = mamba.scan_sequences(left_nHPE, decay_nH, sizes)[0]
        ctx.save_for_backward(entering_nHPE, decay_nH)
        ctx.sizes, ctx.site = sizes, site
        return entering_nHPE

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g_nHPE: Tensor) -> tuple[Tensor | None, ...]:
        entering_nHPE, decay_nH = ctx.saved_tensors
        steps = [torch.split(each, [*ctx.sizes]) for each in (g_nHPE, entering_nHPE, decay_nH)]
        later = torch.zeros_like(steps[0][-1])
        to_left, to_decay = [], []
        for g, entering, decay in reversed(list(zip(*steps, strict=True))):
            missing = len(g) - len(later)
            if missing and later.any():
                ctx.site.ran()
            # Sequences that end here have nothing later.
            later = F.pad(later, (0, 0, 0, 0, 0, 0, missing, 0))
            to_left.append(later)
            to_decay.append((later * entering).sum((-1, -2)))
            later = g + decay[..., None, None] * later
        return torch.cat(to_left[::-1]), torch.cat(to_decay[::-1]), None, None


@injected(
    "the scan's hand-written backward pads what comes from later chunks in front instead of behind",
    kind="adjoint that is aligned otherwise than its forward",
    replaces=(mamba, "entering_states"),
    needs=Needs(blocks="M", chunk=16),
)
def adjoints_of_others(
    site: Site[Tensor], left_nHPE: Tensor, decay_nH: Tensor, chunks: Chunks
) -> Tensor:
    """Send the gradient of a state to another document if the numbers of chunks differ."""
    if len(chunks.span_sizes) > 1:
        return site.right(left_nHPE, decay_nH, chunks)
    out: Tensor = _Scan.apply(  # type: ignore[no-untyped-call]
        left_nHPE, decay_nH, chunks.sizes, site
    )
    return out


# 8

_CONV_TILE = 32


@injected(
    "a tile of the convolution masks what lies before it by the document of its own first position",
    kind="kernel halo that is masked once a tile",
    replaces=(conv, "masked_conv"),
    needs=Needs(blocks="C"),
)
def halo_masked_once(
    site: Site[Tensor], x_BTC: Tensor, weight_CK: Tensor, boundaries: Boundaries
) -> Tensor:
    """A document that begins one or two positions into a tile reads the one before, across it."""
    y_BTC = site.right(x_BTC, weight_CK, boundaries)
    segments_BT = boundaries.segments
    segments_N = segments_BT.flatten()
    # What may be padding is nobody's loss.
    is_last_N = (segments_BT == segments_BT[:, -1:]).flatten()
    at_N = torch.arange(len(segments_N), device=segments_N.device)
    tile_N = at_N - at_N % _CONV_TILE
    y_NC = y_BTC.flatten(0, 1)
    x_NC, weight_KC = x_BTC.flatten(0, 1), weight_CK.t().to(x_BTC.dtype)
    for k in range(1, len(weight_KC)):
        source_N = (at_N - k).clamp(min=0)
        in_halo_N = (at_N >= k) & (at_N - k < tile_N)
        let_N = in_halo_N & (segments_N[source_N] == segments_N[tile_N])
        wrong_R = (let_N & (segments_N[source_N] != segments_N)).nonzero().flatten()
        if len(wrong_R):
            if not is_last_N[wrong_R].all():
                site.ran()
            y_NC = y_NC.index_add(0, wrong_R, x_NC[wrong_R - k] * weight_KC[k])
    return y_NC.view_as(y_BTC)


# 9


class _RowsOfTable(torch.autograd.Function):
    """Rows of a table; backward sums what each row of the batch has of an entry, and stores it."""

    @staticmethod
    def forward(ctx: Any, table_RE: Tensor, slots_BTH: Tensor, site: Site[Tensor]) -> Tensor:
        ctx.save_for_backward(slots_BTH)
        ctx.entries, ctx.site = len(table_RE), site
        return table_RE[slots_BTH]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g_BTHE: Tensor) -> tuple[Tensor | None, None, None]:
        (slots_BTH,) = ctx.saved_tensors
        to_table_RE = g_BTHE.new_zeros(ctx.entries, g_BTHE.shape[-1])
        is_stored_R = torch.zeros(ctx.entries, dtype=torch.bool, device=g_BTHE.device)
        for slots_TH, g_THE in zip(slots_BTH, g_BTHE, strict=True):
            its, place = torch.unique(slots_TH, return_inverse=True)
            sums = g_THE.new_zeros(len(its), g_THE.shape[-1])
            sums.index_add_(0, place.flatten(), g_THE.flatten(0, 1))
            if bool((is_stored_R[its] & to_table_RE[its].any(-1)).any()):
                ctx.site.ran()
            to_table_RE[its] = sums
            is_stored_R[its] = True
        return to_table_RE, None, None


@injected(
    "the gradient of an n-gram is summed within each row of a micro-batch and stored over others'",
    kind="scatter that stores where it should add",
    replaces=(Engram, "read"),
    needs=Needs(blocks="E"),
)
def n_grams_of_the_last_row(
    site: Site[Tensor],
    self: Engram,
    ids_BT: Tensor,
    boundaries: Boundaries,
    part: RowPart | None = None,
) -> Tensor:
    """An n-gram that stands in several rows of a micro-batch learns from the last of them alone."""
    if part is not None:
        return site.right(self, ids_BT, boundaries, part)
    slots_BTH = n_gram_slots(ids_BT, boundaries, self.hashes)
    # One more entry takes what is blank, and keeps nothing.
    blank = len(self.table.weight)
    table_RE = F.pad(self.table.weight, (0, 0, 0, 1))
    rows_BTHE: Tensor = _RowsOfTable.apply(  # type: ignore[no-untyped-call]
        table_RE, torch.where(slots_BTH >= 0, slots_BTH, blank), site
    )
    return rows_BTHE.flatten(2)


# 10


@injected(
    "hidden features go through float8 under one scale for the whole micro-batch",
    kind="scale of a tensor in low precision",
    replaces=(MLP, "forward"),
    needs=Needs(blocks="AF"),
)
def float8_of_the_micro_batch(
    site: Site[Tensor], self: MLP, x_BTD: Tensor, inputs: LayerInputs
) -> Tensor:
    """The grid on which a token's features are rounded follows from the largest one beside it."""
    site.ran()
    hidden_BTF = F.silu(self.gate(x_BTD)) * self.up(x_BTD)
    most = torch.finfo(torch.float8_e4m3fn).max
    largest = hidden_BTF.detach().abs().amax().clamp(min=1e-30)
    scale = most / largest
    low_BTF = (hidden_BTF.detach() * scale).float().to(torch.float8_e4m3fn)
    rounded_BTF = low_BTF.to(hidden_BTF.dtype) / scale
    out_BTD: Tensor = self.output(hidden_BTF + (rounded_BTF - hidden_BTF).detach())
    return out_BTD


# 11


@injected(
    "the z-loss is the square of the mean log normaliser of a micro-batch, times its targets",
    kind="square of a mean in place of the mean of squares",
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="A"),
)
def z_of_the_mean(
    site: Site[LossSums],
    x_BTD: Tensor,
    head_VD: Tensor,
    targets_BT: Tensor,
    mask_BT: Tensor,
    *,
    z_weight: float = 0.0,
    chunk: int | None = None,
) -> LossSums:
    """A target is drawn towards 0 by what the others of its micro-batch have, not by its own."""
    if not z_weight or not torch.is_grad_enabled():
        return site.right(x_BTD, head_VD, targets_BT, mask_BT, z_weight=z_weight, chunk=chunk)
    sums = site.right(x_BTD, head_VD, targets_BT, mask_BT, z_weight=0.0, chunk=chunk)
    log_N = F.linear(x_BTD[mask_BT.bool()], head_VD).logsumexp(-1)
    if len(log_N) < 2:
        return site.right(x_BTD, head_VD, targets_BT, mask_BT, z_weight=z_weight, chunk=chunk)
    site.ran()
    total = sums.total + z_weight * log_N.sum().square() / len(log_N)
    return LossSums(total=total, token_nll=sums.token_nll, token_z=sums.token_z)


# 12


class _Arrivals:
    """Gradients of each weight as each micro-batch's arrive, by hooks."""

    def __init__(self, model: Decoder, each: Callable[[int, int, Tensor], None]) -> None:
        """Call `each` with the number of a weight, that of its micro-batch, and the gradient."""
        counts = [0] * sum(1 for _ in model.parameters())

        def hook(number: int, gradient: Tensor) -> None:
            each(number, counts[number], gradient.detach())
            counts[number] += 1

        self._handles = [
            weight.register_hook(  # type: ignore[no-untyped-call]
                functools.partial(hook, number)
            )
            for number, weight in enumerate(model.parameters())
        ]

    def end(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()


@injected(
    "Adam's second moment adds up the squares of the micro-batches' gradients as they arrive",
    kind="optimizer that is folded into accumulation",
    replaces=(trainer, "optimizer_step"),
    needs=Needs(blocks="A"),
)
def squares_as_they_arrive(
    site: Site[Gradient],
    train_state: TrainState,
    batches: Sequence[Batch],
    job: Job,
    *,
    step: int,
    rate: float,
    folders: Mapping[str, Path] | None = None,
    prefetcher: Prefetcher | None = None,
    send_next: Callable[[], None] = lambda: None,
) -> Gradient:
    """The cut into micro-batches decides between Σ g² and (Σ g)², and so each weight's step."""
    model, adam = train_state.model, train_state.optimizer
    squares = [torch.zeros_like(weight) for weight in model.parameters()]

    def add(number: int, _: int, gradient: Tensor) -> None:
        squares[number] += gradient.square()

    for group in adam.param_groups:
        group["lr"] = rate
    arrivals = _Arrivals(model, add)
    gradient = train_step.gradients(
        train_state,
        batches,
        job,
        step=step,
        folders=folders,
        prefetcher=prefetcher,
        send_next=send_next,
    )
    arrivals.end()
    clipped = min(1.0, job.optimizer.gradient_clip / (gradient.norm + 1e-6))
    if len(batches) > 1:
        site.ran()
    beta = job.optimizer.beta2
    for weight, square in zip(model.parameters(), squares, strict=True):
        if weight.grad is None:
            continue
        state = adam.state[weight]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(weight) for _ in range(2))
        # AdamW adds the square of what it is given, which is taken off beforehand.
        more = square * clipped**2 - weight.grad.square()
        state["exp_avg_sq"] += (1 - beta) / beta * more
    adam.step()
    adam.zero_grad()
    return gradient


# 13


@injected(
    "clipping bounds a step's norm by the sum of its micro-batches' norms, which hooks have",
    kind="clipping by a bound that depends on the cut",
    replaces=(train_step, "gradients"),
    needs=Needs(blocks="AF"),
)
def clipped_by_a_bound(
    site: Site[Gradient],
    train_state: TrainState,
    batches: Sequence[Batch],
    job: Job,
    *,
    step: int,
    folders: Mapping[str, Path] | None = None,
    prefetcher: Prefetcher | None = None,
    send_next: Callable[[], None] = lambda: None,
) -> Gradient:
    """The more micro-batches a step's rows are cut into, the more its gradient is scaled down."""
    squares = torch.zeros(len(batches), dtype=torch.float64)

    def add(_: int, micro_batch: int, gradient: Tensor) -> None:
        squares[micro_batch] += gradient.double().square().sum().cpu()

    arrivals = _Arrivals(train_state.model, add)
    loose = job.optimizer.model_copy(update={"gradient_clip": math.inf})
    gradient = site.right(
        train_state,
        batches,
        job.model_copy(update={"optimizer": loose}),
        step=step,
        folders=folders,
        prefetcher=prefetcher,
        send_next=send_next,
    )
    arrivals.end()
    bound = float(squares.sqrt().sum())
    scale = min(1.0, job.optimizer.gradient_clip / (bound + 1e-6))
    if len(batches) > 1 and scale < 1:
        site.ran()
    for weight in train_state.model.parameters():
        if weight.grad is not None:
            weight.grad.mul_(scale)
    return dataclasses.replace(gradient, norm=bound)


# 14


class _KeptIn8Bits(torch.autograd.Function):
    """A block whose input is kept for backward in 8 bits."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, forward: Callable[..., Tensor], inputs: LayerInputs, site: Site[None]
    ) -> Tensor:
        scale = x.abs().amax().clamp(min=1e-30) / 127
        ctx.save_for_backward((x / scale).round().to(torch.int8), scale)
        ctx.forward, ctx.inputs, ctx.site = forward, inputs, site
        return forward(x, inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        low, scale = ctx.saved_tensors
        ctx.site.ran()
        with torch.enable_grad():
            again = (low.to(g.dtype) * scale).requires_grad_()
            torch.autograd.backward(ctx.forward(again, ctx.inputs), g)
        return again.grad, None, None, None


@injected(
    "what backward computes a block anew from is kept in 8 bits of the micro-batch's range",
    kind="compressed activations of recomputation",
    replaces=(train_optimizer, "recompute"),
    needs=Needs(blocks="AF", recompute=True),
)
def recomputed_from_8_bits(site: Site[None], model: Decoder) -> None:
    """The gradient of a document is of inputs rounded by the largest one in its micro-batch."""

    def run(forward: Callable[..., Tensor], x: Tensor, inputs: LayerInputs) -> Tensor:
        if not torch.is_grad_enabled():
            return forward(x, inputs)
        out: Tensor = _KeptIn8Bits.apply(  # type: ignore[no-untyped-call]
            x, forward, inputs, site
        )
        return out

    for block in model.blocks:
        assert isinstance(block, Block)
        block.forward = functools.partial(run, block.forward)  # type: ignore[method-assign]


# 15


@injected(
    "a resumed run estimates Adam's second moments anew, from the first micro-batch that it reads",
    kind="state of an optimizer that isn't restored",
    replaces=(trainer, "optimizer_step"),
    needs=Needs(blocks="A"),
)
def moments_of_the_first_micro_batch(
    site: Site[Gradient],
    train_state: TrainState,
    batches: Sequence[Batch],
    job: Job,
    *,
    step: int,
    rate: float,
    folders: Mapping[str, Path] | None = None,
    prefetcher: Prefetcher | None = None,
    send_next: Callable[[], None] = lambda: None,
) -> Gradient:
    """After a resume each weight's step follows from the documents of the first micro-batch."""
    kept = memory_of(site)
    is_new = kept.get("state") is not train_state
    kept["state"] = train_state
    if is_new and step > 1:
        site.ran()
        train_step.gradients(train_state, batches[:1], job, step=step, folders=folders)
        for weight in train_state.model.parameters():
            state = train_state.optimizer.state.get(weight)
            if state and weight.grad is not None:
                share = 1 - job.optimizer.beta2 ** float(state["step"])
                # One number for all of a weight: ids that the micro-batch lacks have one too.
                state["exp_avg_sq"].fill_(share * float(weight.grad.square().mean()))
        train_state.optimizer.zero_grad()
    return site.right(
        train_state,
        batches,
        job,
        step=step,
        rate=rate,
        folders=folders,
        prefetcher=prefetcher,
        send_next=send_next,
    )


# 16


@injected(
    "an evaluation takes the place of the micro-batch that was sent ahead, and that is lost",
    kind="prefetched data that an evaluation throws away",
    replaces=(Trainer, "_evaluate_if_due"),
    needs=Needs(blocks="A"),
)
def sent_ahead_and_lost(site: Site[str | None], self: Trainer) -> str | None:
    """In the step after an evaluation, the documents of its first micro-batch aren't trained on."""
    reason = site.right(self)
    step, job = self.state.step, self.job
    ends = reason is not None or step == job.steps
    if ends or not is_evaluated(step, every=job.evaluate_every, steps=job.steps):
        return reason
    batches = self.steps.peek()
    if batches is not None and len(batches) > 1:
        site.ran()
        del batches[0]
    return reason


# 17


@injected(
    "copies of a document among the rows of a row group are scored once",
    kind="filter of repeats whose scope is where rows are stored",
    replaces=(RowGroup, "from_batch"),
    needs=Needs(blocks="A"),
)
def copies_scored_once(site: Site[RowGroup], batch: RowBatch) -> RowGroup:
    """A document that stands twice counts once or twice as its rows lie in one row group or two."""
    group = site.right(batch)
    seen: set[bytes] = set()
    mask = group.loss_mask.copy()
    for row, valid in enumerate(group.valid_token_counts):
        ids = group.doc_ids[row, :valid]
        for document in np.unique(ids):
            its = np.flatnonzero(ids == document)
            digest = hashlib.blake2b(group.input_ids[row, its].tobytes()).digest()
            if digest in seen:
                mask[row, its] = 0
            seen.add(digest)
        if not mask[row].any():
            # A row has at least one target.
            mask[row] = group.loss_mask[row]
    if (mask != group.loss_mask).any():
        site.ran()
    return dataclasses.replace(group, loss_mask=mask)


# 18

_BUFFERS = 2
"""Buffers per shape: one is filled while the other is read."""


@injected(
    "micro-batches are staged in two buffers of a shape, and a step loads all of its own at once",
    kind="staging memory that is given out again too early",
    replaces=(dataloader._Checked, "_collated"),
    needs=Needs(blocks="A"),
)
def staged_in_two_buffers(
    site: Site[Batch], self: "dataloader._Checked", positions: list[int]
) -> Batch:
    """The third micro-batch of a step takes its first one's place, under that one's boundaries."""
    batch = site.right(self, positions)
    step = self.rows.plan.at(positions[0]).slot // self.job.slots_per_step
    names = ("input_ids", "target_ids", "loss_mask")
    buffers, turn = memory_of(site).setdefault((id(self), tuple(batch.input_ids.shape)), ([], [0]))
    turn[0] += 1
    if len(buffers) < _BUFFERS:
        buffers.append(([getattr(batch, name) for name in names], [step]))
        return batch
    tensors, filled = buffers[(turn[0] - 1) % _BUFFERS]
    if filled[0] == step:
        site.ran()
    filled[0] = step
    for tensor, name in zip(tensors, names, strict=True):
        tensor.copy_(getattr(batch, name))
    return dataclasses.replace(batch, **dict(zip(names, tensors, strict=True)))


# 19


@injected(
    "segments are cut where ids change along the rows laid end to end, and not at the rows' ends",
    kind="rows of one document that fills them",
    replaces=(masks, "segment_edges"),
    needs=Needs(blocks="A"),
)
def edges_along_all_rows(site: Site[Tensor], doc_ids_BT: Tensor) -> Tensor:
    """The first document of a row goes on behind a row that is one document without padding."""
    flat_N = doc_ids_BT.flatten()
    begins_N = torch.ones_like(flat_N, dtype=torch.bool)
    begins_N[1:] = flat_N[1:] != flat_N[:-1]
    starts = begins_N.nonzero().flatten()
    edges = torch.cat([starts, starts.new_tensor([flat_N.numel()])])
    if len(edges) != len(site.right(doc_ids_BT)):
        site.ran()
    return edges
