"""Cost of document masks: the same rows, masked and as one document each.

Masked passes build boundaries and masks inside the clock. Unmasked passes find theirs built: without
documents every row has the same. So the ratio falls below 1 by what masking adds, also on a row that
one document fills.
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
from curriculum.train.device import mixed
from curriculum.train.metrics import log
from curriculum.train.optimizer import new_train_state
from curriculum.whole_files import write_whole
from schemas.errors import JobError
from schemas.job import Job, MaskingCost
from schemas.json_text import Sealed, read_json

FROM_LENGTH = 16_384
"""Rows as long as this are measured whether or not the diet requires it; by a CPU no longer ones, of which
the unmasked pass alone takes minutes."""
STEPS = 20
MAX_SECONDS = 120.0
"""After so long no further micro-batch is begun; one takes three passes, of a shape not seen before five."""
LEAST = 0.95
"""Least share of the unmasked speed, where a diet requires masking_cost."""
FILE = "masking_cost.json"
COST = TypeAdapter[MaskingCost | None](MaskingCost | None)

Loss = Callable[[Decoder, Tensor, Batch], Tensor]
"""Loss of the stream x_BTD of a batch."""


class KeptCost(Sealed):
    """masking_cost.json of a run's directory."""

    cost: MaskingCost


def measured_once(
    job: Job, workspace: Path, directory: Path, device: torch.device
) -> MaskingCost | None:
    """The masking cost of a job's first rows, kept in its directory; None where nobody asks for it.

    Raises:
        JobError: where the diet requires it and masked rows are slower than it allows.
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
            cause="it was changed since it was written, or another version wrote it",
            cure="Delete it: it is measured again",
        ).cost
    cost = _of_job(job, workspace, device)
    log(
        f"masking  {cost.ratio:.3f} × the unmasked tokens/s, on {cost.positions:,} positions "
        f"of rows up to {cost.row_length:,}"
    )
    if required:
        require_cheap(cost)
    write_whole(file, KeptCost(cost=cost).model_dump_json(indent=1))
    return cost


def require_cheap(cost: MaskingCost) -> None:
    """Raise a JobError where masked rows have less than LEAST of the unmasked speed."""
    if cost.ratio < LEAST:
        raise JobError(
            "masking_cost",
            f"{cost.ratio:.3f} of the unmasked speed over {cost.positions:,} positions",
            cause=f"the diet requires at least {LEAST}",
            cure="Run this job alone on the machine and try again; else choose the backend that passes "
            "over what is masked (flex on a GPU, documents on a CPU), or don't require masking_cost",
        )


def masking_cost(
    model: Decoder, batches: Iterable[Batch], *, longest_seconds: float = MAX_SECONDS
) -> MaskingCost:
    """The cost over batches, until time runs out; weights stay as they are, gradients are left empty.

    Each batch is run masked, unmasked, masked; shapes that weren't seen yet are run once before.
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
        ratio=statistics.median(each.ratio for each in rounds),
        row_length=length,
        positions=sum(each.positions for each in rounds),
        micro_batches=len(rounds),
        masked_seconds=sum(each.masked for each in rounds),
        unmasked_seconds=sum(each.unmasked for each in rounds),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """Seconds of one forward and backward over the same batch; CPU seconds on a CPU."""

    positions: int
    masked: float
    unmasked: float

    @property
    def ratio(self) -> float:
        """Tokens a second masked ÷ unmasked."""
        return self.unmasked / self.masked


def compare(model: Decoder, batch: Batch, loss: Loss, *, warm_up: bool = False) -> Round:
    """A batch of the host masked, unmasked and masked again; the masked seconds are the mean of both."""
    here = batch.to(model.head.weight.device)
    one_document = torch.zeros_like(batch.boundaries.doc_ids)
    boundaries = Boundaries.from_doc_ids(one_document).to(here.input_ids.device)
    with mixed(here.input_ids.device):
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
    """Loss of a batch whose boundaries and masks are built anew; `here` is the batch on the device."""
    boundaries = Boundaries.from_doc_ids(batch.boundaries.doc_ids).to(here.input_ids.device)
    return loss(model, model.hidden(here.input_ids, boundaries, here.structure), here)


def loss_of(model: Decoder, x_BTD: Tensor, batch: Batch) -> Tensor:
    """Σ nll, through the head, as training takes it."""
    return loss_sums(x_BTD, model.head.weight, batch.target_ids, batch.loss_mask).total


def seconds_of(model: Decoder, work: Callable[[], Tensor]) -> float:
    """Seconds of forward and backward of a loss; gradients are dropped outside the clock."""
    device = model.head.weight.device
    began = now(device)
    with mixed(device):
        loss = work()
    loss.backward()  # type: ignore[no-untyped-call]
    seconds = now(device) - began
    model.zero_grad(set_to_none=True)
    return seconds


def now(device: torch.device) -> float:
    """Seconds of a GPU's clock once it has done its work; CPU seconds, which others' load leaves alone."""
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def _of_job(job: Job, workspace: Path, device: torch.device) -> MaskingCost:
    """Measure with an untrained model of the job's sizes."""
    model = new_train_state(job, device).model
    rows = PlannedRows.of(job, workspace)
    steps = itertools.islice(steps_of(job, rows, first_step=0, workers=0), STEPS)
    cost = masking_cost(model, itertools.chain.from_iterable(steps))
    if device.type == "cuda":
        # What this took is no part of what training takes.
        del model
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    return cost
