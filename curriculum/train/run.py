"""Parent side of a run: open or resume the run, start its process, and publish the result."""

from dataclasses import dataclass
from pathlib import Path

from curriculum.store import Artefact, Store, in_lease
from curriculum.train.launch.launcher import Launch, launch_job, wait_reporter
from curriculum.train.run_directory import (
    JOB,
    attempt_number,
    finished,
    last_number,
    last_ordinal,
    lock_launch,
    read_job,
    read_report,
    resumable,
    run_recipe,
)
from curriculum.whole_files import write_whole
from schemas.cures import set_aside
from schemas.errors import JobError
from schemas.job import Job, Report
from schemas.json_text import now

AT_ONCE = Launch()
"""Launch that doesn't wait for a slot and sends no messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Run with its directory, its report and, once finished, its artefact."""

    directory: Path
    report: Report
    artefact: Artefact | None
    """Artefact of the finished run. None if the run was cancelled and can be resumed."""


@in_lease
def train(store: Store, job: Job, *, again: bool = False, launch: Launch = AT_ONCE) -> Run:
    """Return the finished run of a job. It may exist already, be resumed, or be new.

    If there is a finished attempt, it is returned, even if a later attempt was begun. With `again`, it isn't:
    then the unfinished attempt is resumed with the job in its job.json, or a new attempt begins. Numbers of
    attempts are never reused. If another process trains the run, this process waits. An attempt that finishes
    in the meantime is returned even with `again`.

    Raises:
        JobError: if training failed; the type says how, the message has the end of the log.
    """
    store.use([run_recipe(job)])
    folder = store.path_of(run_recipe(job))
    before = finished(store, job)
    if before is not None and not again:
        return _finished_run(before)
    with lock_launch(store, job, wait_reporter(job, launch)):
        there = finished(store, job)
        if there is not None and (before is None or there.path != before.path):
            return _finished_run(there)
        directory = resumable(folder) or folder / f"attempt={last_number(store, folder) + 1}"
        _require_same(directory, job)
        # The lock keeps ordinals unique within a workspace.
        with store.lock("attempts"):
            own = {"attempt": attempt_number(directory), "ordinal": last_ordinal(store) + 1}
            frozen = freeze(directory, job.model_copy(update=own))
        report = launch_job(store, directory / JOB, launch)
        if report.stopped == "cancelled":
            return Run(directory=directory, report=report, artefact=None)
        last = (store.root / report.checkpoint).relative_to(directory).as_posix()
        artefact = store.publish_run(
            directory, run_recipe(frozen), report.model_dump(mode="json"), content=f"{last}/"
        )
    return Run(directory=directory, report=report, artefact=artefact)


def _finished_run(run: Artefact) -> Run:
    return Run(directory=run.path, report=read_report(run.path), artefact=run)


def _require_same(directory: Path, job: Job) -> None:
    """Raise unless the recipe of job.json has the key of this run.

    Anybody may have written the workspace, so job.json may be another run's.

    Raises:
        JobError: if job.json belongs to another run.
    """
    file = directory / JOB
    if file.is_file() and run_recipe(read_job(file)).key != run_recipe(job).key:
        raise JobError(
            str(file),
            cause="it isn't the job of this run",
            cure=set_aside(directory),
        )


def freeze(directory: Path, job: Job) -> Job:
    """Write job.json with the current time into a run's directory. An existing job.json stays.

    Only fields that depend on the machine are updated in it: device, processes, context_parallel, workers,
    recompute, writers and gpu_price.
    """
    file = directory / JOB
    there = read_job(file) if file.is_file() else job.model_copy(update={"begun": now()})
    frozen = there.model_copy(
        update={
            "device": job.device,
            "processes": job.processes,
            "context_parallel": job.context_parallel,
            "workers": job.workers,
            "recompute": job.recompute or there.recompute,
            "writers": job.writers,
            "gpu_price": job.gpu_price,
        }
    )
    if not file.is_file() or frozen != there:
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(file, frozen.model_dump_json(indent=1))
    return read_job(file)
