"""The proof of a job as it will train: its model, loader, row lengths, precision and recomputation."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import torch

from curriculum.leakcheck.decoders import check_decoder, small_model
from curriculum.leakcheck.job_rows import planned_rows
from curriculum.leakcheck.job_sizes import SHORT_ROW, Sizes, muted_layouts, step_layouts
from curriculum.leakcheck.proof import environment
from curriculum.leakcheck.prove_step import drawn_rows, subject_of_step
from curriculum.leakcheck.rows import Document, Rows
from curriculum.leakcheck.step import Setting
from curriculum.leakcheck.step_claims import step_findings
from schemas.job import Job
from schemas.leak import Finding, LeakReport
from schemas.progress import Progress, ProgressCallback, ignore_progress

REAL_ROWS = 2
"""Rows of the plan in a step of short rows; of long rows there is one."""


def prove_job(
    job: Job, workspace: Path, device: torch.device, watch: ProgressCallback = ignore_progress
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
        uncovered=tuple(_uncovered(job)),
        environment=environment(device),
    )


def _of_steps(
    job: Job, workspace: Path, device: torch.device, row_length: int, watch: ProgressCallback
) -> Iterator[Finding]:
    small = small_model(job.model)
    setting = Setting(
        model=small,
        backend=job.backend,
        recompute=job.recompute,
        dtype=torch.float32,
        device=device,
        row_length=row_length,
        rope_base=job.rope_base,
        optimizer=job.optimizer,
        carries_on=job.start_from is not None,
        seed=job.seed,
    )
    sizes = Sizes.of(small, row_length)
    count = REAL_ROWS if row_length <= SHORT_ROW else 1
    like = drawn_rows(small, row_length, [(row_length,)])
    real = planned_rows(job, workspace, like, count)
    rows, muted = (
        _beside(drawn_rows(small, row_length, layouts), real)
        for layouts in (step_layouts(sizes), muted_layouts(sizes))
    )
    again = dataclasses.replace(muted, rows=(*muted.rows, *muted.changed(_all, seed=20).rows))
    yield from step_findings(subject_of_step(setting, rows, again), watch)


def _beside(rows: Rows, real: tuple[tuple[Document, ...], ...]) -> Rows:
    """Rows of the plan among the adversarial ones, so that micro-batches hold both."""
    found = list(rows.rows)
    for at, row in enumerate(real):
        found.insert(at * (len(found) + 1) // len(real) + 1, row)
    return dataclasses.replace(rows, rows=tuple(found))


def _all(row: int, document: int) -> bool:
    return True


def expected(job: Job, row_length: int) -> str:
    """The row length, and where its proof takes longer than a minute on a CPU, about how long."""
    words, attends = f"T={row_length}", "A" in job.model.blocks
    # Biases of structure take the square of a row, at some cost for each pair.
    long = LONG // 2 if job.model.structure and attends else LONG
    if job.device == "cuda" or row_length <= long:
        return words
    minutes = (row_length / long) ** (2 if attends else 1)
    return f"{words}, about {max(round(minutes), 1)} minutes"


LONG = 16_384
"""Rows up to so many tokens are proven within a minute of a CPU."""


def _uncovered(job: Job) -> Iterator[str]:
    if job.processes > 1:
        yield f"{job.processes} processes that share the model: one computed its step alone"
    if job.workers:
        yield f"{job.workers} processes that load rows: the proof loaded them itself"
