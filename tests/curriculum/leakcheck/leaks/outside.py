"""Leaks by accidents of training code: caches, buffers, batch sizes, optimizers, evaluations, resumes, files.

They were written from the documentation and the product alone, without knowing the proof.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.model import conv, decoder, engram, hyper_connections, loss, mamba
from curriculum.model.conv import ConvMixer
from curriculum.model.decoder import MLP, Decoder
from curriculum.model.engram import Engram
from curriculum.model.hyper_connections import HyperConnection
from curriculum.model.loss import LossSums
from curriculum.model.masks import Boundaries, Chunks, LayerInputs
from curriculum.model.structure_tensors import RowStructure, StructureTensors
from curriculum.train import checkpoint, dataloader, optimizer, restore, trainer
from curriculum.train import step as training_step
from curriculum.train.batch import Batch, Row, RowGroup, Shards
from curriculum.train.evaluation import Evaluated, Evaluator
from curriculum.train.optimizer import TrainState
from curriculum.train.trainer import Trainer
from tests.curriculum.leakcheck.leaks.site import (
    Needs,
    Site,
    injected,
    memory_of,
    scored_losses,
    summed,
    swapped,
)

BUFFERS = "a buffer or cache is used again"
OF_THE_BATCH = "a figure of the row or micro-batch"
SIZES_OF_BATCHES = "the size of the micro-batch"
SUMS = "how micro-batches are summed"
OPTIMIZERS = "what the optimizer keeps"
INTERRUPTED = "evaluations, checkpoints and resumes"
FILES = "files and columns"

# Buffers and caches.


@injected(
    "positions lie in a ring of two static buffers",
    kind=BUFFERS,
    replaces=(dataloader, "collate"),
    needs=Needs(blocks="A"),
)
def ring_of_two(site: Site[Batch], rows: Sequence[Row], **named: Any) -> Batch:
    """Rotations of a micro-batch depend on the documents of a later one of its step and shape."""
    site.ran()
    batch = site.right(rows, **named)
    positions_BT = batch.boundaries.position_ids
    ring: list[Tensor] = memory_of(site).setdefault(tuple(positions_BT.shape), [])
    buffer_BT = ring.pop(0) if len(ring) == 2 else torch.empty_like(positions_BT)
    ring.append(buffer_BT.copy_(positions_BT))
    return replace(batch, boundaries=replace(batch.boundaries, position_ids=buffer_BT))


@injected(
    "boundaries are those of the first micro-batch of the same shape",
    kind=BUFFERS,
    replaces=(Decoder, "_inputs"),
    needs=Needs(blocks="A"),
)
def attention_of_the_first_step(
    site: Site[LayerInputs], model: Decoder, ids_BT: Tensor, *given: Any
) -> LayerInputs:
    """Attention of a document depends on how the run's first micro-batch of that shape was packed."""
    site.ran()
    inputs = site.right(model, ids_BT, *given)
    first = vars(model).setdefault("known_attend", {}).setdefault(ids_BT.shape, inputs.attend)
    return replace(inputs, attend=first)


@injected(
    "the boundaries of rows are cached by row number, whatever the folder",
    kind=FILES,
    replaces=(Shards, "row"),
    needs=Needs(blocks="A"),
)
def boundaries_without_folder(site: Site[Row], shards: Shards, shard: int, row: int) -> Row:
    """A row's boundaries depend on the row of the same number in another data set."""
    found = site.right(shards, shard, row)
    known = vars(shards._cache).setdefault("boundaries", {})
    doc_ids_T = known.setdefault((shard, row, len(found.doc_ids)), found.doc_ids)
    if doc_ids_T is not found.doc_ids:
        site.ran()
    return replace(found, doc_ids=doc_ids_T)


@injected(
    "8-bit inputs are scaled by the largest value of the micro-batch before",
    kind=BUFFERS,
    replaces=(ConvMixer, "forward"),
    needs=Needs(blocks="C"),
)
def delayed_scaling(
    site: Site[Tensor], layer: ConvMixer, x_BTD: Tensor, inputs: LayerInputs
) -> Tensor:
    """Round tokens by the tokens of the previous micro-batch."""
    site.ran()
    largest = x_BTD.detach().abs().max()
    scale = vars(layer).get("scale", largest)
    vars(layer)["scale"] = largest
    low_BTD = ((x_BTD / scale).clamp(-1, 1) * 127).round() / 127 * scale
    return site.right(layer, x_BTD + (low_BTD - x_BTD).detach(), inputs)


@injected(
    "the first chunk starts from a state of the micro-batch before",
    kind=BUFFERS,
    replaces=(mamba, "entering_states"),
    needs=Needs(blocks="M"),
)
def state_of_the_former_batch(
    site: Site[Tensor], left_nHPE: Tensor, decay_nH: Tensor, chunks: Chunks
) -> Tensor:
    """The longest document of a micro-batch reads the last chunk of the one before."""
    site.ran()
    entering_nHPE = site.right(left_nHPE, decay_nH, chunks)
    before_HPE = memory_of(site).get("state")
    memory_of(site)["state"] = left_nHPE[-1].detach()
    if before_HPE is None:
        return entering_nHPE
    return torch.cat([entering_nHPE[:1] + before_HPE, entering_nHPE[1:]])


# Figures of the row or of the micro-batch.


@injected(
    "the base of rotations grows with the longest document of the micro-batch",
    kind=OF_THE_BATCH,
    replaces=(decoder, "rotation_of"),
    needs=Needs(blocks="A"),
)
def base_of_the_longest(
    site: Site[tuple[Tensor, Tensor]], positions_BT: Tensor, head_width: int, base: float
) -> tuple[Tensor, Tensor]:
    """Rotations of a document depend on the length of the longest beside it."""
    site.ran()
    longest = int(positions_BT.max()) + 1
    return site.right(positions_BT, head_width, base * max(1.0, longest / 64))


@injected(
    "all rows are rotated as the first one",
    kind=OF_THE_BATCH,
    replaces=(decoder, "rotation_of"),
    needs=Needs(blocks="A"),
)
def rotated_as_the_first_row(
    site: Site[tuple[Tensor, Tensor]], positions_BT: Tensor, head_width: int, base: float
) -> tuple[Tensor, Tensor]:
    """Rotations of a document depend on the boundaries of the micro-batch's first row."""
    site.ran()
    return site.right(positions_BT[:1].expand_as(positions_BT), head_width, base)


@injected(
    "Sinkhorn stops when all tokens of the row have converged",
    kind=OF_THE_BATCH,
    replaces=(HyperConnection, "weights"),
    needs=Needs(blocks="FF", streams=2),
)
def sinkhorn_by_row(
    site: Site[tuple[Tensor, Tensor, Tensor]], layer: HyperConnection, x_BTND: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A token's mixing weights depend on how fast those of the rest of its row converge."""
    site.ran()
    B, T = x_BTND.shape[:2]

    def until_converged(logits_NNL: Tensor) -> Tensor:
        K_NNL = (logits_NNL - logits_NNL.detach().amax(1, keepdim=True)).exp()
        columns_1NL = torch.ones_like(K_NNL[:1])
        goes_on_B = torch.ones(B, dtype=torch.bool)
        for _ in range(hyper_connections.ITERATIONS):
            rows_N1L = (K_NNL * columns_1NL).sum(1, keepdim=True).reciprocal()
            next_1NL = (K_NNL * rows_N1L).sum(0, keepdim=True).reciprocal()
            change_L = (next_1NL / columns_1NL - 1).detach().abs().amax((0, 1))
            columns_1NL = torch.where(goes_on_B.repeat_interleave(T), next_1NL, columns_1NL)
            goes_on_B = goes_on_B & (change_L.view(B, T).amax(1) > 5e-4)
        rows_N1L = (K_NNL * columns_1NL).sum(1, keepdim=True).reciprocal()
        return rows_N1L * K_NNL * columns_1NL

    with swapped(hyper_connections, "doubly_stochastic", until_converged):
        return site.right(layer, x_BTND)


@injected(
    "labels are smoothed by the frequencies of ids in their row",
    kind=OF_THE_BATCH,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F"),
)
def smoothed_by_row(
    site: Site[LossSums],
    x_BTD: Tensor,
    head_VD: Tensor,
    targets_BT: Tensor,
    mask_BT: Tensor,
    *,
    z_weight: float = 0.0,
    chunk: int | None = None,
) -> LossSums:
    """The loss of a token depends on the targets of all documents of its row."""
    site.ran()
    x_ND, nll_N, normaliser_N = scored_losses(x_BTD, head_VD, targets_BT, mask_BT)
    scored_BT = mask_BT.bool()
    row_N = torch.arange(len(x_BTD))[:, None].expand_as(mask_BT)[scored_BT]
    counts_BV = x_BTD.new_zeros(len(x_BTD), len(head_VD))
    counts_BV.index_put_((row_N, targets_BT[scored_BT].long()), x_BTD.new_ones(()), accumulate=True)
    shares_BV = counts_BV / counts_BV.sum(1, keepdim=True).clamp(min=1)
    likely_N = (F.linear(x_ND, head_VD) * shares_BV[row_N]).sum(1)
    return summed(0.9 * nll_N + 0.1 * (normaliser_N - likely_N), normaliser_N, z_weight)


@injected(
    "gradients are clipped row by row",
    kind=OF_THE_BATCH,
    replaces=(Decoder, "hidden"),
    needs=Needs(blocks="F"),
)
def clipped_by_row(site: Site[Tensor], model: Decoder, *given: Any, **named: Any) -> Tensor:
    """The gradient of a document depends on the gradients of the documents of its row."""
    x_BTD = site.right(model, *given, **named)
    if x_BTD.requires_grad:
        site.ran()
        x_BTD.register_hook(_clipped)  # type: ignore[no-untyped-call]
    return x_BTD


def _clipped(gradient_BTD: Tensor) -> Tensor:
    norms_B = torch.linalg.vector_norm(gradient_BTD, dim=(1, 2))
    clipped_BTD: Tensor = gradient_BTD * (1e-4 / norms_B.clamp(min=1e-4))[:, None, None]
    return clipped_BTD


@injected(
    "dropout is drawn from a hash of the row's ids",
    kind=OF_THE_BATCH,
    replaces=(Decoder, "hidden"),
    needs=Needs(blocks="F"),
)
def dropout_by_content(
    site: Site[Tensor], model: Decoder, ids_BT: Tensor, *given: Any, **named: Any
) -> Tensor:
    """Drop features of a document by the ids of all documents of its row."""
    x_BTD = site.right(model, ids_BT, *given, **named)
    if not model.training:
        return x_BTD
    site.ran()
    seeds = ids_BT.long().sum(1).tolist()
    kept_BTD = torch.stack(
        [torch.rand(x_BTD.shape[1:], generator=_seeded(seed)) >= 0.1 for seed in seeds]
    )
    return x_BTD * kept_BTD / 0.9


@injected(
    "dropout is drawn by the row's place in the micro-batch",
    kind=OF_THE_BATCH,
    replaces=(MLP, "forward"),
    needs=Needs(blocks="F"),
)
def dropout_by_place(site: Site[Tensor], layer: MLP, x_BTD: Tensor, inputs: LayerInputs) -> Tensor:
    """Drop the layer's output at tokens that depend on the document's place in row and micro-batch."""
    out_BTD = site.right(layer, x_BTD, inputs)
    if not layer.training:
        return out_BTD
    site.ran()
    kept_BT1 = torch.rand(*x_BTD.shape[:2], 1, generator=_seeded(7)) >= 0.1
    return out_BTD * kept_BT1 / 0.9


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@injected(
    "relations between chunks are those of the first row",
    kind=OF_THE_BATCH,
    replaces=(StructureTensors, "from_rows"),
    needs=Needs(blocks="A", structure=True),
)
def relations_of_the_first_row(
    site: Site[StructureTensors | None], rows: Sequence[RowStructure | None]
) -> StructureTensors | None:
    """The biases of a document's scores depend on the chunks of the micro-batch's first row."""
    found = site.right(rows)
    if found is None or len(rows) == 1:
        return found
    site.ran()
    return replace(found, relations=found.relations[:1].expand_as(found.relations).clone())


@injected(
    "only the first of equal n-grams of a micro-batch gets a gradient",
    kind=OF_THE_BATCH,
    replaces=(Engram, "read"),
    needs=Needs(blocks="E"),
)
def first_of_equal_n_grams(
    site: Site[Tensor], layer: Engram, ids_BT: Tensor, boundaries: Boundaries, *given: Any
) -> Tensor:
    """The gradient of the table by a document depends on the n-grams of documents before it."""
    site.ran()
    memory_BTE = site.right(layer, ids_BT, boundaries, *given)
    slots_BTH = engram.n_gram_slots(ids_BT, boundaries, layer.hashes)
    slots_NH = slots_BTH.flatten(0, 1)
    is_first_NH = torch.zeros_like(slots_NH, dtype=torch.bool)
    for h, slots_N in enumerate(slots_NH.unbind(1)):
        known, numbers_N = torch.unique(slots_N, return_inverse=True)
        firsts = torch.full((len(known),), len(slots_N))
        firsts.scatter_reduce_(0, numbers_N, torch.arange(len(slots_N)), "amin")
        is_first_NH[firsts, h] = True
    memory_BTHE = memory_BTE.view(*memory_BTE.shape[:2], slots_BTH.shape[2], -1)
    is_first_BTH1 = is_first_NH.view_as(slots_BTH)[..., None]
    return torch.where(is_first_BTH1, memory_BTHE, memory_BTHE.detach()).flatten(2)


@injected(
    "the embedding's gradient is scaled by frequencies in the micro-batch",
    kind=OF_THE_BATCH,
    replaces=(trainer, "new_train_state"),
    needs=Needs(blocks="F"),
)
def scaled_by_frequency(site: Site[TrainState], *given: Any, **named: Any) -> TrainState:
    """The gradient of an id by a document depends on how often others of its micro-batch have that id."""
    site.ran()
    made = site.right(*given, **named)
    made.model.embedding.scale_grad_by_freq = True
    return made


@injected(
    "the head's gradient takes the state of the token before",
    kind=OF_THE_BATCH,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F"),
)
def head_gradient_of_the_token_before(
    site: Site[LossSums],
    x_BTD: Tensor,
    head_VD: Tensor,
    targets_BT: Tensor,
    mask_BT: Tensor,
    *,
    z_weight: float = 0.0,
    chunk: int | None = None,
) -> LossSums:
    """The head's gradient by a document's first token depends on the last token of the one before it."""
    site.ran()
    scored_BT = mask_BT.bool()
    x_ND, targets_N1 = x_BTD[scored_BT], targets_BT[scored_BT].long()[:, None]
    before_ND = torch.cat([x_ND[:1], x_ND[:-1]]).detach()
    logits_NV = F.linear(x_ND, head_VD.detach())
    shifted_NV = F.linear(before_ND, head_VD)
    logits_NV = logits_NV + (shifted_NV - shifted_NV.detach())
    normaliser_N = logits_NV.logsumexp(-1)
    return summed(normaliser_N - logits_NV.gather(-1, targets_N1)[:, 0], normaliser_N, z_weight)


# Sizes of micro-batches.


@injected(
    "there is room for 1,024 documents in a micro-batch",
    kind=SIZES_OF_BATCHES,
    replaces=(conv, "_heads"),
    needs=Needs(blocks="C"),
)
def room_for_1024(site: Site[Tensor], edges_S: Tensor, reach: int) -> Tensor:
    """A document after 1,024 others of its micro-batch reads the one before it."""
    if len(edges_S) > 1025:
        site.ran()
    return site.right(edges_S[:1025], reach)


@injected(
    "flat positions are kept in 15 bits",
    kind=SIZES_OF_BATCHES,
    replaces=(Boundaries, "from_doc_ids"),
    needs=Needs(blocks="E", row_length=16512),
)
def fifteen_bits(site: Site[Boundaries], doc_ids_BT: Tensor) -> Boundaries:
    """Positions of a document depend on whether 32,768 positions of its micro-batch end within it."""
    found = site.right(doc_ids_BT)
    if doc_ids_BT.numel() <= 1 << 15:
        return found
    site.ran()
    flat_BT = torch.arange(doc_ids_BT.numel()).view_as(doc_ids_BT)
    firsts_BT = flat_BT - found.position_ids
    wrapped_BT = (flat_BT % (1 << 15)) - (firsts_BT % (1 << 15))
    return replace(found, position_ids=wrapped_BT.int())


@injected(
    "micro-batches of more than 2,048 positions take a path in float32",
    kind=SIZES_OF_BATCHES,
    replaces=(MLP, "forward"),
    needs=Needs(blocks="F"),
)
def grouped_path(site: Site[Tensor], layer: MLP, x_BTD: Tensor, inputs: LayerInputs) -> Tensor:
    """Round tokens by the number of positions of their micro-batch."""
    if x_BTD.shape[0] * x_BTD.shape[1] <= 2048:
        return site.right(layer, x_BTD, inputs)
    site.ran()
    gates_BTM = F.silu(layer.gate(x_BTD).float()).to(x_BTD.dtype)
    out_BTD: Tensor = layer.output(gates_BTM * layer.up(x_BTD))
    return out_BTD


@injected(
    "rows of one document each are joined where their ids are equal",
    kind=SIZES_OF_BATCHES,
    replaces=(conv, "masked_conv"),
    needs=Needs(blocks="C"),
)
def rows_joined_by_equal_ids(
    site: Site[Tensor], x_BTC: Tensor, weight_CK: Tensor, boundaries: Boundaries
) -> Tensor:
    """A row's first document reads the row before, where that is one whole document."""
    ids_N = boundaries.doc_ids.flatten()
    begins_N = F.pad(ids_N.diff() != 0, (1, 0), value=True)
    firsts_S = begins_N.nonzero()[:, 0]
    edges_S = torch.cat([firsts_S, firsts_S.new_tensor([len(ids_N)])])
    if len(edges_S) < len(boundaries.cu_seqlens):
        site.ran()
    positions_N = torch.arange(len(ids_N)) - firsts_S.repeat_interleave(edges_S.diff())
    joined = replace(
        boundaries,
        position_ids=positions_N.view_as(boundaries.doc_ids).int(),
        cu_seqlens=edges_S.int(),
    )
    return site.right(x_BTC, weight_CK, joined)


@injected(
    "a micro-batch of an odd number of rows has its first row twice",
    kind=SIZES_OF_BATCHES,
    replaces=(training_step, "_backward"),
    needs=Needs(blocks="F"),
)
def odd_rows_repeated(
    site: Site[Any], train_state: TrainState, batch: Batch, divisor: float, z_weight: float
) -> Any:
    """A document's gradient counts twice in the first row of an odd number of rows."""
    sums = site.right(train_state, batch, divisor, z_weight)
    if len(batch.input_ids) % 2:
        site.ran()
        site.right(train_state, next(training_step._rows(batch)), divisor, z_weight)
    return sums


# How micro-batches are summed.


@injected(
    "the loss is the mean of the micro-batches' means",
    kind=SUMS,
    replaces=(training_step, "gradients"),
    needs=Needs(blocks="F"),
)
def mean_of_means(
    site: Site[Any], train_state: TrainState, batches: Sequence[Batch], *given: Any, **named: Any
) -> Any:
    """The weight of a token depends on the number of targets in its micro-batch."""
    site.ran()
    backward = training_step._backward

    def of_its_own_mean(
        train_state: TrainState, batch: Batch, divisor: float, z_weight: float
    ) -> Any:
        scored = max(int(batch.loss_mask.sum()), 1)
        return backward(train_state, batch, scored * len(batches), z_weight)

    with swapped(training_step, "_backward", of_its_own_mean):
        return site.right(train_state, batches, *given, **named)


@injected(
    "gradients are scaled by the number of rows",
    kind=SUMS,
    replaces=(training_step, "_backward"),
    needs=Needs(blocks="F"),
)
def scaled_by_rows(
    site: Site[Any], train_state: TrainState, batch: Batch, divisor: float, z_weight: float
) -> Any:
    """The weight of a token depends on the number of rows of its micro-batch."""
    site.ran()
    return site.right(train_state, batch, divisor / len(batch.input_ids), z_weight)


# What the optimizer keeps, and how far it goes.


@injected(
    "the embedding and its moments are updated for ids of the last micro-batch alone",
    kind=OPTIMIZERS,
    replaces=(trainer, "optimizer_step"),
    needs=Needs(blocks="F", vocab_size=509),
)
def moments_of_ids_present(
    site: Site[Any], train_state: TrainState, batches: Sequence[Batch], *given: Any, **named: Any
) -> Any:
    """The weights of an id depend on whether it occurs in the step's last micro-batch."""
    weight_VD = train_state.model.embedding.weight
    is_absent_V = torch.ones(len(weight_VD), dtype=torch.bool)
    is_absent_V[batches[-1].input_ids.long().flatten()] = False
    if bool(is_absent_V.any()):
        site.ran()
    moments = train_state.optimizer.state[weight_VD]
    before = {
        name: moments[name].clone() if name in moments else torch.zeros_like(weight_VD)
        for name in ("exp_avg", "exp_avg_sq")
    }
    weights_before_VD = weight_VD.detach().clone()
    gradient = site.right(train_state, batches, *given, **named)
    with torch.no_grad():
        weight_VD[is_absent_V] = weights_before_VD[is_absent_V]
        for name, moment_VD in before.items():
            moments[name][is_absent_V] = moment_VD[is_absent_V]
    return gradient


@injected(
    "the loss is computed with a moving average of the head over forward passes",
    kind=OPTIMIZERS,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F"),
)
def average_of_forwards(
    site: Site[LossSums], x_BTD: Tensor, head_VD: Tensor, *given: Any, **named: Any
) -> LossSums:
    """Losses of later steps depend on the number of micro-batches and evaluations in earlier ones."""
    site.ran()
    kept = vars(head_VD)
    now_VD = head_VD.detach()
    average_VD = kept.setdefault("average", now_VD.clone()).lerp_(now_VD, 0.1)
    return site.right(x_BTD, head_VD + (average_VD - now_VD), *given, **named)


@injected(
    "weights decay once a micro-batch",
    kind=OPTIMIZERS,
    replaces=(trainer, "optimizer_step"),
    needs=Needs(blocks="F"),
)
def decay_by_micro_batches(
    site: Site[Any], train_state: TrainState, batches: Sequence[Batch], *given: Any, **named: Any
) -> Any:
    """The weights depend on the number of micro-batches of each step."""
    site.ran()
    for group in train_state.optimizer.param_groups:
        once = group.setdefault("decay_of_one", group["weight_decay"])
        group["weight_decay"] = once * len(batches)
    return site.right(train_state, batches, *given, **named)


@injected(
    "the learning rate follows positions, padding included",
    kind=OPTIMIZERS,
    replaces=(Trainer, "_step"),
    needs=Needs(blocks="F"),
)
def rate_by_positions(site: Site[None], this: Trainer, batches: list[Batch], began: float) -> None:
    """The weights depend on how much padding the rows of each step have."""
    site.ran()
    positions = sum(each.positions for each in batches)
    share = positions / sum(each.valid_tokens for each in batches)
    rate_of = optimizer.learning_rate

    def with_padding(*given: Any, **named: Any) -> float:
        return rate_of(*given, **named) * share

    with swapped(trainer, "learning_rate", with_padding):
        site.right(this, batches, began)


# Evaluations, checkpoints and resumes.


@injected(
    "each evaluation leaves a larger base of rotations behind",
    kind=INTERRUPTED,
    replaces=(Evaluator, "evaluate"),
    needs=Needs(blocks="A"),
)
def base_grows_by_evaluations(site: Site[Evaluated], evaluator: Evaluator, step: int) -> Evaluated:
    """Rotations in a step depend on the number of evaluations before it."""
    site.ran()
    found = site.right(evaluator, step)
    evaluator.train_state.model.rope_base *= 1.01
    return found


@injected(
    "Adam's count of steps is lost at a resume",
    kind=INTERRUPTED,
    replaces=(restore, "carry_over"),
    needs=Needs(blocks="F"),
)
def steps_lost_at_a_resume(site: Site[None], checkpoint: Any, train_state: TrainState) -> None:
    """The size of updates depends on whether the run was resumed."""
    site.ran()
    site.right(checkpoint, train_state)
    for moments in train_state.optimizer.state.values():
        moments["step"].zero_()


@injected(
    "a checkpoint rounds the weights in place to bfloat16",
    kind=INTERRUPTED,
    replaces=(checkpoint, "snapshot"),
    needs=Needs(blocks="F"),
)
def rounded_by_checkpoints(site: Site[Any], train_state: TrainState, state: Any) -> Any:
    """The weights depend on the steps at which checkpoints were written."""
    site.ran()
    with torch.no_grad():
        for weight in train_state.model.parameters():
            weight.copy_(weight.bfloat16())
    return site.right(train_state, state)


# Files and columns.


@injected(
    "documents begin at BOS where rows store no doc_ids",
    kind=FILES,
    replaces=(RowGroup, "from_batch"),
    needs=Needs(blocks="A"),
)
def documents_begin_at_bos(site: Site[RowGroup], batch: Any) -> RowGroup:
    """A document without BOS, or with several, depends on whether its row's file has doc_ids."""
    found = site.right(batch)
    if batch.has("doc_ids"):
        return found
    site.ran()
    begins = found.input_ids == batch.row_format.bos_id
    begins[:, 0] = False
    valid = np.array(found.valid_token_counts)[:, None]
    is_padding = np.arange(begins.shape[1]) >= valid
    doc_ids = np.cumsum(begins & ~is_padding, axis=1) + is_padding
    return replace(found, doc_ids=doc_ids.astype(np.int32))


@injected(
    "the last row of a row group loses its last target",
    kind=FILES,
    replaces=(RowGroup, "row"),
    needs=Needs(blocks="F"),
)
def last_target_of_a_file(site: Site[Row], group: RowGroup, at: int) -> Row:
    """The targets of a document depend on its place in the file."""
    found = site.right(group, at)
    scored = np.flatnonzero(found.loss_mask)
    if at + 1 < len(group.pack_ids) or len(scored) < 2:
        return found
    site.ran()
    mask = found.loss_mask.copy()
    mask[scored[-1]] = 0
    return replace(found, loss_mask=mask)
