"""One optimizer step: its micro-batches shared among ranks, one gradient of one loss.

The loss of a step is Σ over its micro-batches ÷ their scored targets, whatever rank computes what.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from curriculum.model.loss import loss_sums
from curriculum.train.batch import Batch, tensors_in
from curriculum.train.device import mixed
from curriculum.train.distributed import Ranks
from curriculum.train.finiteness import FinitenessCheck, Verdict, What
from curriculum.train.optimizer import TrainState, whole, whole_model
from schemas.job import Job


def prefetch(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """The batches on a device; on CUDA each is copied on a stream of its own during the step before.

    Copies overlap only where the batches are pinned, as those of `steps_of` are for a job on CUDA.
    """
    if device.type != "cuda":
        for batch in batches:
            yield batch.to(device)
        return
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    coming: tuple[Batch, torch.cuda.Event] | None = None
    for batch in batches:
        before, coming = coming, _sent(batch, device, side)
        if before is not None:
            yield _arrived(*before, device)
    if coming is not None:
        yield _arrived(*coming, device)


def _sent(
    batch: Batch, device: torch.device, side: torch.cuda.Stream
) -> tuple[Batch, torch.cuda.Event]:
    with torch.cuda.stream(side):
        return batch.to(device), side.record_event()


def _arrived(batch: Batch, copied: torch.cuda.Event, device: torch.device) -> Batch:
    here = torch.cuda.current_stream(device)
    here.wait_event(copied)
    for tensor in tensors_in(batch):
        # Else its memory could be given to the next copy while this stream still reads it.
        tensor.record_stream(here)
    return batch


@dataclass(frozen=True, kw_only=True, slots=True)
class Gradient:
    """Sums over one step's micro-batches."""

    loss: float
    z_loss: float
    norm: float


def gradients(
    train_state: TrainState,
    batches: Sequence[Batch],
    job: Job,
    *,
    step: int,
    folders: Mapping[str, Path] | None = None,
) -> Gradient:
    """Accumulate the gradient of Σ loss / count of scored targets over a step, and clip it.

    `batches` are this rank's of the step, as many as every other's. `folders` of the rows by their keys
    let documents be named where something isn't finite.

    Raises:
        NotFiniteError: on every rank, where loss or gradient isn't finite, naming the rows to blame.
    """
    (scored,) = train_state.ranks.total([sum(int(batch.loss_mask.sum()) for batch in batches)])
    count = max(int(scored), 1)
    finite = _Finiteness(
        train_state=train_state, job=job, step=step, count=count, folders=folders or {}
    )
    # Sharded gradients are averaged over ranks; here they are to be summed.
    divisor = count / train_state.ranks.size
    sums = [
        _backward(train_state, batch, divisor, job.optimizer.z_loss)
        for batch in prefetch(batches, train_state.device)
    ]
    losses: list[list[float]] = torch.stack(sums).tolist()
    suspects = [
        batch for batch, (nll, _) in zip(batches, losses, strict=True) if not math.isfinite(nll)
    ]
    nll, z = train_state.ranks.total([sum(each) for each in zip(*losses, strict=True)])
    finite.require(nll, "the loss", suspects)
    clip = job.optimizer.gradient_clip
    norm = float(whole(torch.nn.utils.clip_grad_norm_(train_state.model.parameters(), clip)))
    finite.require(norm, "the gradient", batches)
    return Gradient(loss=nll / count, z_loss=job.optimizer.z_loss * z / count, norm=norm)


def optimizer_step(
    train_state: TrainState,
    batches: Sequence[Batch],
    job: Job,
    *,
    step: int,
    rate: float,
    folders: Mapping[str, Path] | None = None,
) -> Gradient:
    """Update the weights once from a step's micro-batches, at this learning rate; gradients are freed.

    Raises:
        NotFiniteError: on every rank, where loss or gradient isn't finite, naming the rows to blame.
    """
    for group in train_state.optimizer.param_groups:
        group["lr"] = rate
    gradient = gradients(train_state, batches, job, step=step, folders=folders)
    train_state.optimizer.step()
    train_state.optimizer.zero_grad()
    return gradient


def cut_for(job: Job, ranks: Ranks) -> Job:
    """The job with micro-batches small enough that each rank has one in every step, if rows allow."""
    longest = max(rows.row_length for rows in job.rows)
    most = max(job.tokens_per_step // ranks.size, longest)
    return job.model_copy(update={"micro_positions": min(job.micro_positions, most)})


def _backward(train_state: TrainState, batch: Batch, divisor: float, z_weight: float) -> Tensor:
    """Σ nll and Σ z of a batch [2]."""
    model = train_state.model
    with mixed(train_state.device):
        x_BTD = model.hidden(batch.input_ids, batch.boundaries, batch.structure)
        sums = loss_sums(x_BTD, model.head.weight, batch.target_ids, batch.loss_mask)
        loss: Tensor = (sums.nll + z_weight * sums.z) / divisor
    loss.backward()  # type: ignore[no-untyped-call]
    return torch.stack([sums.nll, sums.z]).detach()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Finiteness:
    """A step's figures must be finite; else all ranks look for the rows to blame, each among its own."""

    train_state: TrainState
    job: Job
    step: int
    count: int
    folders: Mapping[str, Path]

    def require(self, value: float, what: What, suspects: Sequence[Batch]) -> None:
        """Let a finite value pass, or raise on every rank what they found together."""
        if math.isfinite(value):
            return
        finite = FinitenessCheck(
            model=whole_model(self.train_state, self.job),
            step=self.step,
            count=self.count,
            z_weight=self.job.optimizer.z_loss,
            folders=self.folders,
        )
        real = [batch for batch in suspects if batch.pack_ids]
        found = self.train_state.ranks.gathered(
            (finite.find_nonfinite(what, real), [name for batch in real for name in batch.pack_ids])
        )
        verdict = Verdict(
            what=what,
            rows=sum(each.rows for each, _ in found),
            blamed=tuple(blamed for each, _ in found for blamed in each.blamed),
        )
        raise finite.refusal(value, what, [name for _, names in found for name in names], verdict)
