"""The proof of a job as a file's worth of work: a job.json in, a sealed report out."""

import hashlib
from pathlib import Path

from curriculum.leakcheck.prove_job import prove_job
from curriculum.store import Store
from curriculum.train.device import prepare
from curriculum.train.metrics import log
from curriculum.train.run_directory import read_job, write_text
from curriculum.train.validate import require_fitting
from schemas.errors import JobError
from schemas.leak import LeakReport, ProvenJob
from schemas.progress import Progress, ProgressCallback


def prove_file(path: Path, report: Path) -> bool:
    """Prove the job in a file as it will train, write the report, and return whether no leak was seen.

    Raises:
        CurriculumError: for a job that can't be read, or whose parts don't fit together.
    """
    proven = proven_file(path, _log)
    log(proven.table())
    for words in proven.uncovered:
        log(f"leakcheck  not covered: {words}")
    sealed = ProvenJob(
        job=hashlib.sha256(path.read_bytes()).hexdigest(), result=proven.result, report=proven
    )
    write_text(report, sealed.model_dump_json(indent=1))
    return proven.passed


def proven_file(path: Path, watch: ProgressCallback) -> LeakReport:
    """The report of the job in a file.

    Raises:
        JobError: for a job of another trainer, whose steps only that trainer can prove.
        CurriculumError: for a job that can't be read, or whose parts don't fit together.
    """
    job = read_job(path)
    if job.trainer is not None:
        raise JobError(
            str(path),
            f"trainer = {job.trainer!r}",
            cause="its steps are computed by that command, which leakcheck doesn't examine",
            cure="Let the trainer's own report say that it passed",
        )
    store = Store.containing(path)
    device = prepare(job)
    require_fitting(job, store.root)
    return prove_job(job, store.root, device, watch)


def _log(progress: Progress) -> None:
    log(f"leakcheck  {progress.note}: {progress.done} of {progress.total} {progress.unit}")
