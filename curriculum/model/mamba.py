"""Mamba-2: a state space of scalar decay for each head, computed in chunks that hold one document each.

The recurrence is h[t] = exp(dt[t] · rate) · h[t-1] + dt[t] · x[t] ⊗ b[t], y[t] = h[t] · c[t], from h = 0
at the start of each document (arXiv 2405.21060). Within a chunk it is one product with the decays from
each position to each later one; between chunks only their states go on.

Decays are exponentials of sums over the positions between, never differences of sums from the start of
a row: those carry the rounding of all documents before. The scan runs in float32 at least.

Shapes: N = B·T positions of the rows laid end to end; H heads of P features; E features of state; n chunks
of q positions. Decays from k to q are T · q · H numbers, for a row of 64k of 64 heads 1.1 GB in float32;
heads are therefore computed in groups and again in backward once a group's are more than AT_ONCE.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from curriculum.model.context_ranks import convolved, state_before
from curriculum.model.conv import masked_conv
from curriculum.model.masks import Chunks, LayerInputs, RowPart
from curriculum.model.norm import RmsNorm
from schemas.errors import JobError
from schemas.job import ModelSpec

AT_ONCE = 1 << 25
"""Decays that stand at once: 128 MB in float32, several times over. The scan over a row of 64k of 64
heads of 64 features then takes 4.7 GB beside its inputs, gradients included."""
SLOWEST, FASTEST = 1e-3, 0.1
"""Fresh steps dt, between which heads are spread evenly in their logarithms."""


class Mamba(nn.Module):
    """x_BTD -> x_BTD through a convolution, a state space within documents and a gate.

    Raises:
        JobError: for heads that don't split the inner width.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        inner, state = spec.mamba.expand * spec.width, spec.mamba.state
        _require_whole_heads(spec, inner)
        self.head_width = spec.mamba.head_width
        heads = inner // self.head_width
        self.convolved = [inner, state, state]
        self.projected = [inner, sum(self.convolved), heads]
        self.input = nn.Linear(spec.width, sum(self.projected), bias=False)
        self.kernel = nn.Parameter(torch.ones(sum(self.convolved), spec.conv_kernel))
        self.shift = nn.Parameter(torch.zeros(sum(self.convolved)))
        self.step = nn.Parameter(torch.zeros(heads))
        self.log_rate = nn.Parameter(torch.zeros(heads))
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = RmsNorm(inner)
        self.output = nn.Linear(inner, spec.width, bias=False)

    def start(self, generator: torch.Generator) -> None:
        """Rates from 1 to 16, steps from SLOWEST to FASTEST through softplus, taps as Conv1d's."""
        heads, taps = len(self.step), self.kernel.shape[1]
        dt_H = torch.empty(heads).uniform_(
            math.log(SLOWEST), math.log(FASTEST), generator=generator
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
        """x_BTD -> x_BTD; convolution and state begin anew with each document."""
        assert inputs.chunks is not None, "a pattern with M gives its layers chunks"
        z_BTI, mixed_BTC, step_BTH = torch.split(self.input(x_BTD), self.projected, dim=-1)
        mixed_BTC = F.silu(convolved(masked_conv, mixed_BTC, self.kernel, inputs) + self.shift)
        x_NI, b_NE, c_NE = torch.split(mixed_BTC.flatten(0, 1), self.convolved, dim=-1)
        x_NHP = x_NI.view(len(x_NI), -1, self.head_width)
        wide = torch.promote_types(x_BTD.dtype, torch.float32)
        step_NH = step_BTH.flatten(0, 1).to(wide) + self.step.to(wide)
        rate_H = -self.log_rate.to(wide).exp()
        y_NHP = scanned(x_NHP, step_NH, rate_H, b_NE, c_NE, inputs.chunks)
        if inputs.part is not None:
            y_NHP = y_NHP + continued(x_NHP, step_NH, rate_H, b_NE, c_NE, inputs.part)
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
            cause="heads split the inner width, expand · width, evenly",
            cure="Choose a head_width that divides it",
        )


def scanned(
    x_NHP: Tensor, step_NH: Tensor, rate_H: Tensor, b_NE: Tensor, c_NE: Tensor, chunks: Chunks
) -> Tensor:
    """y_NHP of the recurrence with dt = softplus(step), computed in the dtype of step_NH.

    That holds under autocast too. `rate_H` is negative. Heads don't see one another, so memory is
    bounded by groups of them; how many there are in one may move the last bit.
    """
    with torch.autocast(x_NHP.device.type, enabled=False):
        b_nqE, c_nqE = (chunks.placed(each.to(step_NH.dtype)) for each in (b_NE, c_NE))
        decays = chunks.count * chunks.size**2
        if decays * len(rate_H) <= AT_ONCE:
            return _heads(x_NHP, step_NH, rate_H, b_nqE, c_nqE, chunks)
        at_once = max(1, AT_ONCE // decays)
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


def continued(
    x_NHP: Tensor, step_NH: Tensor, rate_H: Tensor, b_NE: Tensor, c_NE: Tensor, part: RowPart
) -> Tensor:
    """The share of y_NHP that comes from documents begun on ranks before, in the dtype of step_NH."""
    shape_Bt = part.doc_ids.shape
    with torch.autocast(x_NHP.device.type, enabled=False):
        x, dt, b, c = (
            each.to(step_NH.dtype).view(*shape_Bt, *each.shape[1:])
            for each in (x_NHP, F.softplus(step_NH), b_NE, c_NE)
        )
        return state_before(x, dt, rate_H, b, c, part).flatten(0, 1)


def _heads(
    x_NHP: Tensor, step_NH: Tensor, rate_H: Tensor, b_nqE: Tensor, c_nqE: Tensor, chunks: Chunks
) -> Tensor:
    if torch.compiler.is_compiling():
        # torch 2.13 traces other strides for softplus's gradient within chunks than it then has.
        dt_nqH = chunks.placed(F.softplus(step_NH))
    else:
        dt_nqH = F.softplus(chunks.placed(step_NH, blank=-math.inf))
    # Not within chunks: a lone chunk lies otherwise in memory, and its gradient would sum otherwise.
    u_nqHP = chunks.placed(x_NHP * chunks.unchunk(dt_nqH)[..., None])
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
    """Decay from position k to q, [n, H, k, q]: exp of the logs after k up to q, 0 where k is later.

    Logs [a b c] -> exp of [[0 b b+c] [- 0 c] [- - 0]]. Later positions are blanked before the
    exponential, so no gradient meets an infinity.
    """
    q, device = log_decay_nHq.shape[-1], log_decay_nHq.device
    later_kq = torch.ones(q, q, dtype=torch.bool, device=device).triu(1)
    sums_nHkq = torch.where(later_kq, log_decay_nHq[..., None, :], 0).cumsum(-1)
    return torch.where(later_kq.mT, 0, sums_nHkq.exp())


def entering_states(left_nHPE: Tensor, decay_nH: Tensor, chunks: Chunks) -> Tensor:
    """The state that enters each chunk, from what each adds and how much of what enters it keeps.

    It is 0 for the first chunk of a document. Chunks that add [a b c], keeping [p q r], of one document
    -> [0 a qa+b].
    """
    if torch.compiler.is_compiling():
        # Its steps differ from batch to batch, and each number of them would be another graph.
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
    entering, kept, end_mHPE, end_m = walked(left_nHPE, decay_nH, sizes)
    if len(span_sizes) == 1:
        return entering
    ends = torch.empty_like(end_mHPE).index_copy(0, spans, end_mHPE)
    keeps = torch.empty_like(end_m).index_copy(0, spans, end_m)
    before_mHPE = walked(ends, keeps, span_sizes)[0].index_select(0, spans)
    return entering + kept[..., None, None] * torch.cat([before_mHPE[:k] for k in sizes])


@torch.library.custom_op("curriculum::entering_states", mutates_args=())
def _entering(left_nHPE: Tensor, decay_nH: Tensor, spans: Tensor, steps: Tensor) -> Tensor:
    """The scans of `entering_states` as one operator of a compiled graph; `steps` lies on the host."""
    return _two_scans(left_nHPE, decay_nH, spans, *_sizes(steps)).contiguous()


@torch.library.custom_op("curriculum::entering_states_backward", mutates_args=())
def _entering_backward(
    gradient: Tensor, left_nHPE: Tensor, decay_nH: Tensor, spans: Tensor, steps: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of left_nHPE and decay_nH; the scans are computed again, which costs little beside them."""
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


def walked(
    left: Tensor, decay: Tensor, sizes: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A scan over sequences side by side: what enters each element, and what leaves each sequence.

    Both as a state and as the decay since the start of the sequence.
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
