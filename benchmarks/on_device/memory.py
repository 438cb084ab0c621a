"""Peak memory and speed of whole training steps, with and without recomputation."""

import functools
import itertools
import resource
import statistics
import time
from collections.abc import Iterator

import torch

from benchmarks.on_device.jobs import job_of, step
from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.masking import RowKind, build_on_rows, work_of
from benchmarks.on_device.models import model_of
from benchmarks.on_device.schedule import Measurement, Outcome
from benchmarks.on_device.setting import Setting
from curriculum.train.batch import Batch
from curriculum.train.masking_cost import now
from curriculum.train.metrics import mfu, peak_of, step_flops
from curriculum.train.optimizer import new_train_state

SECTION = "memory"
WARM_UP = 2
"""Steps that aren't measured. From the second step on, Adam's moments take memory."""


def measurements(setting: Setting) -> Iterator[Measurement]:
    """Yield a measurement for every row length and model, first without recomputation, then with it."""
    for number, (length, model) in enumerate(itertools.product(setting.lengths, setting.models)):
        for recompute in (False, True):
            wave = 1 if number == 0 and not recompute else 2
            name = f"{model}, recompute {'on' if recompute else 'off'}"
            kind = RowKind(length=length, mean=setting.means[0])
            yield Measurement(
                wave=wave,
                line=ResultLine(
                    section=SECTION, subject=name, row_length=length, documents=str(kind)
                ),
                weight=1 + length / 16384,
                work=functools.partial(_measure, setting, model, kind, recompute),
                build=functools.partial(
                    build_on_rows, setting, setting.spec(model), setting.backend, kind
                ),
            )


def _measure(setting: Setting, model: str, kind: RowKind, recompute: bool, share: float) -> Outcome:
    ends = time.monotonic() + share
    # Otherwise, the model of the previous measurement would count as memory of this measurement.
    model_of.cache_clear()
    device = setting.device
    job = job_of(setting, setting.spec(model), kind.length, recompute=recompute)
    train_state = new_train_state(job, device)
    seconds: list[float] = []
    batch = _batch(setting, kind, 0)
    for number in range(1, WARM_UP + 1):
        step(train_state, [batch], job, number)
    if setting.on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    while len(seconds) < setting.min_rounds or (
        len(seconds) < setting.max_rounds and time.monotonic() < ends
    ):
        number = WARM_UP + len(seconds) + 1
        batch = _batch(setting, kind, number)
        began = now(device)
        step(train_state, [batch], job, number)
        seconds.append(now(device) - began)
    median = statistics.median(seconds)
    flops = step_flops(job.model, work_of(batch))
    share_of_peak = mfu(flops, median, peak_of(device))
    figures = (*_peaks(device), Figure(name="tokens/s", value=batch.valid_tokens / median))
    if share_of_peak is not None:
        figures += (Figure(name="MFU masked, whole step", value=share_of_peak),)
    return Outcome(figures=(*figures, Figure(name="rounds", value=len(seconds))))


def _batch(setting: Setting, kind: RowKind, seed: int) -> Batch:
    batch = kind.batch(setting, seed)
    return batch.pin_memory() if setting.on_gpu else batch


def _peaks(device: torch.device) -> tuple[Figure, ...]:
    """Return the peak memory of the steps on a GPU, or of the whole process on a CPU."""
    if device.type != "cuda":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        return (Figure(name="process peak GiB", value=peak),)
    return (
        Figure(name="peak allocated GiB", value=torch.cuda.max_memory_allocated(device) / 2**30),
        Figure(name="peak reserved GiB", value=torch.cuda.max_memory_reserved(device) / 2**30),
    )
