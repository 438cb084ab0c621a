"""One job from its file to its report, in the processes that train it."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from curriculum.store import Store
from curriculum.train.directory import REPORT, claimed, read_job, read_report
from curriculum.train.disk import write_text
from curriculum.train.distributed import Place, Ranks, joined
from curriculum.train.exits import failure_of
from curriculum.train.loop import train_loop
from curriculum.train.masking_cost import measured_once
from curriculum.train.memory import enough_memory
from curriculum.train.metrics import say
from curriculum.train.precision import prepare
from curriculum.train.proof import proven
from curriculum.train.report import report_of, write_end
from curriculum.train.require import require_fitting
from curriculum.train.writers import require_installed
from schemas.errors import CurriculumError
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
        report = _trained(job, store, path.absolute(), stop, place, ranks)
    say(f"{report.stopped}: {report.reason}")
    return report


def _trained(
    job: Job,
    store: Store,
    path: Path,
    stop: Callable[[], bool],
    place: Place,
    ranks: Ranks,
) -> Report:
    directory = path.parent
    try:
        with enough_memory(job, f"phase {job.phase}"):
            device = prepare(job, place.local)
            require_installed(job.writers)
            ranks.from_first(lambda: require_fitting(job, store.root))
            required = "leakcheck" in job.require
            if required and not ranks.from_first(lambda: proven(path, stop)):
                return _stopped(job, store, directory, ranks)
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
        leakcheck="passed" if required else "not run",
        masking_cost=cost,
    )
    ranks.from_first(lambda: _write(directory, report))
    return report


def _stopped(job: Job, store: Store, directory: Path, ranks: Ranks) -> Report:
    """The report of a run that was asked to stop before its proof ended: not a step was trained."""
    reason = "stopped during leakcheck"
    ranks.from_first(
        lambda: write_end(job, store.root, directory, "cancelled", reason, devices=ranks.size)
    )
    return read_report(directory)


def _write(directory: Path, report: Report) -> None:
    write_text(directory / REPORT, report.model_dump_json(indent=1))
