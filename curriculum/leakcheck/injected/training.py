"""Leaks that show in training alone: in its mode, over micro-batches, and in blocks computed again."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from curriculum.leakcheck.claims import MUTED, SCORED
from curriculum.leakcheck.injected.site import (
    BATCH_STATISTICS,
    RECOMPUTED,
    RUNNING_STATE,
    InjectedLeak,
    Needs,
    Site,
    in_backward,
    one_document_a_row,
)
from curriculum.model import loss
from curriculum.model.backends import math_attend
from curriculum.model.conv import ConvMixer
from curriculum.model.decoder import MLP, Attention, Decoder
from curriculum.model.mamba import Mamba
from curriculum.model.masks import LayerInputs
from curriculum.train import optimizer

BOTH = frozenset({SCORED, MUTED})
DROPPED = 0.1
SLOWLY = 0.9
"""Weight of a running mean, kept at each micro-batch."""


def _norm_of_the_batch(site: Site[Tensor], norm: nn.RMSNorm, x: Tensor) -> Tensor:
    if not norm.training:
        return site.right(norm, x)
    site.ran()
    return x * (x.square().mean() + 1e-6).rsqrt() * norm.weight


def _heads_by_the_largest(site: Site[Tensor], layer: Attention, x_BTD: Tensor) -> Tensor:
    """Scaled as a format of few bits would ask for."""
    heads_BHTK = site.right(layer, x_BTD)
    if not layer.training:
        return heads_BHTK
    site.ran()
    return heads_BHTK / heads_BHTK.detach().abs().amax()


def _threshold_of_the_batch(
    site: Site[Tensor], layer: MLP, x_BTD: Tensor, inputs: LayerInputs
) -> Tensor:
    """Features below the batch's mean are turned off."""
    out_BTD = site.right(layer, x_BTD, inputs)
    if not layer.training:
        return out_BTD
    site.ran()
    return torch.where(out_BTD > out_BTD.mean((0, 1)), out_BTD, 0)


def _dropped_where_on(site: Site[Tensor], layer: MLP, x_BTD: Tensor, inputs: LayerInputs) -> Tensor:
    """Chance is drawn for positive features alone, so how many there are moves what others draw."""
    out_BTD = site.right(layer, x_BTD, inputs)
    if not layer.training:
        return out_BTD
    site.ran()
    on_BTD = out_BTD > 0
    dropped_BTD = torch.zeros_like(on_BTD)
    dropped_BTD[on_BTD] = torch.rand(int(on_BTD.sum())) < DROPPED
    return torch.where(dropped_BTD, 0, out_BTD)


def _balanced_in_backward(
    site: Site[Tensor], layer: MLP, x_BTD: Tensor, inputs: LayerInputs
) -> Tensor:
    """Forward is right; the gradient is that of a product with the batch's mean."""
    out_BTD = site.right(layer, x_BTD, inputs)
    if not layer.training:
        return out_BTD
    site.ran()
    return in_backward(out_BTD, out_BTD.mean((0, 1)) * x_BTD)


def _swap_kept(module: nn.Module, value: Tensor) -> Tensor | None:
    """Return the value of the micro-batch before, and keep `value` in its place."""
    before: Tensor | None = vars(module).get("_kept")
    vars(module)["_kept"] = value.detach()
    return before


def _last_state_stays(
    site: Site[Tensor], layer: Mamba, x_BTD: Tensor, inputs: LayerInputs
) -> Tensor:
    """The first documents of rows go on where the rows of the micro-batch before ended."""
    if not layer.training:
        return site.right(layer, x_BTD, inputs)
    site.ran()
    before = _swap_kept(layer, x_BTD[:, -1].mean(0))
    if before is not None:
        x_BTD = torch.where(inputs.boundaries.starts[..., None] == 0, x_BTD + before, x_BTD)
    return site.right(layer, x_BTD, inputs)


def _running_mean(site: Site[Tensor], decoder: Decoder, *given: Any, **named: Any) -> Tensor:
    """The running mean of the stream is taken away from it, as a batch norm does."""
    x_BTD = site.right(decoder, *given, **named)
    if not decoder.training:
        return x_BTD
    site.ran()
    mean_D = x_BTD.detach().mean((0, 1))
    before: Tensor = vars(decoder).get("_kept", torch.zeros_like(mean_D))
    _swap_kept(decoder, SLOWLY * before + (1 - SLOWLY) * mean_D)
    return x_BTD - before


def _scale_of_the_batch_before(
    site: Site[Tensor], layer: ConvMixer, x_BTD: Tensor, inputs: LayerInputs
) -> Tensor:
    """Scaled by the largest of the micro-batch before, as delayed scaling does."""
    if not layer.training:
        return site.right(layer, x_BTD, inputs)
    site.ran()
    before = _swap_kept(layer, x_BTD.abs().amax())
    return site.right(layer, x_BTD if before is None else x_BTD / before, inputs)


def _again(function: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """`function` at the first call, `second` at each later one."""
    calls = itertools.count()

    def either(*given: Any) -> Any:
        return second(*given) if next(calls) else function(*given)

    return either


def _attention_recomputed_by_rows(site: Site[Any], block: Any, *given: Any, **named: Any) -> Any:
    def second(x: Tensor, inputs: LayerInputs) -> Any:
        site.ran()
        attend = math_attend(None, one_document_a_row(inputs.boundaries))
        return block(x, replace(inputs, attend=attend))

    return site.right(_again(block, second), *given, **named)


def _positions_recomputed_by_rows(site: Site[Any], block: Any, *given: Any, **named: Any) -> Any:
    """Kernels of convolutions reach over the boundary, n-grams too."""

    def second(x: Tensor, inputs: LayerInputs) -> Any:
        site.ran()
        counted = one_document_a_row(inputs.boundaries).position_ids
        return block(
            x, replace(inputs, boundaries=replace(inputs.boundaries, position_ids=counted))
        )

    return site.right(_again(block, second), *given, **named)


def _logits_recomputed_centred(site: Site[Any], losses: Any, *given: Any, **named: Any) -> Any:
    def second(x_cD: Tensor, *others: Tensor) -> Any:
        site.ran()
        return losses(x_cD - x_cD.mean(0), *others)

    return site.right(_again(losses, second), *given, **named)


TRAINING = (
    InjectedLeak(
        words="norms divide by the mean square of the batch in training mode",
        kind=BATCH_STATISTICS,
        owner=nn.RMSNorm,
        name="forward",
        leaking=_norm_of_the_batch,
        needs=Needs(blocks="F"),
        red=BOTH,
    ),
    InjectedLeak(
        words="queries, keys and values are scaled by the batch's largest in training mode",
        kind=BATCH_STATISTICS,
        owner=Attention,
        name="_heads",
        leaking=_heads_by_the_largest,
        needs=Needs(blocks="AA"),
        red=BOTH,
    ),
    InjectedLeak(
        words="feed-forward features below the batch's mean are off in training mode",
        kind=BATCH_STATISTICS,
        owner=MLP,
        name="forward",
        leaking=_threshold_of_the_batch,
        needs=Needs(blocks="F"),
        red=BOTH,
    ),
    InjectedLeak(
        words="chance in training mode goes by how many features of the batch are on",
        kind=BATCH_STATISTICS,
        owner=MLP,
        name="forward",
        leaking=_dropped_where_on,
        needs=Needs(blocks="F"),
        red=BOTH,
    ),
    InjectedLeak(
        words="the gradient of a feed-forward layer is balanced over the batch",
        kind=BATCH_STATISTICS,
        owner=MLP,
        name="forward",
        leaking=_balanced_in_backward,
        needs=Needs(blocks="F"),
        red=BOTH,
    ),
    InjectedLeak(
        words="a state space goes on from the rows of the micro-batch before",
        kind=RUNNING_STATE,
        owner=Mamba,
        name="forward",
        leaking=_last_state_stays,
        needs=Needs(blocks="M"),
        red=BOTH,
    ),
    InjectedLeak(
        words="the running mean of the stream is taken away from it",
        kind=RUNNING_STATE,
        owner=Decoder,
        name="hidden",
        leaking=_running_mean,
        needs=Needs(blocks="F"),
        red=BOTH,
    ),
    InjectedLeak(
        words="a convolution's input is scaled by the largest of the micro-batch before",
        kind=RUNNING_STATE,
        owner=ConvMixer,
        name="forward",
        leaking=_scale_of_the_batch_before,
        needs=Needs(blocks="CC"),
        red=BOTH,
    ),
    InjectedLeak(
        words="attention is recomputed without boundaries",
        kind=RECOMPUTED,
        owner=optimizer,
        name="checkpoint",
        leaking=_attention_recomputed_by_rows,
        needs=Needs(blocks="A", recompute=True, backend="math"),
        red=BOTH,
    ),
    InjectedLeak(
        words="convolutions are recomputed with positions of the row",
        kind=RECOMPUTED,
        owner=optimizer,
        name="checkpoint",
        leaking=_positions_recomputed_by_rows,
        needs=Needs(blocks="C", recompute=True),
        red=BOTH,
    ),
    InjectedLeak(
        words="logits are recomputed from a centred stream",
        kind=RECOMPUTED,
        owner=loss,
        name="checkpoint",
        leaking=_logits_recomputed_centred,
        needs=Needs(blocks="F", row_length=2176),
        red=frozenset({SCORED}),
    ),
)
