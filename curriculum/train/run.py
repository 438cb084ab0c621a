"""The parent's side: open or continue a run, start its process, publish what it leaves."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from curriculum.store import Artefact, Store
from curriculum.train.directory import JOB, LOG, read_job, read_report
from curriculum.train.disk import write_text
from curriculum.train.exits import CANCELLED
from curriculum.train.recipe import attempts, finished, run_recipe
from schemas.errors import JobError
from schemas.job import Job, Report

GRACE_SECONDS = 12.0
"""For the step in progress and its checkpoint; then the process group is killed, and the last
checkpoint before it is what stays."""
_LOG_LINES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run: its directory, what it reports, and its artefact once it is finished."""

    directory: Path
    report: Report
    artefact: Artefact | None
    """None while it can go on: it was cancelled."""


def train(store: Store, job: Job, *, again: bool = False) -> Run:
    """The finished run of a job: found, or continued, or made.

    `again` asks for a new attempt where a finished one stands; an open attempt is always continued,
    with the job that was frozen in it.

    Raises:
        JobError: where the training process failed, with the end of its log.
    """
    folder = store.place(run_recipe(job))
    there = finished(store, job)
    newest = attempts(folder)[-1:]
    is_closed = there is not None and newest == [there.path]
    if there is not None and is_closed and not again:
        return Run(directory=there.path, report=read_report(there.path), artefact=there)
    number = len(attempts(folder)) + (not newest or is_closed)
    directory = folder / f"attempt={number}"
    frozen = freeze(directory, job.model_copy(update={"attempt": number}))
    report = launch(directory / JOB)
    if report.stopped == "cancelled":
        return Run(directory=directory, report=report, artefact=None)
    last = (store.root / report.checkpoint).relative_to(directory).as_posix()
    artefact = store.publish_run(
        directory, run_recipe(frozen), report.model_dump(mode="json"), content=f"{last}/"
    )
    return Run(directory=directory, report=report, artefact=artefact)


def launch(job: Path) -> Report:
    """Train in a process of its own, in a group of its own; its output goes to train.log beside the job.

    It starts as many more as the job has processes. An interrupt lets the step in progress end in a
    checkpoint, and is raised again.

    Raises:
        JobError: for any exit but 0 and 75 (cancelled), with the last lines of the log.
    """
    command = [sys.executable, "-m", "curriculum.train", str(job), "--parent", str(os.getpid())]
    with (job.parent / LOG).open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait()
        finally:
            _end(process)
    if code not in (0, CANCELLED):
        raise JobError(
            str(job),
            f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}",
            cause=f"training ended with:\n{_last_lines(job.parent / LOG)}\n",
            cure="Mend the cause and give the same command: it goes on from the last checkpoint",
        )
    return read_report(job.parent)


def freeze(directory: Path, job: Job) -> Job:
    """Write job.json into a run's directory; where one stands already, it is what counts.

    But for what another machine may need otherwise: the numbers of processes and of workers,
    recomputation, writers, the price of its GPUs.
    """
    file = directory / JOB
    there = read_job(file) if file.is_file() else job
    frozen = there.model_copy(
        update={
            "processes": job.processes,
            "workers": job.workers,
            "recompute": job.recompute or there.recompute,
            "writers": job.writers,
            "gpu_price": job.gpu_price,
        }
    )
    if not file.is_file() or frozen != there:
        directory.mkdir(parents=True, exist_ok=True)
        write_text(file, frozen.model_dump_json(indent=1))
    return read_job(file)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Let a process that still runs finish its step; kill what is left of its group."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
