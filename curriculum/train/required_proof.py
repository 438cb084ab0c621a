"""Leakcheck that a job requires. It runs in the training process before the first step."""

import importlib
from collections.abc import Callable
from pathlib import Path

from curriculum.train.metrics import log
from curriculum.train.run_directory import LEAKCHECK
from schemas.errors import JobError
from schemas.json_text import read_json
from schemas.leak import LeakReport, ProvenJob
from schemas.progress import Progress, ProgressCallback

PROOF = "curriculum.leakcheck.job_proof"
"""Module with the leakcheck. It is imported late, because it imports this package itself."""


class _StoppedError(Exception):
    """Raised when a stop was requested during the leakcheck."""


def run_leakcheck(path: Path, stop: Callable[[], bool]) -> bool:
    """Run the leakcheck of the job in a file. Return False if `stop` returned True before it was complete.

    The report is written next to the job. `stop` is called after each packing.

    Raises:
        JobError: if a leak was found.
        CurriculumError: if plan or rows can't be read.
    """
    file = path.parent / LEAKCHECK
    file.unlink(missing_ok=True)
    prove: Callable[[Path, Path, ProgressCallback], LeakReport]
    prove = importlib.import_module(PROOF).prove_file

    def watch(progress: Progress) -> None:
        if stop():
            raise _StoppedError
        log(f"leakcheck  {progress.note}: {progress.done} of {progress.total} {progress.unit}")

    try:
        report = prove(path, file, watch)
    except _StoppedError:
        return False
    log(report.table())
    for words in report.uncovered:
        log(f"leakcheck doesn't cover: {words}")
    if not report.passed:
        first = report.failures[0] if report.failures else None
        raise JobError(
            "leakcheck",
            f"{len(report.failures)} claims fail",
            cause=f"documents influence each other: {first.place}{first.claim}: {first.detail}"
            if first is not None
            else "the leakcheck tested nothing",
            cure=f"Read {file}, and don't train with this model, loader and backend",
        )
    log(f"leakcheck  no leak was found; {report.result}")
    return not stop()


def is_refuted(attempt: Path) -> bool:
    """Return True if the last leakcheck of an attempt's job found a leak."""
    file = attempt / LEAKCHECK
    try:
        sealed = read_json(
            ProvenJob, file, error=JobError, cause="it isn't a report", cure="Train the phase again"
        )
    except (OSError, JobError):
        return False
    return not sealed.report.passed
