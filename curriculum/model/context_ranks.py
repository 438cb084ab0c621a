"""Context parallelism: each of several ranks computes a part of every row, and layers exchange what crosses.

Rank c of C has the positions from c · T / C on. Ids, boundaries and structure are those of whole rows on each
rank; activations x_BtD are of its part, t = T / C. Attention reads the keys and values of all ranks, a
convolution the last K - 1 inputs of the rank before, a state space the state that the ranks before leave:
nothing of them where a document begins at the border. Each exchange is one collective, in backward too, so
all ranks make the same calls in the same order whatever documents they hold.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from curriculum.model.masks import ContextRanks, LayerInputs, RowPart


def whole_rows(x_BGtK: Tensor, part: RowPart) -> Tensor:
    """x_BGTK of all ranks' positions; its gradient is the sum of what each rank's queries give."""
    x_CBGtK = _gathered(x_BGtK, part)
    return x_CBGtK.permute(1, 2, 0, 3, 4).flatten(2, 3)


Conv = Callable[..., Tensor]
"""masked_conv, or what stands in for it."""


def convolved(conv: Conv, x_BtC: Tensor, weight_CK: Tensor, inputs: LayerInputs) -> Tensor:
    """A convolution within documents, also within those that began on a rank before."""
    part = inputs.part
    if part is None:
        out_BTC: Tensor = conv(x_BtC, weight_CK, inputs.boundaries)
        return out_BTC
    reach = part.reach
    x_BrC = torch.cat([from_before(x_BtC[:, x_BtC.shape[1] - reach :], part), x_BtC], dim=1)
    out_BrC: Tensor = conv(x_BrC, weight_CK, part.near)
    return out_BrC[:, reach:]


def from_before(x: Tensor, part: RowPart) -> Tensor:
    """The tensor of the rank before, zeros on the first."""
    out: Tensor = _FromBefore.apply(x, part.context.group, part.rank)  # type: ignore[no-untyped-call]
    return out


def state_before(
    x_BtHP: Tensor, dt_BtH: Tensor, rate_H: Tensor, b_BtE: Tensor, c_BtE: Tensor, part: RowPart
) -> Tensor:
    """The share of y_BtHP of Mamba's recurrence that comes from the states of ranks before.

    A part leaves Σ exp(log decay from each position to its end) · dt · x ⊗ b over its last document, and all
    of what enters it where one document fills it. Sums of logs run from the border, so nothing of other
    documents rounds into them.
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


def of_rows(nll_N: Tensor, mask_BT: Tensor, context: ContextRanks) -> Tensor:
    """nll_N of the scored positions of whole rows, from those of each rank's part; no gradient passes."""
    part_Bt = context.part(mask_BT).bool()
    nll_Bt = nll_N.new_zeros(part_Bt.shape).masked_scatter(part_Bt, nll_N)
    parts = [torch.empty_like(nll_Bt) for _ in range(context.size)]
    dist.all_gather(parts, nll_Bt, group=context.group)
    return torch.cat(parts, dim=1)[mask_BT.bool()]


def _sums_after(log_BtH: Tensor) -> Tensor:
    """Sums over later positions of the part: [a b c] -> [b+c c 0]."""
    later_BtH = F.pad(log_BtH[:, 1:], (0, 0, 0, 1))
    return later_BtH.flip(1).cumsum(1).flip(1)


def _entering(left_BHPE: Tensor, kept_BH: Tensor, part: RowPart) -> Tensor:
    """The state that enters this part, from what each leaves and keeps; one collective for both."""
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
    # Of all states, also on the first rank: the gradient's collective needs every rank.
    return torch.stack(states)[part.rank].view_as(left_BHPE)


def _gathered(x: Tensor, part: RowPart) -> Tensor:
    """[C, …] of all ranks."""
    out: Tensor = _Gather.apply(x, part.context.group, part.context.size)  # type: ignore[no-untyped-call]
    return out


class _Gather(torch.autograd.Function):
    """All ranks' tensors; backward sums over ranks, in float32 at least."""

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
    """Rank c's tensor on rank c + 1; backward goes the other way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None, rank: int) -> Tensor:
        ctx.group, ctx.rank = group, rank
        return _shifted(x, group, rank - 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return _shifted(g, ctx.group, ctx.rank + 1), None, None


def _shifted(x: Tensor, group: dist.ProcessGroup | None, source: int) -> Tensor:
    """The tensor of rank `source`, zeros where there is none; small, so all are gathered."""
    all_C = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(all_C, x.contiguous(), group=group)
    return all_C[source] if 0 <= source < len(all_C) else torch.zeros_like(x)
