"""Mamba-2: a state space with one scalar decay per head, computed in chunks of single documents.

The recurrence is h[t] = exp(dt[t] · rate) · h[t-1] + dt[t] · x[t] ⊗ b[t], y[t] = h[t] · c[t], with h = 0
at the start of every document (arXiv 2405.21060). Within a chunk the recurrence is one product with the
decays between positions. Only states are passed on from chunk to chunk.

A decay between two positions is the exponential of a sum over the positions in between. It is not
computed as a difference of sums from the start of a row, because those sums contain the rounding of all
earlier documents. The scan uses at least float32.

Shapes: N = B·T positions of concatenated rows; H heads of P features; E state features; n chunks of q
positions. The decays between positions are T · q · H numbers: 1.1 GB in float32 for a row of 64k
positions and 64 heads. Above MAX_DECAYS numbers, heads are therefore computed in groups, and computed
again in backward.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from curriculum.model.context_ranks import convolve, state_before
from curriculum.model.conv import masked_conv
from curriculum.model.masks import Chunks, LayerInputs, RowPart
from curriculum.model.norm import RmsNorm
from schemas.errors import JobError
from schemas.job import ModelSpec

MAX_DECAYS = 1 << 25
"""Maximum number of decays in memory at once: 128 MB in float32, of which several copies exist.

The scan over a row of 64k positions with 64 heads of 64 features takes 4.7 GB in addition to its inputs,
including gradients.
"""
MIN_STEP, MAX_STEP = 1e-3, 0.1
"""Range of the initial steps dt. Each head's step is drawn from it log-uniformly."""


class Mamba(nn.Module):
    """Mamba-2 layer, x_BTD -> x_BTD: a convolution, a state space within documents and a gate.

    Raises:
        JobError: if the head width doesn't divide the inner width.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        inner, state = spec.mamba.expand * spec.width, spec.mamba.state
        _require_whole_heads(spec, inner)
        self.head_width = spec.mamba.head_width
        heads = inner // self.head_width
        self.conv_widths = [inner, state, state]
        self.projected = [inner, sum(self.conv_widths), heads]
        self.input = nn.Linear(spec.width, sum(self.projected), bias=False)
        self.kernel = nn.Parameter(torch.ones(sum(self.conv_widths), spec.conv_kernel))
        self.shift = nn.Parameter(torch.zeros(sum(self.conv_widths)))
        self.step = nn.Parameter(torch.zeros(heads))
        self.log_rate = nn.Parameter(torch.zeros(heads))
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = RmsNorm(inner)
        self.output = nn.Linear(inner, spec.width, bias=False)

    def start(self, generator: torch.Generator) -> None:
        """Draw rates from 1 to 16, steps from MIN_STEP to MAX_STEP, and convolution taps like Conv1d."""
        heads, taps = len(self.step), self.kernel.shape[1]
        dt_H = torch.empty(heads).uniform_(
            math.log(MIN_STEP), math.log(MAX_STEP), generator=generator
        )
        dt_H = dt_H.exp()
        rates_H = torch.empty(heads).uniform_(1, 16, generator=generator)
        bound = taps**-0.5
        self.step.copy_(dt_H + torch.log(-torch.expm1(-dt_H)))
        self.log_rate.copy_(rates_H.log())
        self.kernel.copy_(
            torch.empty(self.kernel.shape).uniform_(-bound, bound, generator=generator)
        )
        self.shift.zero_()

    def forward(self, x_BTD: Tensor, inputs: LayerInputs) -> Tensor:
        """Return the layer's output x_BTD. The convolution and the state restart at every document."""
        assert inputs.chunks is not None, (
            "chunks are missing in the inputs of a model with M layers"
        )
        z_BTI, mixed_BTC, step_BTH = torch.split(self.input(x_BTD), self.projected, dim=-1)
        mixed_BTC = F.silu(convolve(masked_conv, mixed_BTC, self.kernel, inputs) + self.shift)
        x_NI, b_NE, c_NE = torch.split(mixed_BTC.flatten(0, 1), self.conv_widths, dim=-1)
        x_NHP = x_NI.view(len(x_NI), -1, self.head_width)
        wide = torch.promote_types(x_BTD.dtype, torch.float32)
        step_NH = step_BTH.flatten(0, 1).to(wide) + self.step.to(wide)
        rate_H = -self.log_rate.to(wide).exp()
        y_NHP = scan_states(x_NHP, step_NH, rate_H, b_NE, c_NE, inputs.chunks)
        if inputs.part is not None:
            y_NHP = y_NHP + scan_from_previous_ranks(
                x_NHP, step_NH, rate_H, b_NE, c_NE, inputs.part
            )
        y_NHP = y_NHP + self.skip.to(wide)[:, None] * x_NHP
        y_BTI = y_NHP.to(x_BTD.dtype).view(z_BTI.shape)
        out_BTD: Tensor = self.output(self.norm(y_BTI * F.silu(z_BTI)))
        return out_BTD


def _require_whole_heads(spec: ModelSpec, inner: int) -> None:
    if inner % spec.mamba.head_width:
        raise JobError(
            f"model {spec.name}",
            f"width {spec.width}, mamba.expand {spec.mamba.expand}, "
            f"mamba.head_width {spec.mamba.head_width}",
            cause="head_width must divide the inner width, expand · width",
            cure="Choose a head_width that divides the inner width",
        )


def scan_states(
    x_NHP: Tensor, step_NH: Tensor, rate_H: Tensor, b_NE: Tensor, c_NE: Tensor, chunks: Chunks
) -> Tensor:
    """Compute y_NHP of the recurrence with dt = softplus(step), in the dtype of step_NH even under autocast.

    `rate_H` is negative. Heads are independent of each other and are computed in groups to limit memory. The
    size of the groups may change the last bit of the result.
    """
    with torch.autocast(x_NHP.device.type, enabled=False):
        b_nqE, c_nqE = (chunks.to_chunks(x_NE.to(step_NH.dtype)) for x_NE in (b_NE, c_NE))
        decays = chunks.count * chunks.size**2
        if decays * len(rate_H) <= MAX_DECAYS:
            return _heads(x_NHP, step_NH, rate_H, b_nqE, c_nqE, chunks)
        at_once = max(1, MAX_DECAYS // decays)
        groups = [
            (x_NHP[:, h : h + at_once], step_NH[:, h : h + at_once], rate_H[h : h + at_once])
            for h in range(0, len(rate_H), at_once)
        ]
        return torch.cat(
            [
                checkpoint(_heads, *group, b_nqE, c_nqE, chunks, use_reentrant=False)
                for group in groups
            ],
            dim=1,
        )


def scan_from_previous_ranks(
    x_NHP: Tensor, step_NH: Tensor, rate_H: Tensor, b_NE: Tensor, c_NE: Tensor, part: RowPart
) -> Tensor:
    """Compute which part of y_NHP is due to the beginnings of documents on previous ranks.

    The result has the dtype of step_NH.
    """
    shape_Bt = part.doc_ids.shape
    with torch.autocast(x_NHP.device.type, enabled=False):
        x, dt, b, c = (
            tensor.to(step_NH.dtype).view(*shape_Bt, *tensor.shape[1:])
            for tensor in (x_NHP, F.softplus(step_NH), b_NE, c_NE)
        )
        return state_before(x, dt, rate_H, b, c, part).flatten(0, 1)


def _heads(
    x_NHP: Tensor, step_NH: Tensor, rate_H: Tensor, b_nqE: Tensor, c_nqE: Tensor, chunks: Chunks
) -> Tensor:
    if torch.compiler.is_compiling():
        # In chunks, torch 2.13 traces strides for softplus's gradient that differ from the actual ones.
        dt_nqH = chunks.to_chunks(F.softplus(step_NH))
    else:
        dt_nqH = F.softplus(chunks.to_chunks(step_NH, blank=-math.inf))
    # Computed outside of chunks: the memory layout of a single chunk would change the order of its
    # gradient's sums.
    u_nqHP = chunks.to_chunks(x_NHP * chunks.unchunk(dt_nqH)[..., None])
    log_decay_nHq = (dt_nqH * rate_H).transpose(1, 2)
    decays_nHkq = decays_between(log_decay_nHq)
    scores_nkq = b_nqE @ c_nqE.mT
    near_nHqP = (decays_nHkq * scores_nkq[:, None]).mT @ u_nqHP.transpose(1, 2)

    to_end_nqH1 = decays_nHkq[..., -1].transpose(1, 2)[..., None]
    states_nIE = (u_nqHP * to_end_nqH1).flatten(2).mT @ b_nqE
    from_start_nHq = log_decay_nHq.cumsum(-1).exp()
    entering_nHPE = entering_states(
        states_nIE.view(len(states_nIE), *u_nqHP.shape[2:], -1), from_start_nHq[..., -1], chunks
    )
    far_nqI = c_nqE @ entering_nHPE.flatten(1, 2).mT
    far_nqHP = far_nqI.view_as(u_nqHP) * from_start_nHq.transpose(1, 2)[..., None]
    return chunks.unchunk(near_nHqP.transpose(1, 2) + far_nqHP)


def decays_between(log_decay_nHq: Tensor) -> Tensor:
    """Compute the decay from position k to position q, [n, H, k, q].

    It is the exponential of the sum of the logs after k up to q, and 0 where k is after q. Logs [a b c] ->
    exp of [[0 b b+c] [- 0 c] [- - 0]]. Sums where k is after q are zeroed before the exponential, so that no
    gradient becomes infinite.
    """
    q, device = log_decay_nHq.shape[-1], log_decay_nHq.device
    later_kq = torch.ones(q, q, dtype=torch.bool, device=device).triu(1)
    sums_nHkq = torch.where(later_kq, log_decay_nHq[..., None, :], 0).cumsum(-1)
    return torch.where(later_kq.mT, 0, sums_nHkq.exp())


def entering_states(left_nHPE: Tensor, decay_nH: Tensor, chunks: Chunks) -> Tensor:
    """Compute the state that enters every chunk, from each chunk's own state and decay.

    The first chunk of a document is entered by 0. Chunks of one document with states [a b c] and decays
    [p q r] -> [0 a qa+b].
    """
    if torch.compiler.is_compiling():
        # The number of steps differs between batches, and every number would be compiled to another graph.
        out: Tensor = _entering(left_nHPE, decay_nH, chunks.spans, chunks.steps)
        return out
    return _two_scans(left_nHPE, decay_nH, chunks.spans, chunks.sizes, chunks.span_sizes)


def _two_scans(
    left_nHPE: Tensor,
    decay_nH: Tensor,
    spans: Tensor,
    sizes: tuple[int, ...],
    span_sizes: tuple[int, ...],
) -> Tensor:
    entering, kept, end_mHPE, end_m = scan_sequences(left_nHPE, decay_nH, sizes)
    if len(span_sizes) == 1:
        return entering
    ends = torch.empty_like(end_mHPE).index_copy(0, spans, end_mHPE)
    keeps = torch.empty_like(end_m).index_copy(0, spans, end_m)
    before_mHPE = scan_sequences(ends, keeps, span_sizes)[0].index_select(0, spans)
    return entering + kept[..., None, None] * torch.cat([before_mHPE[:k] for k in sizes])


@torch.library.custom_op("curriculum::entering_states", mutates_args=())
def _entering(left_nHPE: Tensor, decay_nH: Tensor, spans: Tensor, steps: Tensor) -> Tensor:
    """Run `entering_states` as a single operator in a compiled graph. `steps` is in host memory."""
    return _two_scans(left_nHPE, decay_nH, spans, *_sizes(steps)).contiguous()


@torch.library.custom_op("curriculum::entering_states_backward", mutates_args=())
def _entering_backward(
    gradient: Tensor, left_nHPE: Tensor, decay_nH: Tensor, spans: Tensor, steps: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of left_nHPE and decay_nH. The scans are recomputed, which is cheap."""
    sizes = _sizes(steps)
    backward = torch.func.vjp(
        lambda left, decay: _two_scans(left, decay, spans, *sizes), left_nHPE, decay_nH
    )[1]
    to_left, to_decay = backward(gradient)
    return to_left.contiguous(), to_decay.contiguous()


def _sizes(steps: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    within, *sizes = steps.tolist()
    return tuple(sizes[:within]), tuple(sizes[within:])


@_entering.register_fake
def _like_left(left: Tensor, decay: Tensor, spans: Tensor, steps: Tensor) -> Tensor:
    return left.new_empty(left.shape)


@_entering_backward.register_fake
def _like_both(
    gradient: Tensor, left: Tensor, decay: Tensor, spans: Tensor, steps: Tensor
) -> tuple[Tensor, Tensor]:
    return left.new_empty(left.shape), decay.new_empty(decay.shape)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    to_left, to_decay = _entering_backward(gradient, *ctx.saved_tensors)
    return to_left, to_decay, None, None


_entering.register_autograd(_gradients, setup_context=_keep)


def scan_sequences(
    left: Tensor, decay: Tensor, sizes: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scan several sequences side by side.

    Return the state that enters each element, the decay from the start of its sequence, and the state and
    decay at the end of each sequence.
    """
    state, kept = torch.zeros_like(left[: sizes[0]]), torch.ones_like(decay[: sizes[0]])
    entering, since, ended = [], [], []
    for left_k, decay_k in zip(
        torch.split(left, [*sizes]), torch.split(decay, [*sizes]), strict=True
    ):
        k = len(left_k)
        ended.append((state[k:], kept[k:]))
        state, kept = state[:k], kept[:k]
        entering.append(state)
        since.append(kept)
        state, kept = left_k + decay_k[..., None, None] * state, decay_k * kept
    ended.append((state, kept))
    ends, keeps = zip(*reversed(ended), strict=True)
    return torch.cat(entering), torch.cat(since), torch.cat(ends), torch.cat(keeps)
