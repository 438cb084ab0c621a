"""Cross-entropy with z-loss over scored targets, in chunks: logits of a long row never stand whole.

Shapes: x_BTD, head_VD, targets_BT, mask_BT; N scored positions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

CHUNK = 2048
"""Positions whose logits stand at once; 64k positions by 131k ids would be 17 GB in bfloat16."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LossSums:
    """Sums over scored targets, in nats; divide by the count of the global batch, not of this one."""

    nll: Tensor
    z: Tensor
    """Squared log of the normaliser, not yet weighted."""


def loss_sums(
    x_BTD: Tensor, head_VD: Tensor, targets_BT: Tensor, mask_BT: Tensor, *, chunk: int = CHUNK
) -> LossSums:
    """Σ nll and Σ z over the positions where the mask is 1; the others cost nothing.

    Each chunk is computed again in backward, so memory holds one chunk of logits.
    """
    scored = mask_BT.bool()
    x_ND, targets_N = x_BTD[scored], targets_BT[scored].long()
    nll, z = (
        x_ND.new_zeros((), dtype=_wide(x_ND.dtype)),
        x_ND.new_zeros((), dtype=_wide(x_ND.dtype)),
    )
    recompute = len(x_ND) > chunk and torch.is_grad_enabled()
    for x_cD, targets_c in zip(
        torch.split(x_ND, chunk), torch.split(targets_N, chunk), strict=True
    ):
        arguments = x_cD, head_VD, targets_c
        nll_c, z_c = (
            checkpoint(_token_losses, *arguments, use_reentrant=False)
            if recompute
            else _token_losses(*arguments)
        )
        nll, z = nll + nll_c.sum(), z + z_c.sum()
    return LossSums(nll=nll, z=z)


@torch.no_grad()
def token_nll(
    x_BTD: Tensor, head_VD: Tensor, targets_BT: Tensor, mask_BT: Tensor, *, chunk: int = CHUNK
) -> Tensor:
    """nll_N of the scored positions in row order, in nats."""
    scored = mask_BT.bool()
    x_ND, targets_N = x_BTD[scored], targets_BT[scored].long()
    chunks = zip(torch.split(x_ND, chunk), torch.split(targets_N, chunk), strict=True)
    return torch.cat([_token_losses(x, head_VD, targets)[0] for x, targets in chunks])


def _token_losses(x_cD: Tensor, head_VD: Tensor, targets_c: Tensor) -> tuple[Tensor, Tensor]:
    logits_cV = F.linear(x_cD, head_VD)
    logits_cV = logits_cV.to(_wide(logits_cV.dtype))
    normaliser_c = logits_cV.logsumexp(-1)
    nll_c = normaliser_c - logits_cV.gather(-1, targets_c[:, None])[:, 0]
    return nll_c, normaliser_c.square()


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
