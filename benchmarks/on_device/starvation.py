"""Loader starvation: share of the training time in which steps wait for their rows.

RowWriter writes the rows. The loader of the trainer reads them in the shuffled order of a plan.
"""

import functools
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import loading
from benchmarks.on_device.jobs import ROWS, job_of, step
from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.masking import RowKind, build_on_rows
from benchmarks.on_device.models import model_of
from benchmarks.on_device.schedule import Measurement, Outcome
from benchmarks.on_device.setting import Setting
from curriculum.train.batch import Batch
from curriculum.train.dataloader import PlannedRows, steps_of
from curriculum.train.masking_cost import now
from curriculum.train.optimizer import new_train_state
from schemas.job import Job

SECTION = "loader"
WARM_UP = 2
"""Steps that aren't measured, because workers start and kernels are compiled."""


def measurements(setting: Setting) -> Iterator[Measurement]:
    """Yield a measurement for every number of workers and row length."""
    pairs = itertools.product(setting.workers, setting.lengths)
    for number, (workers, length) in enumerate(pairs):
        name = f"{setting.models[0]}, {workers} workers"
        yield Measurement(
            wave=1 if number == 0 else 2,
            line=ResultLine(section=SECTION, subject=name, row_length=length, documents="mean 300"),
            weight=1 + length / 16384,
            work=functools.partial(_measure, setting, length, workers),
            build=functools.partial(
                build_on_rows,
                setting,
                setting.spec(setting.models[0]),
                setting.backend,
                RowKind(length=length, mean=300),
            ),
        )


def _measure(setting: Setting, length: int, workers: int, share: float) -> Outcome:
    """Write rows, and measure a fixed number of steps over them.

    With too few steps, rows that were loaded in advance would hide a slow loader.
    """
    model_of.cache_clear()
    steps = WARM_UP + setting.steps
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        (workspace / ROWS).mkdir()
        positions = setting.rows(length) * length
        # Packing may yield one row less than expected, so two more steps are written.
        loading.write_data(
            workspace / ROWS,
            (steps + 2) * positions,
            length,
            vocab=setting.vocab,
            micro_positions=positions,
        )
        job = job_of(setting, setting.spec(setting.models[0]), length, workers=workers, steps=steps)
        return _time_steps(setting, job, workspace)


def _time_steps(setting: Setting, job: Job, workspace: Path) -> Outcome:
    train_state = new_train_state(job, setting.device)
    rows = PlannedRows.from_job(job, workspace)
    loaded = steps_of(job, rows, first_step=0, workers=job.workers)
    waited, worked, tokens = 0.0, 0.0, 0
    for number in range(1, job.steps + 1):
        began = time.perf_counter()
        batches: list[Batch] = next(loaded)
        arrived = time.perf_counter()
        step(train_state, batches, job, number)
        now(setting.device)
        done = time.perf_counter()
        if number > WARM_UP:
            waited, worked = waited + arrived - began, worked + done - arrived
            tokens += sum(batch.valid_tokens for batch in batches)
    return Outcome(
        figures=(
            Figure(name="share of time waiting for rows", value=waited / (waited + worked)),
            Figure(name="wait per step ms", value=1000 * waited / setting.steps),
            Figure(name="step ms", value=1000 * worked / setting.steps),
            Figure(name="tokens/s", value=tokens / (waited + worked)),
        )
    )
