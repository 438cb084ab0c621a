"""Context parallelism: several ranks compute parts of the same rows and exchange values across borders.

Rank c of C computes the T / C positions that begin at c · T / C. Ids, boundaries and structure cover
whole rows on every rank; activations x_BtD cover the rank's part, t = T / C. Attention reads the keys and
values of all ranks. A convolution reads the last K - 1 inputs of the previous rank. A state space reads
the state of the previous ranks. Nothing crosses a border at which a document begins.

Every exchange is one collective operation, in backward too. Therefore, all ranks make the same calls in
the same order, whichever documents they have.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from curriculum.model.masks import ContextRanks, LayerInputs, RowPart


def gather_parts(x_BGtK: Tensor, part: RowPart) -> Tensor:
    """Gather x_BGTK of whole rows from the parts x_BGtK of all ranks.

    The backward pass sums the gradients that all ranks' queries have for a part.
    """
    x_CBGtK = _gathered(x_BGtK, part)
    return x_CBGtK.permute(1, 2, 0, 3, 4).flatten(2, 3)


Conv = Callable[..., Tensor]
"""The function masked_conv, or a replacement with the same signature."""


def convolve(conv: Conv, x_BtC: Tensor, weight_CK: Tensor, inputs: LayerInputs) -> Tensor:
    """Apply a convolution within documents, even to documents that begin on the previous rank."""
    part = inputs.part
    if part is None:
        out_BTC: Tensor = conv(x_BtC, weight_CK, inputs.boundaries)
        return out_BTC
    reach = part.reach
    x_BrC = torch.cat(
        [previous_rank_tensor(x_BtC[:, x_BtC.shape[1] - reach :], part), x_BtC], dim=1
    )
    out_BrC: Tensor = conv(x_BrC, weight_CK, part.near)
    return out_BrC[:, reach:]


def previous_rank_tensor(x: Tensor, part: RowPart) -> Tensor:
    """Return the tensor `x` of the previous rank. The first rank gets zeros."""
    out: Tensor = _FromBefore.apply(x, part.context.group, part.rank)  # type: ignore[no-untyped-call]
    return out


def state_before(
    x_BtHP: Tensor, dt_BtH: Tensor, rate_H: Tensor, b_BtE: Tensor, c_BtE: Tensor, part: RowPart
) -> Tensor:
    """Compute which part of y_BtHP in Mamba's recurrence is due to the states of previous ranks.

    Each rank passes on the state of its last document: Σ exp(log decay from each position to the end) · dt ·
    x ⊗ b. If one document fills the rank's whole part, the rank also passes on the state that entered the
    part, decayed. Sums of logs start at the border. Therefore, rounding never depends on other documents.
    """
    doc_ids_Bt = part.doc_ids
    log_BtH = dt_BtH * rate_H
    is_last_Bt1 = (doc_ids_Bt == doc_ids_Bt[:, -1:])[..., None]
    to_end_BtH = torch.where(is_last_Bt1, _sums_after(log_BtH), 0).exp()
    u_BtHP = torch.where(is_last_Bt1, dt_BtH * to_end_BtH, 0)[..., None] * x_BtHP
    left_BHPE = torch.einsum("bthp,bte->bhpe", u_BtHP, b_BtE)
    kept_BH = torch.where(is_last_Bt1, log_BtH, 0).sum(1).exp()
    entering_BHPE = _entering(left_BHPE, kept_BH, part)
    is_first_Bt1 = (part.continues[part.rank][:, None] & (doc_ids_Bt == doc_ids_Bt[:, :1]))[
        ..., None
    ]
    since_BtH = torch.where(is_first_Bt1, log_BtH.cumsum(1), 0).exp()
    far_BtHP = torch.einsum("bhpe,bte->bthp", entering_BHPE, c_BtE)
    return torch.where(is_first_Bt1, since_BtH, 0)[..., None] * far_BtHP


def gather_scored_nll(nll_N: Tensor, mask_BT: Tensor, context: ContextRanks) -> Tensor:
    """Gather the losses nll_N of the scored positions in whole rows from all ranks.

    No gradient flows back.
    """
    part_Bt = context.part(mask_BT).bool()
    nll_Bt = nll_N.new_zeros(part_Bt.shape).masked_scatter(part_Bt, nll_N)
    parts = [torch.empty_like(nll_Bt) for _ in range(context.size)]
    dist.all_gather(parts, nll_Bt, group=context.group)
    return torch.cat(parts, dim=1)[mask_BT.bool()]


def _sums_after(log_BtH: Tensor) -> Tensor:
    """Sum over all later positions of the part: [a b c] -> [b+c c 0]."""
    later_BtH = F.pad(log_BtH[:, 1:], (0, 0, 0, 1))
    return later_BtH.flip(1).cumsum(1).flip(1)


def _entering(left_BHPE: Tensor, kept_BH: Tensor, part: RowPart) -> Tensor:
    """Compute the state that enters this rank's part from the states and decays of all parts.

    It takes one collective operation.
    """
    both_CBHX = _gathered(torch.cat([left_BHPE.flatten(2), kept_BH[..., None]], dim=2), part)
    left_CBHX, kept_CBH1 = both_CBHX.split_with_sizes([both_CBHX.shape[-1] - 1, 1], dim=-1)
    state_BHX = torch.zeros_like(left_CBHX[0])
    states = [state_BHX]
    for left, kept, fills, continues in zip(
        left_CBHX[:-1], kept_CBH1[:-1], part.fills[:-1], part.continues[1:], strict=True
    ):
        state_BHX = left + torch.where(fills[:, None, None], kept, 0) * state_BHX
        state_BHX = torch.where(continues[:, None, None], state_BHX, 0)
        states.append(state_BHX)
    # Stack the states also on the first rank, because the backward collective needs every rank.
    return torch.stack(states)[part.rank].view_as(left_BHPE)


def _gathered(x: Tensor, part: RowPart) -> Tensor:
    """Gather the tensor `x` of all ranks, [C, …]."""
    out: Tensor = _Gather.apply(x, part.context.group, part.context.size)  # type: ignore[no-untyped-call]
    return out


class _Gather(torch.autograd.Function):
    """All-gather operation. Its backward pass sums gradients over ranks in at least float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None, size: int) -> Tensor:
        ctx.group = group
        all_C = x.new_empty(size, *x.shape)
        dist.all_gather_into_tensor(all_C, x.contiguous()[None], group=group)
        return all_C

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g_C: Tensor) -> tuple[Tensor | None, ...]:
        wide_C = g_C.to(torch.promote_types(g_C.dtype, torch.float32)).contiguous()
        mine = torch.empty_like(wide_C[:1])
        dist.reduce_scatter_tensor(mine, wide_C, group=ctx.group)
        return mine[0].to(g_C.dtype), None, None


class _FromBefore(torch.autograd.Function):
    """Operation that passes a tensor from rank c to rank c + 1.

    Its backward pass passes the gradient back.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None, rank: int) -> Tensor:
        ctx.group, ctx.rank = group, rank
        return _shifted(x, group, rank - 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return _shifted(g, ctx.group, ctx.rank + 1), None, None


def _shifted(x: Tensor, group: dist.ProcessGroup | None, source: int) -> Tensor:
    """Return the tensor `x` of rank `source`, or zeros if there is no such rank.

    All ranks' tensors are gathered, which is cheap since they are small.
    """
    all_C = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(all_C, x.contiguous(), group=group)
    return all_C[source] if 0 <= source < len(all_C) else torch.zeros_like(x)
