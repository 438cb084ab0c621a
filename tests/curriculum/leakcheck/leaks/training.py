"""Leaks in what a step computes: training mode, micro-batches, recomputation, loss, weight gradients."""

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from curriculum.model import conv, hyper_connections, loss
from curriculum.model.conv import ConvMixer
from curriculum.model.decoder import MLP, Attention, Decoder
from curriculum.model.dense_backends import math_attend
from curriculum.model.engram import Engram
from curriculum.model.hyper_connections import HyperConnection
from curriculum.model.loss import LossSums
from curriculum.model.mamba import Mamba
from curriculum.model.masks import Boundaries, LayerInputs
from curriculum.model.norm import RmsNorm
from curriculum.train import optimizer, step
from tests.curriculum.leakcheck.leaks.site import (
    BATCH_STATISTICS,
    GRADIENTS_OF_WEIGHTS,
    LOSS_OF_THE_BATCH,
    RECOMPUTED,
    RUNNING_STATE,
    SINKHORN_OF_THE_BATCH,
    Needs,
    Site,
    in_backward,
    injected,
    one_document_a_row,
    scored_losses,
    summed,
)

DROPPED = 0.1
SLOWLY = 0.9
"""Weight of a running mean, kept at each micro-batch."""
CONVERGED = 1e-3
MAX_TURNS = 100
LONGEST = 0.05
"""Longest norm of an embedding."""


@injected(
    "norms divide by the mean square of the batch in training mode",
    kind=BATCH_STATISTICS,
    replaces=(RmsNorm, "forward"),
    needs=Needs(blocks="F"),
)
def _norm_of_the_batch(site: Site[Tensor], norm: RmsNorm, x: Tensor) -> Tensor:
    if not norm.training:
        return site.right(norm, x)
    site.ran()
    return x * (x.square().mean() + 1e-6).rsqrt() * norm.weight


@injected(
    "queries, keys and values are scaled by the batch's largest in training mode",
    kind=BATCH_STATISTICS,
    replaces=(Attention, "_heads"),
    needs=Needs(blocks="AA"),
)
def _heads_by_the_largest(site: Site[Tensor], layer: Attention, x_BTD: Tensor) -> Tensor:
    """Scaled as a format of few bits would ask for."""
    heads_BHTK = site.right(layer, x_BTD)
    if not layer.training:
        return heads_BHTK
    site.ran()
    return heads_BHTK / heads_BHTK.detach().abs().amax()


@injected(
    "feed-forward features below the batch's mean are off in training mode",
    kind=BATCH_STATISTICS,
    replaces=(MLP, "forward"),
    needs=Needs(blocks="F"),
)
def _threshold_of_the_batch(
    site: Site[Tensor], layer: MLP, x_BTD: Tensor, inputs: LayerInputs
) -> Tensor:
    """Features below the batch's mean are turned off."""
    out_BTD = site.right(layer, x_BTD, inputs)
    if not layer.training:
        return out_BTD
    site.ran()
    return torch.where(out_BTD > out_BTD.mean((0, 1)), out_BTD, 0)


@injected(
    "chance in training mode goes by how many features of the batch are on",
    kind=BATCH_STATISTICS,
    replaces=(MLP, "forward"),
    needs=Needs(blocks="F"),
)
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


@injected(
    "the gradient of a feed-forward layer is balanced over the batch",
    kind=BATCH_STATISTICS,
    replaces=(MLP, "forward"),
    needs=Needs(blocks="F"),
)
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


@injected(
    "a state space goes on from the rows of the micro-batch before",
    kind=RUNNING_STATE,
    replaces=(Mamba, "forward"),
    needs=Needs(blocks="M"),
)
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


@injected(
    "the running mean of the stream is taken away from it",
    kind=RUNNING_STATE,
    replaces=(Decoder, "hidden"),
    needs=Needs(blocks="F"),
)
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


@injected(
    "a convolution's input is scaled by the largest of the micro-batch before",
    kind=RUNNING_STATE,
    replaces=(ConvMixer, "forward"),
    needs=Needs(blocks="CC"),
)
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


@injected(
    "attention is recomputed without boundaries",
    kind=RECOMPUTED,
    replaces=(optimizer, "checkpoint"),
    needs=Needs(blocks="A", recompute=True, backend="math"),
)
def _attention_recomputed_by_rows(site: Site[Any], block: Any, *given: Any, **named: Any) -> Any:
    def second(x: Tensor, inputs: LayerInputs) -> Any:
        site.ran()
        attend = math_attend(None, one_document_a_row(inputs.boundaries))
        return block(x, replace(inputs, attend=attend))

    return site.right(_again(block, second), *given, **named)


@injected(
    "convolutions are recomputed with positions of the row",
    kind=RECOMPUTED,
    replaces=(optimizer, "checkpoint"),
    needs=Needs(blocks="C", recompute=True),
)
def _positions_recomputed_by_rows(site: Site[Any], block: Any, *given: Any, **named: Any) -> Any:
    """Kernels of convolutions reach over the boundary, n-grams too."""

    def second(x: Tensor, inputs: LayerInputs) -> Any:
        site.ran()
        counted = one_document_a_row(inputs.boundaries).position_ids
        return block(
            x, replace(inputs, boundaries=replace(inputs.boundaries, position_ids=counted))
        )

    return site.right(_again(block, second), *given, **named)


@injected(
    "blocks are recomputed from a centred stream",
    kind=RECOMPUTED,
    replaces=(optimizer, "recompute"),
    needs=Needs(blocks="F", recompute=True),
)
def _recomputed_from_centred(site: Site[None], model: Decoder) -> None:
    """Each block is computed anew from a stream without its mean over the micro-batch."""
    for block in model.blocks:
        block.forward = functools.partial(_again_from_centred, site, block.forward)


def _again_from_centred(site: Site[None], block: Any, *given: Any) -> Any:
    def second(x: Tensor, *others: Any) -> Any:
        site.ran()
        return block(x - x.mean((0, 1)), *others)

    return checkpoint(_again(block, second), *given, use_reentrant=False)


@injected(
    "the gradient of logits is taken at a centred stream",
    kind=LOSS_OF_THE_BATCH,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F"),
)
def _gradient_centred(
    site: Site[LossSums], x_BTD: Tensor, head_VD: Tensor, *masks_BT: Tensor, **named: Any
) -> LossSums:
    """The losses are right, and what goes backward is that of a stream without its mean."""
    site.ran()
    sums = site.right(x_BTD, head_VD, *masks_BT, **named)
    centred = site.right(_centred(x_BTD, masks_BT[-1]), head_VD, *masks_BT, **named)
    value = sums.total.detach() - centred.total.detach()
    return replace(sums, total=centred.total + value)


def _centred(x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    return x_BTD - x_BTD[mask_BT.bool()].mean(0)


@injected(
    "logits are centred over the batch",
    kind=LOSS_OF_THE_BATCH,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F"),
)
def _logits_centred(
    site: Site[LossSums], x_BTD: Tensor, head_VD: Tensor, *masks_BT: Tensor, **named: Any
) -> LossSums:
    """Each id's logits lose their mean over the scored tokens of the batch."""
    site.ran()
    return site.right(_centred(x_BTD, masks_BT[-1]), head_VD, *masks_BT, **named)


@injected(
    "the z-loss is centred over the batch",
    kind=LOSS_OF_THE_BATCH,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F"),
)
def _z_loss_centred(
    site: Site[LossSums],
    x_BTD: Tensor,
    head_VD: Tensor,
    targets_BT: Tensor,
    mask_BT: Tensor,
    *,
    z_weight: float = 0.0,
    chunk: int | None = None,
) -> LossSums:
    """The normaliser is drawn to its mean over the batch, not to 0."""
    site.ran()
    _, nll_N, normaliser_N = scored_losses(x_BTD, head_VD, targets_BT, mask_BT)
    return summed(nll_N, normaliser_N - normaliser_N.mean(), z_weight)


@injected(
    "targets are smoothed by how often ids stand in the batch",
    kind=LOSS_OF_THE_BATCH,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F"),
)
def _smoothed_by_the_batch(
    site: Site[LossSums],
    x_BTD: Tensor,
    head_VD: Tensor,
    targets_BT: Tensor,
    mask_BT: Tensor,
    *,
    z_weight: float = 0.0,
    chunk: int | None = None,
) -> LossSums:
    """A tenth of each target is spread over the ids of the batch as often as they stand in it."""
    site.ran()
    x_ND, nll_N, normaliser_N = scored_losses(x_BTD, head_VD, targets_BT, mask_BT)
    targets_N = targets_BT[mask_BT.bool()].long()
    share_V = torch.bincount(targets_N, minlength=len(head_VD)) / len(targets_N)
    spread_N = normaliser_N - F.linear(x_ND, head_VD) @ share_V.to(x_ND)
    return summed(0.9 * nll_N + 0.1 * spread_N, normaliser_N, z_weight)


@injected(
    "the loss is weighted by how often the batch's most frequent id stands in it",
    kind=LOSS_OF_THE_BATCH,
    replaces=(step, "_backward"),
    needs=Needs(blocks="F"),
)
def _weighted_by_the_most_frequent_id(
    site: Site[Tensor], train_state: Any, batch: Any, divisor: float, z_weight: float
) -> Tensor:
    """The gradient is weighted by how often the most frequent id stands in a micro-batch."""
    site.ran()
    share = int(batch.input_ids.flatten().bincount().max()) / batch.input_ids.numel()
    return site.right(train_state, batch, divisor * (1 + share), z_weight)


@injected(
    "the stream is centred over unscored positions too",
    kind=LOSS_OF_THE_BATCH,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F"),
)
def _centred_by_unscored(
    site: Site[LossSums], x_BTD: Tensor, head_VD: Tensor, *masks_BT: Tensor, **named: Any
) -> LossSums:
    """The stream loses its mean over all positions, unscored ones among them."""
    site.ran()
    return site.right(x_BTD - x_BTD.mean((0, 1)), head_VD, *masks_BT, **named)


@injected(
    "Sinkhorn goes on until the whole batch has converged",
    kind=SINKHORN_OF_THE_BATCH,
    replaces=(hyper_connections, "doubly_stochastic"),
    needs=Needs(blocks="AFAF", streams=4),
)
def _until_all_converged(site: Site[Tensor], logits_NNL: Tensor) -> Tensor:
    """Rows and columns are scaled until those of every token of the batch sum to 1."""
    site.ran()
    K_NNL = (logits_NNL - logits_NNL.detach().amax(1, keepdim=True)).exp()
    columns_1NL = torch.ones_like(K_NNL[:1])
    for _ in range(MAX_TURNS):
        rows_N1L = (K_NNL * columns_1NL).sum(1, keepdim=True).reciprocal()
        columns_1NL = (K_NNL * rows_N1L).sum(0, keepdim=True).reciprocal()
        sums_N1L = (rows_N1L * K_NNL * columns_1NL).sum(1, keepdim=True)
        if float((sums_N1L.detach() - 1).abs().max()) < CONVERGED:
            break
    return rows_N1L * K_NNL * columns_1NL


@injected(
    "mixing matrices are divided by the batch's largest entry",
    kind=SINKHORN_OF_THE_BATCH,
    replaces=(HyperConnection, "weights"),
    needs=Needs(blocks="AF", streams=4),
)
def _mixed_by_the_largest_entry(
    site: Site[tuple[Tensor, Tensor, Tensor]], layer: HyperConnection, x_BTND: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    read_BTN, write_BTN, mix_BTNN = site.right(layer, x_BTND)
    site.ran()
    return read_BTN, write_BTN, mix_BTNN / mix_BTNN.detach().max()


@injected(
    "the gradient of a convolution's taps reaches over starts",
    kind=GRADIENTS_OF_WEIGHTS,
    replaces=(conv, "_weight_gradient"),
    needs=Needs(blocks="C"),
)
def _taps_over_starts(
    site: Site[Tensor],
    g_NC: Tensor,
    x_NC: Tensor,
    weight_CK: Tensor,
    positions_N: Tensor,
    edges_S: Tensor,
) -> Tensor:
    """The gradient of the taps has products with the positions before a document's start."""
    site.ran()
    counted_N = torch.arange(len(positions_N), device=positions_N.device)
    return site.right(g_NC, x_NC, weight_CK, counted_N, edges_S)


@injected(
    "the gradient of an embedding goes to the token before as well",
    kind=GRADIENTS_OF_WEIGHTS,
    replaces=(nn.Embedding, "forward"),
    needs=Needs(blocks="F"),
)
def _embedding_one_token_back(site: Site[Tensor], table: nn.Embedding, ids: Tensor) -> Tensor:
    """A row's gradient goes to the row of the token before as well."""
    found = site.right(table, ids)
    if not table.training:
        return found
    site.ran()
    return in_backward(found, site.right(table, ids.roll(1, -1)))


@injected(
    "the gradient of n-grams reaches over starts",
    kind=GRADIENTS_OF_WEIGHTS,
    replaces=(Engram, "read"),
    needs=Needs(blocks="E"),
)
def _memory_over_starts(
    site: Site[Tensor], layer: Engram, ids_BT: Tensor, boundaries: Boundaries, *part: Any
) -> Tensor:
    """Blank n-grams read nothing; the rows that they would have read over the start get a gradient."""
    memory_BTE = site.right(layer, ids_BT, boundaries, *part)
    site.ran()
    return in_backward(memory_BTE, site.right(layer, ids_BT, one_document_a_row(boundaries), *part))


@injected(
    "the gradient of the head counts unscored tokens",
    kind=GRADIENTS_OF_WEIGHTS,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F"),
)
def _unscored_in_the_head(
    site: Site[LossSums], x_BTD: Tensor, head_VD: Tensor, *masks_BT: Tensor, **named: Any
) -> LossSums:
    """The gradient of the head adds up the stream of all positions, unscored ones among them."""
    site.ran()
    sums = site.right(x_BTD, head_VD, *masks_BT, **named)
    unscored = (x_BTD.detach().mean((0, 1)) * head_VD).sum()
    return replace(sums, total=in_backward(sums.total, unscored))


@injected(
    "gradients of embeddings are divided by how often ids stand in the batch",
    kind=GRADIENTS_OF_WEIGHTS,
    replaces=(nn.Embedding, "forward"),
    needs=Needs(blocks="F"),
)
def _scaled_by_frequency(site: Site[Tensor], table: nn.Embedding, ids: Tensor) -> Tensor:
    """Forward is right; a row's gradient is divided by how often its id stands in the batch."""
    site.ran()
    return F.embedding(ids, table.weight, scale_grad_by_freq=True)


@injected(
    "embeddings that are read are shortened in place",
    kind=GRADIENTS_OF_WEIGHTS,
    replaces=(nn.Embedding, "forward"),
    needs=Needs(blocks="F", vocab_size=8192),
)
def _renormalised_in_place(site: Site[Tensor], table: nn.Embedding, ids: Tensor) -> Tensor:
    """Rows that are read are shortened for good."""
    site.ran()
    return F.embedding(ids, table.weight, max_norm=LONGEST)


@injected(
    "embeddings of unscored tokens are drawn to 0",
    kind=GRADIENTS_OF_WEIGHTS,
    replaces=(nn.Embedding, "forward"),
    needs=Needs(blocks="F"),
)
def _small_embeddings(site: Site[Tensor], table: nn.Embedding, ids: Tensor) -> Tensor:
    """All embeddings that are read are drawn to 0, those of unscored tokens too."""
    found = site.right(table, ids)
    if found.requires_grad:
        site.ran()
        drawn = found.detach() / found.numel()
        found.register_hook(lambda gradient: gradient + drawn)  # type: ignore[no-untyped-call]
    return found
