"""The proof of a job as it will train: its model, loader, row lengths, precision and recomputation."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import torch

from curriculum.leakcheck.decoders import check_decoder, small_model
from curriculum.leakcheck.job_rows import planned_rows
from curriculum.leakcheck.job_sizes import SHORT_ROW
from curriculum.leakcheck.proof import environment
from curriculum.leakcheck.prove_step import adversarial_rows, subject_of_step
from curriculum.leakcheck.rows import Rows
from curriculum.leakcheck.step import STEPS, Setting
from curriculum.leakcheck.subject import same_bits
from curriculum.leakcheck.two_claims import step_findings
from schemas.job import Job
from schemas.leak import Finding, LeakReport
from schemas.progress import Progress, Watch, unwatched

REAL_ROWS = 4
"""Rows of the plan in a step of short rows; in one of long rows, one stands in for the random one."""


@same_bits()
def prove_job(
    job: Job, workspace: Path, device: torch.device, watch: Watch = unwatched
) -> LeakReport:
    """The claims about a small model with the layers and sizes of a job, and about its steps.

    Steps read rows of the job's plan beside adversarial ones, of each of its row lengths.

    Raises:
        CurriculumError: where plan and rows can't be read.
    """
    lengths = sorted({rows.row_length for rows in job.rows})
    found = list(check_decoder(job.model, job.backend, device=device).findings)
    for done, row_length in enumerate(lengths):
        watch(
            Progress(stage="leakcheck", item="", done=done, total=len(lengths), unit="row lengths",
                     note=expected(job, row_length))
        )  # fmt: skip
        found += _of_steps(job, workspace, device, row_length, watch)
    return LeakReport(
        findings=tuple(found),
        covered=tuple(
            f"rows of {each} tokens, {job.model.vocab_size} ids, "
            f"{'recomputed blocks' if job.recompute else 'blocks without recomputation'}"
            for each in lengths
        ),
        uncovered=tuple(_uncovered(job, lengths)),
        environment=environment(device),
    )


def _of_steps(
    job: Job, workspace: Path, device: torch.device, row_length: int, watch: Watch
) -> Iterator[Finding]:
    small = small_model(job.model)
    rows = _beside(adversarial_rows(small, row_length), job, workspace)
    setting = Setting(
        model=small,
        backend=job.backend,
        recompute=job.recompute,
        dtype=torch.float32,
        device=device,
        row_length=row_length,
        rows_per_step=len(rows.rows) // STEPS,
        rope_base=job.rope_base,
        optimizer=job.optimizer,
        carries_on=job.start_from is not None,
        seed=job.seed,
    )
    yield from step_findings(subject_of_step(setting, rows), watch)


def _beside(rows: Rows, job: Job, workspace: Path) -> Rows:
    """Rows of the plan among the adversarial ones, so that micro-batches hold both."""
    step = len(rows.rows) // STEPS
    count = REAL_ROWS if rows.row_length <= SHORT_ROW else 1
    kept = step if count > 1 else step - 1
    real = planned_rows(job, workspace, rows, count * STEPS)
    found = []
    for number in range(STEPS):
        ours = list(rows.rows[number * step : number * step + kept])
        theirs = real[number * count : (number + 1) * count]
        for at, row in enumerate(theirs):
            ours.insert(at * (len(ours) + 1) // count + 1, row)
        found += ours
    return dataclasses.replace(rows, rows=tuple(found))


def expected(job: Job, row_length: int) -> str:
    """The row length, and where its proof takes longer than a minute on a CPU, about how long."""
    words = f"T={row_length}"
    if job.device == "cuda" or row_length <= LONG:
        return words
    minutes = (row_length / LONG) ** (2 if "A" in job.model.blocks else 1)
    return f"{words}, about {max(round(minutes), 1)} minutes"


LONG = 16_384
"""Rows up to so many tokens are proven within a minute of a CPU."""


def _uncovered(job: Job, lengths: list[int]) -> Iterator[str]:
    if job.processes > 1:
        yield f"{job.processes} processes that share the model: one computed its step alone"
    if job.workers:
        yield f"{job.workers} processes that load rows: the proof loaded them itself"
    if len(lengths) > 1:
        yield "steps whose micro-batches have different row lengths: each length had steps of its own"
    if job.start_from is not None:
        yield "the weights of the checkpoint: all weights were drawn, none of them 0"
