"""Recorder of training steps: losses by document, gradients, weights, and the outputs of blocks."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from curriculum.leakcheck.packings import Packing, pack_id
from curriculum.leakcheck.proof_documents import ProofDocument
from curriculum.model.decoder import Decoder
from curriculum.train.batch import Batch
from curriculum.train.dataloader import PlannedRows, steps_of
from schemas.job import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Probes:
    """Block outputs of one step and the gradients of the loss at these outputs, by block and document."""

    outputs: Mapping[str, Mapping[int, Tensor]]
    gradients: Mapping[str, Mapping[int, Tensor]]


@dataclass(frozen=True, kw_only=True, slots=True)
class FedDocuments:
    """Documents in the batches of one step, with their losses."""

    fault: str
    """First way in which the batches differ from the expected documents; empty if they agree."""
    losses: tuple[tuple[int, float], ...]
    """Pairs of a document's number and the sum of the losses of its scored targets, in batch order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTrace:
    """Losses, gradients and weights of one training step."""

    losses: Mapping[int, float]
    """Sum of the losses of each document's scored targets in nats, by document number."""
    gradients: Mapping[str, Tensor]
    """Clipped gradients of the first step, exactly those that the optimizer gets; empty in later steps."""
    norm: float | None
    """Norm of all gradients before clipping; None if the training doesn't report it."""
    weights: Mapping[str, Tensor]
    """Weights after the last step; empty in earlier steps."""
    fault: str
    """First way in which the batches differ from the expected documents; empty if they agree."""
    probes: Probes


@dataclass(kw_only=True, slots=True)
class Recorder:
    """Recorder of the steps of a run. It continues recording when the run is resumed."""

    packing: Packing
    documents: Sequence[ProofDocument]
    probed_step: int | None = None
    """Number of the step whose block outputs are recorded. Steps count from 1."""
    traces: list[StepTrace] = field(default_factory=list)
    _rows: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, rows in self.packing.data_sets.items():
            for at, row in enumerate(rows):
                self._rows[pack_id(place, at)] = row.documents

    @property
    def is_at_last_step(self) -> bool:
        """True if the next step is the last one. Only the weights of the last step are recorded."""
        return len(self.traces) == len(self.packing.steps) - 1

    def note(
        self,
        fed: FedDocuments,
        gradients: Mapping[str, Tensor],
        weights: Mapping[str, Tensor],
        probes: Probes | None = None,
        norm: float | None = None,
    ) -> None:
        """Record the trace of a step."""
        step = len(self.traces)
        planned = sorted(number for row in self.packing.steps[step] for number in row.documents)
        fault = fed.fault
        if sorted(number for number, _ in fed.losses) != planned:
            fault = f"{len(fed.losses)} documents are trained on, not {len(planned)}"
        self.traces.append(
            StepTrace(
                losses=dict.fromkeys(planned, math.nan) if fault else dict(fed.losses),
                gradients=gradients if step == 0 else {},
                norm=norm,
                weights=weights if self.is_at_last_step else {},
                fault=fault,
                probes=probes or Probes(outputs={}, gradients={}),
            )
        )

    def fed(self, batches: Sequence[Batch], nll: Sequence[Sequence[float]]) -> FedDocuments:
        """Return the documents of a step's batches. `nll` has their summed losses by batch and segment."""
        # A rank without rows gets a blank batch instead.
        real = [pair for pair in zip(batches, nll, strict=True) if pair[0].pack_ids]
        fault = next(filter(None, (self._fault(batch) for batch, _ in real)), "")
        losses: list[tuple[int, float]] = []
        for batch, values in real:
            numbers = [number for number, _ in self.segments(batch)]
            known = [math.nan] * len(numbers) if fault else values
            losses += [
                (number, value)
                for number, value in zip(numbers, known, strict=True)
                if number is not None
            ]
        return FedDocuments(fault=fault, losses=tuple(losses))

    def segments(self, batch: Batch) -> Iterator[tuple[int | None, slice]]:
        """Yield the number (None for padding) and position of each segment in a batch.

        Positions count through all rows of the batch.
        """
        length = batch.input_ids.shape[1]
        for at, name in enumerate(batch.pack_ids):
            start = at * length
            for number in self._rows[name]:
                yield number, slice(start, start + len(self.documents[number]))
                start += len(self.documents[number])
            if start < (at + 1) * length:
                yield None, slice(start, (at + 1) * length)

    def _fault(self, batch: Batch) -> str:
        """Return the first way in which a batch differs from the expected documents, or ""."""
        segments = list(self.segments(batch))
        if tuple(place.stop - place.start for _, place in segments) != batch.boundaries.lengths:
            return f"the boundaries of rows {', '.join(batch.pack_ids)} aren't those of their documents"
        ids_N, mask_N = (
            tensor.cpu().numpy().reshape(-1) for tensor in (batch.input_ids, batch.loss_mask)
        )
        for number, place in segments:
            document = None if number is None else self.documents[number]
            if document is None and mask_N[place].any():
                return f"padding is scored in rows {', '.join(batch.pack_ids)}"
            if document is not None and not np.array_equal(ids_N[place], document.ids):
                return f"document {number} is fed with other ids"
            if document is not None and not np.array_equal(mask_N[place], document.loss_mask):
                return f"other positions of document {number} are scored"
        return ""


class PlainModel(Protocol):
    """Model that is trained by plain steps instead of our trainer."""

    def step(
        self, batches: Sequence[Batch]
    ) -> tuple[Sequence[Sequence[float]], Mapping[str, Tensor]]:
        """Update the weights once from a step's batches.

        Return the summed loss of each segment of each batch, and the gradients by name.
        """

    def weights(self) -> Mapping[str, Tensor]:
        """Return the weights by name."""


def train_plainly(model: PlainModel, job: Job, workspace: Path, recorder: Recorder) -> None:
    """Train a model by plain steps on the batches that our loader reads from a job's rows."""
    rows = PlannedRows.from_job(job, workspace)
    for batches in steps_of(job, rows, first_step=0, workers=0):
        nll, gradients = model.step(batches)
        recorder.note(recorder.fed(batches, nll), gradients, model.weights())


def by_segment(batch: Batch, nll_N: Tensor) -> list[float]:
    """Return the summed loss of each segment of a batch. `nll_N` holds the losses of its scored targets."""
    segments_N = batch.boundaries.segments[batch.loss_mask.bool()]
    sums_S = torch.zeros(len(batch.boundaries.lengths), dtype=torch.float64)
    sums: list[float] = sums_S.index_add_(
        0, segments_N.cpu(), nll_N.detach().cpu().double()
    ).tolist()
    return sums


class Probe:
    """Recorder of the block outputs of one step by micro-batch, and of the gradients of the loss at them."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._outputs: dict[str, list[Tensor]] = {}
        self._gradients: dict[str, dict[int, Tensor]] = {}

    def hook(self, model: Decoder, hooks: ExitStack) -> None:
        """Register hooks on the embedding, each block and the final norm of a model."""
        places = {"the embedding": model.embedding, "the final norm": model.norm}
        blocks = {
            f"block {at} ({letter})": block
            for at, (letter, block) in enumerate(zip(model.spec.blocks, model.blocks, strict=True))
        }
        ordered = {"the embedding": places["the embedding"], **blocks}
        for name, module in {**ordered, "the final norm": places["the final norm"]}.items():
            hooks.callback(module.register_forward_hook(self._keeping(name)).remove)

    def _keeping(self, name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        def keep(module: nn.Module, _: Any, output: Tensor) -> None:
            if not module.training or len(self.recorder.traces) + 1 != self.recorder.probed_step:
                return
            kept = self._outputs.setdefault(name, [])
            at = len(kept)
            kept.append(output.detach().clone())
            gradients = self._gradients.setdefault(name, {})
            if output.requires_grad:
                output.register_hook(  # type: ignore[no-untyped-call]
                    lambda gradient: gradients.update({at: gradient.detach().clone()})
                )

        return keep

    def by_document(self, batches: Sequence[Batch]) -> Probes | None:
        """Return the probes of a step's batches by document, or None if nothing was recorded."""
        if not self._outputs:
            return None
        probes = Probes(
            outputs={
                name: self._of_documents(batches, dict(enumerate(kept)))
                for name, kept in self._outputs.items()
            },
            gradients={
                name: self._of_documents(batches, kept) for name, kept in self._gradients.items()
            },
        )
        self._outputs, self._gradients = {}, {}
        return probes

    def _of_documents(
        self, batches: Sequence[Batch], kept: Mapping[int, Tensor]
    ) -> dict[int, Tensor]:
        return {
            number: kept[at].flatten(0, 1)[place]
            for at, batch in enumerate(batches)
            for number, place in self.recorder.segments(batch)
            if number is not None and at in kept
        }
