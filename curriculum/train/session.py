"""One job from its file to its report, in the processes that train it."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import torch

from curriculum.leakcheck import check_decoder
from curriculum.store import Store
from curriculum.train.directory import REPORT, claimed, read_job
from curriculum.train.disk import write_text
from curriculum.train.distributed import Place, Ranks, joined
from curriculum.train.exits import failure_of
from curriculum.train.loop import train_loop
from curriculum.train.masking_cost import measured_once
from curriculum.train.memory import enough_memory
from curriculum.train.metrics import say
from curriculum.train.precision import prepare
from curriculum.train.report import report_of, write_end
from curriculum.train.require import require_fitting
from curriculum.train.writers import require_installed
from schemas.errors import CurriculumError, JobError
from schemas.job import Job, Report


def run_job(path: Path, stop: Callable[[], bool], place: Place) -> Report:
    """Train the job in a file until it ends or `stop` says so, and leave report.json beside it.

    Every rank comes here, and rank 0 owns the directory.

    Raises:
        CurriculumError: what ended it; the report then says failed, and why.
    """
    job = read_job(path)
    with joined(place, job.device) as ranks, ExitStack() as stack:
        store = Store.containing(path)
        directory = path.absolute().parent
        ranks.from_first(lambda: stack.enter_context(claimed(store, job, directory)))
        report = _trained(job, store, directory, stop, place, ranks)
    say(f"{report.stopped}: {report.reason}")
    return report


def _trained(
    job: Job,
    store: Store,
    directory: Path,
    stop: Callable[[], bool],
    place: Place,
    ranks: Ranks,
) -> Report:
    try:
        with enough_memory(job, f"phase {job.phase}"):
            device = prepare(job, place.local)
            require_installed(job.writers)
            ranks.from_first(lambda: require_fitting(job, store.root))
            leakcheck = ranks.from_first(lambda: _leakcheck(job, device))
            cost = ranks.from_first(lambda: measured_once(job, store.root, directory, device))
            outcome = train_loop(job, store.root, directory, device, stop, ranks)
    except CurriculumError as failed:
        # Whichever rank it happens to says so: the others may only notice that it is gone.
        write_end(
            job,
            store.root,
            directory,
            "failed",
            str(failed),
            failure=failure_of(type(failed)),
            devices=ranks.size,
        )
        raise
    report = report_of(
        job,
        store.root,
        directory,
        outcome,
        devices=ranks.size,
        leakcheck=leakcheck,
        masking_cost=cost,
    )
    ranks.from_first(lambda: _write(directory, report))
    return report


def _leakcheck(job: Job, device: torch.device) -> Literal["passed", "not run"]:
    if "leakcheck" not in job.require:
        return "not run"
    found = check_decoder(job.model, job.backend, device=device)
    say(found.table())
    if not found.passed:
        raise JobError(
            "leakcheck",
            f"{len(found.failures)} claims fail",
            cause="documents of a row influence one another",
            cure="Read the table above; don't train on this backend",
        )
    return "passed"


def _write(directory: Path, report: Report) -> None:
    write_text(directory / REPORT, report.model_dump_json(indent=1))
