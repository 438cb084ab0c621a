"""Context parallelism: several ranks compute parts of the same rows and exchange values across borders.

Rank c of C computes the positions from c · T / C on. Ids, boundaries and structure cover whole rows on every
rank; activations x_BtD cover the rank's part, t = T / C. Attention reads the keys and values of all ranks, a
convolution reads the last K - 1 inputs of the previous rank, and a state space reads the state of the
previous ranks. Nothing crosses a border at which a document begins. Every exchange is one collective, also
in backward, so that all ranks make the same calls in the same order whichever documents they hold.
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
    """Gather x_BGTK from all ranks; backward sums the gradients of all ranks' queries."""
    x_CBGtK = _gathered(x_BGtK, part)
    return x_CBGtK.permute(1, 2, 0, 3, 4).flatten(2, 3)


Conv = Callable[..., Tensor]
"""masked_conv or a replacement with the same signature."""


def convolve(conv: Conv, x_BtC: Tensor, weight_CK: Tensor, inputs: LayerInputs) -> Tensor:
    """Apply a convolution within documents, including documents that begin on the previous rank."""
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
    """Return the previous rank's tensor; zeros on the first rank."""
    out: Tensor = _FromBefore.apply(x, part.context.group, part.rank)  # type: ignore[no-untyped-call]
    return out


def state_before(
    x_BtHP: Tensor, dt_BtH: Tensor, rate_H: Tensor, b_BtE: Tensor, c_BtE: Tensor, part: RowPart
) -> Tensor:
    """Compute the contribution of previous ranks' states to y_BtHP of Mamba's recurrence.

    A part passes on Σ exp(log decay from each position to its end) · dt · x ⊗ b over its last document. If
    one document fills the part, it also passes on the decayed state that entered it. Sums of logs start at
    the border, so that rounding never depends on other documents.
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
    """Gather nll_N of the scored positions of whole rows from all ranks' parts; no gradient passes."""
    part_Bt = context.part(mask_BT).bool()
    nll_Bt = nll_N.new_zeros(part_Bt.shape).masked_scatter(part_Bt, nll_N)
    parts = [torch.empty_like(nll_Bt) for _ in range(context.size)]
    dist.all_gather(parts, nll_Bt, group=context.group)
    return torch.cat(parts, dim=1)[mask_BT.bool()]


def _sums_after(log_BtH: Tensor) -> Tensor:
    """Sum over later positions of the part: [a b c] -> [b+c c 0]."""
    later_BtH = F.pad(log_BtH[:, 1:], (0, 0, 0, 1))
    return later_BtH.flip(1).cumsum(1).flip(1)


def _entering(left_BHPE: Tensor, kept_BH: Tensor, part: RowPart) -> Tensor:
    """Compute the state that enters this part from all parts' states and decays, with one collective."""
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
    """Gather tensors of all ranks, [C, …]."""
    out: Tensor = _Gather.apply(x, part.context.group, part.context.size)  # type: ignore[no-untyped-call]
    return out


class _Gather(torch.autograd.Function):
    """All-gather whose backward sums over ranks, in at least float32."""

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
    """Shift of tensors from rank c to rank c + 1; backward shifts the gradients back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None, rank: int) -> Tensor:
        ctx.group, ctx.rank = group, rank
        return _shifted(x, group, rank - 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return _shifted(g, ctx.group, ctx.rank + 1), None, None


def _shifted(x: Tensor, group: dist.ProcessGroup | None, source: int) -> Tensor:
    """Return the tensor of rank `source`, zeros if there is none; gathers all, since tensors are small."""
    all_C = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(all_C, x.contiguous(), group=group)
    return all_C[source] if 0 <= source < len(all_C) else torch.zeros_like(x)
