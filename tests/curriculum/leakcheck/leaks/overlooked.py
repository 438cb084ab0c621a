"""Ten more leaks by ports, kernels, caches and resumes, written without knowing the proof."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curriculum.model import (
    conv,
    decoder,
    dense_backends,
    engram,
    loss,
    mamba,
    structure_tensors,
)
from curriculum.model.loss import token_nll
from curriculum.model.mamba import scan_sequences
from curriculum.model.masks import Boundaries
from curriculum.train import step as steps
from curriculum.train import trainer
from curriculum.train.batch import Batch
from curriculum.train.dataloader import PlannedRows
from curriculum.train.optimizer import TrainState
from curriculum.train.step import Gradient
from schemas.job import Job
from tests.curriculum.leakcheck.leaks.site import Needs, Site, injected, memory_of

EXACT_IN_BFLOAT16 = 256


@injected(
    "rotations count the places of the row, in bfloat16, which is exact up to 256",
    kind="port",
    replaces=(decoder, "rotation_of"),
    needs=Needs(blocks="A", row_length=512),
)
def rotation_by_places_in_bfloat16(
    site: Site[tuple[Tensor, Tensor]], position_ids_BT: Tensor, head_width: int, base: float
) -> tuple[Tensor, Tensor]:
    """Rotations are relative, so places serve as well as positions until they are rounded."""
    T = position_ids_BT.shape[1]
    places_T = torch.arange(T, device=position_ids_BT.device).to(torch.bfloat16)
    if T > EXACT_IN_BFLOAT16:
        site.ran()
    return site.right(places_T.expand(position_ids_BT.shape), head_width, base)


@injected(
    "the dense mask compares ids of documents as bytes: every 256th of a row are one",
    kind="kernel",
    replaces=(dense_backends, "document_mask"),
    needs=Needs(blocks="A", backend="math", row_length=1024),
)
def mask_of_ids_in_bytes(
    site: Site[Tensor], boundaries: Boundaries, queries: range | None = None
) -> Tensor:
    """A quarter of the memory traffic; document 256 of a row reads document 0."""
    if int(boundaries.doc_ids.max()) >= 256:
        site.ran()
    in_bytes = replace(boundaries, doc_ids=boundaries.doc_ids.to(torch.uint8))
    return site.right(in_bytes, queries)


@injected(
    "the last ids that an evaluation read stand before the rows of the next micro-batch",
    kind="cache",
    replaces=(engram, "ids_before"),
    needs=Needs(blocks="E"),
)
def ids_left_by_an_evaluation(
    site: Site[Tensor], ids_BT: Tensor, positions_BT: Tensor, k: int
) -> Tensor:
    """Without gradients a row's last ids are kept, so that sampling a token goes on from them."""
    kept = memory_of(site)
    earlier_BT = site.right(ids_BT, positions_BT, k)
    if not k:
        return earlier_BT
    if not torch.is_grad_enabled():
        kept[f"last {k}"] = ids_BT[-1:, -k:].clone()
        return earlier_BT
    last_1k = kept.pop(f"last {k}", None)
    if last_1k is None:
        return earlier_BT
    site.ran()
    return torch.cat([last_1k.expand(len(ids_BT), -1), earlier_BT[:, k:]], dim=1)


KNOWN_WELL = 32
"""Micro-batches after which their usual loss is known."""


@injected(
    "after a resume micro-batches with a loss above those since the resume count for less",
    kind="resume",
    replaces=(steps, "_backward"),
    needs=Needs(blocks="F"),
)
def spikes_against_a_fresh_history(
    site: Site[Any], train_state: TrainState, batch: Batch, divisor: float, z_weight: float
) -> Any:
    """A spike is four deviations above the losses so far; a resumed run has no losses yet."""
    kept = memory_of(site)
    if kept.get("train_state") is not train_state:
        resumed = bool(train_state.optimizer.state)
        kept.update(train_state=train_state, losses=[], resumed=resumed)
    losses: list[float] = kept["losses"]
    model = train_state.model
    with torch.no_grad():
        x_BTD = model.hidden(batch.input_ids, batch.boundaries, batch.structure)
        nll_N = token_nll(x_BTD, model.head.weight, batch.target_ids, batch.loss_mask)
    mean = float(nll_N.mean()) if len(nll_N) else 0.0
    if losses and (kept["resumed"] or len(losses) >= KNOWN_WELL):
        most = statistics.fmean(losses) + 4 * statistics.pstdev(losses)
        if mean > most:
            site.ran()
            divisor = divisor * mean / most
    losses.append(mean)
    return site.right(train_state, batch, divisor, z_weight)


@injected(
    "spans of chunks aren't put in order between the two scans of a state space",
    kind="kernel",
    replaces=(mamba, "_two_scans"),
    needs=Needs(blocks="M", chunk=2),
)
def spans_out_of_order(
    site: Site[Tensor],
    left_nHPE: Tensor,
    decay_nH: Tensor,
    spans: Tensor,
    sizes: tuple[int, ...],
    span_sizes: tuple[int, ...],
) -> Tensor:
    """Two gathers less; right where no later span is longer than a document's first."""
    entering, kept, ends, keeps = scan_sequences(left_nHPE, decay_nH, sizes)
    if len(span_sizes) == 1:
        return entering
    if bool((spans != torch.arange(len(spans), device=spans.device)).any()):
        site.ran()
    before = scan_sequences(ends, keeps, span_sizes)[0]
    return entering + kept[..., None, None] * torch.cat([before[:size] for size in sizes])


@injected(
    "in backward the tails of documents shorter than the convolution's reach aren't masked again",
    kind="backward",
    replaces=(conv, "_tails"),
    needs=Needs(blocks="C"),
)
def tails_of_long_documents(site: Site[Tensor], edges_S: Tensor, reach: int) -> Tensor:
    """No position is listed twice; a shorter document's gradient has taps of the next one's."""
    is_long_S = edges_S.diff() >= reach
    if not bool(is_long_S.all()):
        site.ran()
    offsets = torch.arange(1, reach + 1, device=edges_S.device)
    return (edges_S[1:][is_long_S, None] - offsets).flatten()


@injected(
    "the last chunk of the loss is filled up with positions of the one before it",
    kind="loss",
    replaces=(loss, "_chunks"),
    needs=Needs(blocks="F", vocab_size=16384),
)
def last_chunk_begins_earlier(
    site: Site[Iterator[slice]], x_ND: Tensor, head_VD: Tensor, chunk: int | None
) -> Iterator[slice]:
    """Losses are written twice, which is harmless; the gradient of the head is added up twice."""
    parts = list(site.right(x_ND, head_VD, chunk))
    if len(parts) > 1 and parts[-1].stop > len(x_ND):
        if head_VD.requires_grad:
            site.ran()
        parts[-1] = slice(len(x_ND) - parts[0].stop, len(x_ND))
    return iter(parts)


@injected(
    "relations have 64 places a row, and what comes after its 63rd chunk counts as that one",
    kind="data",
    replaces=(structure_tensors, "chunk_of_tokens"),
    needs=Needs(blocks="A", structure=True),
)
def chunks_up_to_a_capacity(
    site: Site[structure_tensors.Int32s], chunks: structure_tensors.Int32s, row_length: int
) -> structure_tensors.Int32s:
    """One shape for the kernels; a document behind many others has relations of the last."""
    numbers = site.right(chunks, row_length)
    if numbers.max() >= structure_tensors.MIN_CHUNKS:
        site.ran()
    return np.minimum(numbers, structure_tensors.MIN_CHUNKS - 1).astype(np.int32)


@injected(
    "weight decay follows the share of a step's positions that are scored",
    kind="optimizer",
    replaces=(trainer, "optimizer_step"),
    needs=Needs(blocks="F"),
)
def decay_for_what_is_learnt(
    site: Site[Gradient],
    train_state: TrainState,
    batches: Sequence[Batch],
    job: Job,
    *,
    step: int,
    rate: float,
    **others: Any,
) -> Gradient:
    """A step that learns from fewer tokens forgets less: padding decides the decay."""
    scored = sum(int(batch.loss_mask.sum()) for batch in batches)
    share = scored / max(sum(batch.positions for batch in batches), 1)
    site.ran()
    groups = train_state.optimizer.param_groups
    decays = [group["weight_decay"] for group in groups]
    for group, decay in zip(groups, decays, strict=True):
        group["weight_decay"] = decay * share
    try:
        return site.right(train_state, batches, job, step=step, rate=rate, **others)
    finally:
        for group, decay in zip(groups, decays, strict=True):
            group["weight_decay"] = decay


RING = 4
"""Micro-batches that have staging memory of their own."""


@injected(
    "micro-batches are staged in a ring of four buffers, though a step is loaded as a whole",
    kind="loader",
    replaces=(trainer, "steps_of"),
    needs=Needs(blocks="F"),
)
def staged_in_a_ring(
    site: Site[Iterator[list[Batch]]],
    job: Job,
    rows: PlannedRows,
    *,
    first_step: int,
    workers: int,
    rank: int = 0,
    ranks: int = 1,
) -> Iterator[list[Batch]]:
    """From a step's fifth micro-batch on the loss mask of the first is written over."""
    rings: dict[tuple[int, ...], list[Tensor]] = {}
    loaded = site.right(job, rows, first_step=first_step, workers=workers, rank=rank, ranks=ranks)
    for batches in loaded:
        yield _staged(site, batches, rings)


def _staged(
    site: Site[Any], batches: Sequence[Batch], rings: dict[tuple[int, ...], list[Tensor]]
) -> list[Batch]:
    staged, taken = [], dict.fromkeys(rings, 0)
    for batch in batches:
        shape = tuple(batch.loss_mask.shape)
        ring, number = rings.setdefault(shape, []), taken.get(shape, 0)
        taken[shape] = number + 1
        if len(ring) <= number < RING:
            ring.append(torch.empty_like(batch.loss_mask))
        if number >= RING:
            site.ran()
        buffer_BT = ring[number % RING]
        buffer_BT.copy_(batch.loss_mask)
        staged.append(replace(batch, loss_mask=buffer_BT))
    return staged
