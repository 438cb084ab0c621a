"""A training job from its file to its report, as each of its processes runs it.

run_job prepares the device and checks the job. Trainer.train (trainer.py) is the training loop. write_end and
report_of (report.py) produce report.json.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from curriculum.store import Store
from curriculum.train import checkpoint
from curriculum.train.checkpoint import CheckpointState
from curriculum.train.device import enough_memory, prepare, with_backend
from curriculum.train.distributed import FLAG, ProcessRank, Ranks, join_ranks
from curriculum.train.masking_cost import COST, measure_once
from curriculum.train.metric_writers import require_installed
from curriculum.train.metrics import log
from curriculum.train.processes import failure_of
from curriculum.train.report import HeartbeatWriter, record_kernel, report_of, write_end
from curriculum.train.required_proof import run_leakcheck
from curriculum.train.run_directory import REPORT, claim_directory, read_job, read_report
from curriculum.train.trainer import Trainer
from curriculum.train.validate import require_fitting, require_shared_rows
from curriculum.whole_files import write_whole
from schemas.errors import CurriculumError
from schemas.job import Job, Report


def run_job(path: Path, stop: Callable[[], bool], place: ProcessRank) -> Report:
    """Train the job in a file until it ends or `stop` returns True, and write report.json next to it.

    Every rank calls this function. Only rank 0 owns the run's directory.

    Raises:
        CurriculumError: the error that ended the job; the report then says `failed`, with the reason.
    """
    job = read_job(path)
    with join_ranks(place, job.device, job.context_parallel) as ranks, ExitStack() as stack:
        store = Store.containing(path)
        directory = path.absolute().parent
        ranks.run_on_first(lambda: stack.enter_context(claim_directory(store, job, directory)))
        report = _trained(job, store, path.absolute(), stop, place, ranks)
    log(f"{report.stopped}: {report.reason}")
    return report


def _trained(
    job: Job, store: Store, path: Path, stop: Callable[[], bool], place: ProcessRank, ranks: Ranks
) -> Report:
    directory = path.parent
    try:
        with enough_memory(job, f"phase {job.phase}"):
            require_shared_rows(job, ranks.size)
            device = prepare(job, place.local)
            job = with_backend(job, device)
            ranks.run_on_first(lambda: record_kernel(directory, job))
            require_installed(job.writers)
            ranks.run_on_first(lambda: require_fitting(job, store.root))
            required = "leakcheck" in job.require
            if required and ranks.leads:
                resumed = CheckpointState(step=checkpoint.newest_step(directory / "checkpoints"))
                HeartbeatWriter(job, directory).beat(resumed, "leakcheck")
            if required and not ranks.broadcast_first(lambda: run_leakcheck(path, stop), FLAG):
                return _stopped(job, store, directory, ranks)
            cost = ranks.broadcast_first(
                partial(measure_once, job, store.root, directory, device), COST
            )
            trainer = Trainer(job, store.root, directory, device, stop, ranks)
            outcome = trainer.train()
    except CurriculumError as failed:
        # Any rank may write the report, because the other ranks may only notice that this rank is gone.
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
    ranks.run_on_first(lambda: write_whole(directory / REPORT, report.model_dump_json(indent=1)))
    return report


def _stopped(job: Job, store: Store, directory: Path, ranks: Ranks) -> Report:
    """Write the report of a run that was stopped before its first step, during its leakcheck."""
    reason = "stopped during leakcheck"
    ranks.run_on_first(
        lambda: write_end(job, store.root, directory, "cancelled", reason, devices=ranks.size)
    )
    return read_report(directory)
