"""Depthwise causal convolution within documents. Its results and gradients are exact.

Shapes: x_BTC, or x_NC with N = B·T positions of concatenated rows; weight_CK with K taps, where tap k
reads the position k before.

Only at the first K - 1 positions of a document some taps reach across the document's start. Therefore,
the convolution is first computed as if there were no documents, and then these positions are computed
again. So the mask costs almost nothing. Every element goes through the same operations in the same order,
wherever its document is in the row.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from curriculum.model.context_ranks import convolve
from curriculum.model.masks import Boundaries, LayerInputs
from schemas.job import ModelSpec


def masked_conv(x_BTC: Tensor, weight_CK: Tensor, boundaries: Boundaries) -> Tensor:
    """Compute y_BTC[t] = Σ_k weight_CK[:, k] · x_BTC[t - k] over all k for which t - k is in t's document.

    Weights [a b], one document [1 2 3] and one [4 5] -> [a 2a+b 3a+2b 4a 5a+4b]. The dtype is that of x.
    Values of other documents are never multiplied, so they may even be NaN.
    """
    positions_N, edges_S = boundaries.position_ids.flatten(), boundaries.cu_seqlens
    y_NC: Tensor = _MaskedConv.apply(  # type: ignore[no-untyped-call]
        x_BTC.flatten(0, 1), weight_CK, positions_N, edges_S
    )
    return y_NC.view_as(x_BTC)


def reaches_back(positions_R: Tensor, k: int) -> Tensor:
    """Return a mask of the positions that are at least k after the start of their document.

    Positions within documents [0 1 2 0 1], k 1 -> [0 1 1 0 1].
    """
    return positions_R >= k


class _MaskedConv(torch.autograd.Function):
    """Masked convolution that saves only its inputs. The gradient of x is the same convolution, reversed."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, x_NC: Tensor, weight_CK: Tensor, positions_N: Tensor, edges_S: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x_NC, weight_CK, positions_N, edges_S)
        heads_R = _heads(edges_S, weight_CK.shape[1] - 1)
        return _gathered(x_NC, weight_CK, positions_N, heads_R, forward=True)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, g_NC: Tensor) -> tuple[Tensor | None, ...]:
        x_NC, weight_CK, positions_N, edges_S = ctx.saved_tensors  # type: ignore[attr-defined]
        wants_x, wants_weight, *_ = ctx.needs_input_grad  # type: ignore[attr-defined]
        tails_R = _tails(edges_S, weight_CK.shape[1] - 1)
        return (
            _gathered(g_NC, weight_CK, positions_N, tails_R, forward=False) if wants_x else None,
            _weight_gradient(g_NC, x_NC, weight_CK, positions_N, edges_S) if wants_weight else None,
            None,
            None,
        )


def _gathered(
    x_NC: Tensor, weight_CK: Tensor, positions_N: Tensor, rows_R: Tensor, *, forward: bool
) -> Tensor:
    """Compute Σ_k weight_CK[:, k] · x_NC[n - k], or n + k unless `forward`, at all positions.

    Taps that leave the document are masked only at the positions `rows_R`.
    """
    weight_KC = weight_CK.t().to(x_NC.dtype).contiguous()
    y_NC, again_RC = x_NC * weight_KC[0], x_NC[rows_R] * weight_KC[0]
    last = len(x_NC) - 1
    for k in range(1, min(len(weight_KC), len(x_NC))):
        to_NC, from_NC = (y_NC[k:], x_NC[:-k]) if forward else (y_NC[:-k], x_NC[k:])
        to_NC.addcmul_(from_NC, weight_KC[k])
        source_R = rows_R - k if forward else rows_R + k
        inside_R = source_R.clamp(min=0, max=last)
        later_R = rows_R if forward else inside_R
        stays_R = reaches_back(positions_N[later_R], k) & (source_R == inside_R)
        again_RC.addcmul_(torch.where(stays_R[:, None], x_NC[inside_R], 0), weight_KC[k])
    return y_NC.index_copy_(0, rows_R, again_RC)


def _weight_gradient(
    g_NC: Tensor, x_NC: Tensor, weight_CK: Tensor, positions_N: Tensor, edges_S: Tensor
) -> Tensor:
    """Sum the gradient of the weights in at least float32, without products across document starts."""
    dtype = torch.promote_types(weight_CK.dtype, torch.float32)
    sums = [(g_NC * x_NC).sum(0, dtype=dtype)]
    for k in range(1, weight_CK.shape[1]):
        product_MC = g_NC[k:] * x_NC[: max(len(x_NC) - k, 0)]
        if len(product_MC):
            heads_R = _heads(edges_S, k).clamp(min=k)
            blanked_RC = torch.where(
                reaches_back(positions_N[heads_R], k)[:, None], product_MC[heads_R - k], 0
            )
            product_MC.index_copy_(0, heads_R - k, blanked_RC)
        sums.append(product_MC.sum(0, dtype=dtype))
    return torch.stack(sums, dim=1).to(weight_CK.dtype)


def _heads(edges_S: Tensor, reach: int) -> Tensor:
    """Return the first `reach` positions of each document: edges [0 3 5], reach 2 -> [0 1 3 4].

    After a document shorter than `reach`, positions of the next document are listed twice.
    """
    offsets = torch.arange(reach, device=edges_S.device)
    return (edges_S[:-1, None] + offsets).flatten().clamp(max=edges_S[-1] - 1)


def _tails(edges_S: Tensor, reach: int) -> Tensor:
    """Return the last `reach` positions of each document: edges [0 3 5], reach 2 -> [2 1 4 3]."""
    offsets = torch.arange(1, reach + 1, device=edges_S.device)
    return (edges_S[1:, None] - offsets).flatten().clamp(min=0)


class ConvMixer(nn.Module):
    """Gated convolution layer, x_BTD -> x_BTD: gate, convolve within documents, gate again."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.input = nn.Linear(spec.width, 3 * spec.width, bias=False)
        self.taps_DK = nn.Parameter(torch.zeros(spec.width, spec.conv_kernel))
        self.output = nn.Linear(spec.width, spec.width, bias=False)

    def start(self, generator: torch.Generator) -> None:
        """Draw initial taps that preserve the variance of their input."""
        deviation = self.taps_DK.shape[1] ** -0.5
        taps_DK = torch.empty(self.taps_DK.shape).normal_(0, deviation, generator=generator)
        self.taps_DK.copy_(taps_DK)

    def forward(self, x_BTD: Tensor, inputs: LayerInputs) -> Tensor:
        """Return output(after ⊙ conv(before ⊙ value)). `before`, `after` and `value` are projections of x."""
        before_BTD, after_BTD, value_BTD = self.input(x_BTD).chunk(3, dim=-1)
        mixed_BTD = convolve(masked_conv, before_BTD * value_BTD, self.taps_DK, inputs)
        out_BTD: Tensor = self.output(after_BTD * mixed_BTD)
        return out_BTD
