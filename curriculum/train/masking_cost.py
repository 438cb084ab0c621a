"""Cost of document masks: training speed with masks, compared with the same rows as one document each.

Masked passes include the time to build boundaries and masks. Unmasked passes reuse them, since without
documents they are the same for all rows. Therefore, the ratio is below 1 by the cost of masking, even if
a single document fills each row.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import TypeAdapter
from torch import Tensor

from curriculum.model.decoder import Decoder
from curriculum.model.loss import loss_sums
from curriculum.model.masks import Boundaries
from curriculum.train.dataloader import Batch, PlannedRows, steps_of
from curriculum.train.device import mixed_precision
from curriculum.train.metrics import log
from curriculum.train.optimizer import new_train_state
from curriculum.whole_files import write_whole
from schemas.errors import JobError
from schemas.job import Job, MaskingCost
from schemas.json_text import Sealed, read_json

FROM_LENGTH = 16_384
"""Row length from which the cost is measured even if the diet doesn't require it.

On a CPU only rows of exactly this length are measured, because longer rows take minutes.
"""
STEPS = 20
MAX_SECONDS = 120.0
"""Time after which no further micro-batch is started.

A micro-batch takes three passes, or five if it has a new shape.
"""
MIN_RATIO = 0.95
"""Minimum ratio of the speed with masks to the speed without, if a diet requires masking_cost."""
FILE = "masking_cost.json"
COST = TypeAdapter[MaskingCost | None](MaskingCost | None)

Loss = Callable[[Decoder, Tensor, Batch], Tensor]
"""Function that computes the loss of a batch. Its arguments are the model, the stream x_BTD and the batch."""


class KeptCost(Sealed):
    """masking_cost.json in the directory of a run."""

    cost: MaskingCost


def measure_once(
    job: Job, workspace: Path, directory: Path, device: torch.device
) -> MaskingCost | None:
    """Measure the masking cost on a job's first rows and save it; return a cost that was saved before.

    The result is None if no cost needs to be measured for this job.

    Raises:
        JobError: if the diet requires the measurement and masked rows are too slow.
    """
    required = "masking_cost" in job.require
    is_masked = job.study is None or job.study.is_always_masked
    is_on_gpu = job.slot_length > FROM_LENGTH and device.type == "cuda"
    if not required and not (is_masked and (job.slot_length == FROM_LENGTH or is_on_gpu)):
        return None
    file = directory / FILE
    if file.is_file():
        return read_json(
            KeptCost,
            file,
            error=JobError,
            cause="the file was changed after it was written, or another version wrote it",
            cure="Delete the file; the cost is then measured again",
        ).cost
    cost = _of_job(job, workspace, device)
    log(
        f"masking  {cost.ratio:.3f} × the unmasked tokens/s, on {cost.positions:,} positions "
        f"in rows of up to {cost.row_length:,} tokens"
    )
    if required:
        require_cheap(cost)
    write_whole(file, KeptCost(cost=cost).model_dump_json(indent=1))
    return cost


def require_cheap(cost: MaskingCost) -> None:
    """Raise a JobError if masked rows reach less than MIN_RATIO of the unmasked speed."""
    if cost.ratio < MIN_RATIO:
        raise JobError(
            "masking_cost",
            f"{cost.ratio:.3f} of the unmasked speed over {cost.positions:,} positions",
            cause=f"the diet requires at least {MIN_RATIO} of the unmasked speed",
            cure="Stop other work on this machine and try again, choose the backend that skips masked "
            "pairs (flex on a GPU, documents on a CPU), or don't require masking_cost in the diet",
        )


def masking_cost(
    model: Decoder, batches: Iterable[Batch], *, longest_seconds: float = MAX_SECONDS
) -> MaskingCost:
    """Measure the cost over batches until the time is up. Weights don't change, and gradients are cleared.

    Every batch runs masked, unmasked and masked again. A batch with a new shape runs once before, as a
    warm-up.
    """
    rounds: list[Round] = []
    seen: set[tuple[int, ...]] = set()
    length, ends = 0, time.monotonic() + longest_seconds
    for batch in batches:
        shape = tuple(batch.input_ids.shape)
        rounds.append(compare(model, batch, loss_of, warm_up=shape not in seen))
        seen.add(shape)
        length = max(length, shape[1])
        if time.monotonic() > ends:
            break
    return MaskingCost(
        ratio=statistics.median(timed.ratio for timed in rounds),
        row_length=length,
        positions=sum(timed.positions for timed in rounds),
        micro_batches=len(rounds),
        masked_seconds=sum(timed.masked for timed in rounds),
        unmasked_seconds=sum(timed.unmasked for timed in rounds),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """Seconds of a forward and backward pass of one batch, with masks and without. On a CPU, CPU seconds."""

    positions: int
    masked: float
    unmasked: float

    @property
    def ratio(self) -> float:
        """Tokens per second with masks ÷ tokens per second without."""
        return self.unmasked / self.masked


def compare(model: Decoder, batch: Batch, loss: Loss, *, warm_up: bool = False) -> Round:
    """Time a batch masked, unmasked and masked again. `masked` is the mean of the two masked passes."""
    here = batch.to(model.head.weight.device)
    one_document = torch.zeros_like(batch.boundaries.doc_ids)
    boundaries = Boundaries.from_doc_ids(one_document).to(here.input_ids.device)
    with mixed_precision(here.input_ids.device):
        inputs = model.inputs_of(here.input_ids, boundaries, here.structure)

    def masked() -> Tensor:
        return masked_pass(model, batch, here, loss)

    def unmasked() -> Tensor:
        x_BTD = model.hidden(here.input_ids, boundaries, here.structure, inputs=inputs)
        return loss(model, x_BTD, here)

    for work in (masked, unmasked) if warm_up else ():
        seconds_of(model, work)
    first, middle, last = (seconds_of(model, work) for work in (masked, unmasked, masked))
    return Round(positions=batch.positions, masked=(first + last) / 2, unmasked=middle)


def masked_pass(model: Decoder, batch: Batch, here: Batch, loss: Loss) -> Tensor:
    """Rebuild the boundaries and masks of a batch, and compute its loss.

    `here` is the batch on the device.
    """
    boundaries = Boundaries.from_doc_ids(batch.boundaries.doc_ids).to(here.input_ids.device)
    return loss(model, model.hidden(here.input_ids, boundaries, here.structure), here)


def loss_of(model: Decoder, x_BTD: Tensor, batch: Batch) -> Tensor:
    """Compute the sum of the losses through the head, like training does."""
    return loss_sums(x_BTD, model.head.weight, batch.target_ids, batch.loss_mask).total


def seconds_of(model: Decoder, work: Callable[[], Tensor]) -> float:
    """Time the forward and backward pass of the loss that `work` returns.

    Clearing the gradients isn't timed.
    """
    device = model.head.weight.device
    began = now(device)
    with mixed_precision(device):
        loss = work()
    loss.backward()  # type: ignore[no-untyped-call]
    seconds = now(device) - began
    model.zero_grad(set_to_none=True)
    return seconds


def now(device: torch.device) -> float:
    """Return wall-clock seconds once the GPU has finished its work.

    On a CPU return CPU seconds, which other processes don't affect.
    """
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def _of_job(job: Job, workspace: Path, device: torch.device) -> MaskingCost:
    """Measure the cost with an untrained model of the job's sizes."""
    model = new_train_state(job, device).model
    rows = PlannedRows.from_job(job, workspace)
    steps = itertools.islice(steps_of(job, rows, first_step=0, workers=0), STEPS)
    cost = masking_cost(model, itertools.chain.from_iterable(steps))
    if device.type == "cuda":
        # The measurement must not count as memory of the training.
        del model
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    return cost
