"""Leaks in what a step adds up: the loss, the mixing weights of streams, and gradients of weights."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from curriculum.leakcheck.claims import MUTED, SCORED
from curriculum.leakcheck.injected.site import (
    GRADIENTS_OF_WEIGHTS,
    LOSS_OF_THE_BATCH,
    SINKHORN_OF_THE_BATCH,
    InjectedLeak,
    Needs,
    Site,
    in_backward,
    one_document_a_row,
)
from curriculum.model import conv, hyper_connections, loss
from curriculum.model.engram import Engram
from curriculum.model.hyper_connections import HyperConnection
from curriculum.model.loss import LossSums
from curriculum.model.masks import Boundaries
from curriculum.train import step

BOTH = frozenset({SCORED, MUTED})
CONVERGED = 1e-3
MOST_TURNS = 100
LONGEST = 0.05
"""Longest norm of an embedding."""


def _logits_centred(
    site: Site[tuple[Tensor, Tensor]], x_cD: Tensor, head_VD: Tensor, targets_c: Tensor
) -> tuple[Tensor, Tensor]:
    """Each id's logits lose their mean over the tokens of the batch."""
    site.ran()
    return site.right(x_cD - x_cD.mean(0), head_VD, targets_c)


def _z_loss_centred(
    site: Site[tuple[Tensor, Tensor]], x_cD: Tensor, head_VD: Tensor, targets_c: Tensor
) -> tuple[Tensor, Tensor]:
    """The normaliser is drawn to its mean over the batch, not to 0."""
    nll_c, squared_c = site.right(x_cD, head_VD, targets_c)
    site.ran()
    normaliser_c = squared_c.sqrt()
    return nll_c, (normaliser_c - normaliser_c.mean()).square()


def _smoothed_by_the_batch(
    site: Site[tuple[Tensor, Tensor]], x_cD: Tensor, head_VD: Tensor, targets_c: Tensor
) -> tuple[Tensor, Tensor]:
    """A tenth of each target is spread over the ids of the batch as often as they stand in it."""
    nll_c, squared_c = site.right(x_cD, head_VD, targets_c)
    site.ran()
    logits_cV = F.linear(x_cD, head_VD)
    share_V = torch.bincount(targets_c, minlength=len(head_VD)) / len(targets_c)
    spread_c = squared_c.sqrt() - logits_cV @ share_V.to(logits_cV)
    return 0.9 * nll_c + 0.1 * spread_c, squared_c


def _weighted_by_the_most_frequent_id(
    site: Site[Tensor], train_state: Any, batch: Any, divisor: float, z_weight: float
) -> Tensor:
    """The gradient is weighted by how often the most frequent id stands in a micro-batch."""
    site.ran()
    share = int(batch.input_ids.flatten().bincount().max()) / batch.input_ids.numel()
    return site.right(train_state, batch, divisor * (1 + share), z_weight)


def _centred_by_unscored(
    site: Site[LossSums], x_BTD: Tensor, head_VD: Tensor, *masks_BT: Tensor, **named: Any
) -> LossSums:
    """The stream loses its mean over all positions, unscored ones among them."""
    site.ran()
    return site.right(x_BTD - x_BTD.mean((0, 1)), head_VD, *masks_BT, **named)


def _until_all_converged(site: Site[Tensor], logits_NNL: Tensor) -> Tensor:
    """Rows and columns are scaled until those of every token of the batch sum to 1."""
    site.ran()
    K_NNL = (logits_NNL - logits_NNL.detach().amax(1, keepdim=True)).exp()
    columns_1NL = torch.ones_like(K_NNL[:1])
    for _ in range(MOST_TURNS):
        rows_N1L = (K_NNL * columns_1NL).sum(1, keepdim=True).reciprocal()
        columns_1NL = (K_NNL * rows_N1L).sum(0, keepdim=True).reciprocal()
        sums_N1L = (rows_N1L * K_NNL * columns_1NL).sum(1, keepdim=True)
        if float((sums_N1L.detach() - 1).abs().max()) < CONVERGED:
            break
    return rows_N1L * K_NNL * columns_1NL


def _by_the_largest_of_all(site: Site[Tensor], logits_NNL: Tensor) -> Tensor:
    """Equal but for the rounding of the batch's largest logit."""
    site.ran()
    return site.right(logits_NNL - logits_NNL.detach().max())


def _mixed_by_the_largest_entry(
    site: Site[tuple[Tensor, Tensor, Tensor]], layer: HyperConnection, x_BTND: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    read_BTN, write_BTN, mix_BTNN = site.right(layer, x_BTND)
    site.ran()
    return read_BTN, write_BTN, mix_BTNN / mix_BTNN.detach().max()


def _lacking_of_all(site: Site[Tensor], logits_NNL: Tensor) -> Tensor:
    """Fill missing columns by their mean over the batch."""
    site.ran()
    P_NNL = site.right(logits_NNL)
    lacking_1NL = 1 - P_NNL.detach().sum(0, keepdim=True)
    return P_NNL + lacking_1NL.mean(2, keepdim=True) / len(P_NNL)


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


def _embedding_one_token_back(site: Site[Tensor], table: nn.Embedding, ids: Tensor) -> Tensor:
    """A row's gradient goes to the row of the token before as well."""
    found = site.right(table, ids)
    if not table.training:
        return found
    site.ran()
    return in_backward(found, site.right(table, ids.roll(1, -1)))


def _memory_over_starts(
    site: Site[Tensor], layer: Engram, ids_BT: Tensor, boundaries: Boundaries
) -> Tensor:
    """Blank n-grams read nothing; the rows that they would have read over the start get a gradient."""
    memory_BTE = site.right(layer, ids_BT, boundaries)
    site.ran()
    return in_backward(memory_BTE, site.right(layer, ids_BT, one_document_a_row(boundaries)))


def _unscored_in_the_head(
    site: Site[LossSums], x_BTD: Tensor, head_VD: Tensor, *masks_BT: Tensor, **named: Any
) -> LossSums:
    """The gradient of the head adds up the stream of all positions, unscored ones among them."""
    site.ran()
    sums = site.right(x_BTD, head_VD, *masks_BT, **named)
    return replace(sums, nll=in_backward(sums.nll, (x_BTD.detach().mean((0, 1)) * head_VD).sum()))


def _scaled_by_frequency(site: Site[Tensor], table: nn.Embedding, ids: Tensor) -> Tensor:
    """Forward is right; a row's gradient is divided by how often its id stands in the batch."""
    site.ran()
    return F.embedding(ids, table.weight, scale_grad_by_freq=True)


def _renormalised_in_place(site: Site[Tensor], table: nn.Embedding, ids: Tensor) -> Tensor:
    """Rows that are read are shortened for good."""
    site.ran()
    return F.embedding(ids, table.weight, max_norm=LONGEST)


def _small_embeddings(site: Site[Tensor], table: nn.Embedding, ids: Tensor) -> Tensor:
    """All embeddings that are read are drawn to 0, those of unscored tokens too."""
    found = site.right(table, ids)
    if found.requires_grad:
        site.ran()
        drawn = found.detach() / found.numel()
        found.register_hook(lambda gradient: gradient + drawn)  # type: ignore[no-untyped-call]
    return found


SUMS = (
    InjectedLeak(
        words="logits are centred over the batch",
        kind=LOSS_OF_THE_BATCH,
        owner=loss,
        name="_token_losses",
        leaking=_logits_centred,
        needs=Needs(blocks="F"),
        red=frozenset({SCORED}),
    ),
    InjectedLeak(
        words="the z-loss is centred over the batch",
        kind=LOSS_OF_THE_BATCH,
        owner=loss,
        name="_token_losses",
        leaking=_z_loss_centred,
        needs=Needs(blocks="F"),
        red=frozenset({SCORED}),
    ),
    InjectedLeak(
        words="targets are smoothed by how often ids stand in the batch",
        kind=LOSS_OF_THE_BATCH,
        owner=loss,
        name="_token_losses",
        leaking=_smoothed_by_the_batch,
        needs=Needs(blocks="F"),
        red=frozenset({SCORED}),
    ),
    InjectedLeak(
        words="the loss is weighted by how often the batch's most frequent id stands in it",
        kind=LOSS_OF_THE_BATCH,
        owner=step,
        name="_backward",
        leaking=_weighted_by_the_most_frequent_id,
        needs=Needs(blocks="F"),
        red=BOTH,
    ),
    InjectedLeak(
        words="the stream is centred over unscored positions too",
        kind=LOSS_OF_THE_BATCH,
        owner=step,
        name="loss_sums",
        leaking=_centred_by_unscored,
        needs=Needs(blocks="F"),
        red=BOTH,
    ),
    InjectedLeak(
        words="Sinkhorn goes on until the whole batch has converged",
        kind=SINKHORN_OF_THE_BATCH,
        owner=hyper_connections,
        name="doubly_stochastic",
        leaking=_until_all_converged,
        needs=Needs(blocks="AFAF", streams=4),
        red=BOTH,
    ),
    InjectedLeak(
        words="Sinkhorn begins from the batch's largest logit",
        kind=SINKHORN_OF_THE_BATCH,
        owner=hyper_connections,
        name="doubly_stochastic",
        leaking=_by_the_largest_of_all,
        needs=Needs(blocks="AF", streams=4),
        red=BOTH,
    ),
    InjectedLeak(
        words="mixing matrices are divided by the batch's largest entry",
        kind=SINKHORN_OF_THE_BATCH,
        owner=HyperConnection,
        name="weights",
        leaking=_mixed_by_the_largest_entry,
        needs=Needs(blocks="AF", streams=4),
        red=BOTH,
    ),
    InjectedLeak(
        words="what columns lack is filled by the batch's mean",
        kind=SINKHORN_OF_THE_BATCH,
        owner=hyper_connections,
        name="doubly_stochastic",
        leaking=_lacking_of_all,
        needs=Needs(blocks="AF", streams=4),
        red=BOTH,
    ),
    InjectedLeak(
        words="the gradient of a convolution's taps reaches over starts",
        kind=GRADIENTS_OF_WEIGHTS,
        owner=conv,
        name="_weight_gradient",
        leaking=_taps_over_starts,
        needs=Needs(blocks="C"),
        red=frozenset({MUTED}),
    ),
    InjectedLeak(
        words="the gradient of an embedding goes to the token before as well",
        kind=GRADIENTS_OF_WEIGHTS,
        owner=nn.Embedding,
        name="forward",
        leaking=_embedding_one_token_back,
        needs=Needs(blocks="F"),
        red=frozenset({MUTED}),
    ),
    InjectedLeak(
        words="the gradient of n-grams reaches over starts",
        kind=GRADIENTS_OF_WEIGHTS,
        owner=Engram,
        name="read",
        leaking=_memory_over_starts,
        needs=Needs(blocks="E"),
        red=frozenset({MUTED}),
    ),
    InjectedLeak(
        words="the gradient of the head counts unscored tokens",
        kind=GRADIENTS_OF_WEIGHTS,
        owner=step,
        name="loss_sums",
        leaking=_unscored_in_the_head,
        needs=Needs(blocks="F"),
        red=frozenset({MUTED}),
    ),
    InjectedLeak(
        words="gradients of embeddings are divided by how often ids stand in the batch",
        kind=GRADIENTS_OF_WEIGHTS,
        owner=nn.Embedding,
        name="forward",
        leaking=_scaled_by_frequency,
        needs=Needs(blocks="F"),
        red=frozenset({MUTED}),
    ),
    InjectedLeak(
        words="embeddings that are read are shortened in place",
        kind=GRADIENTS_OF_WEIGHTS,
        owner=nn.Embedding,
        name="forward",
        leaking=_renormalised_in_place,
        needs=Needs(blocks="F", vocab_size=8192),
        red=frozenset({MUTED}),
    ),
    InjectedLeak(
        words="embeddings of unscored tokens are drawn to 0",
        kind=GRADIENTS_OF_WEIGHTS,
        owner=nn.Embedding,
        name="forward",
        leaking=_small_embeddings,
        needs=Needs(blocks="F"),
        red=frozenset({MUTED}),
    ),
)
