"""Command of another trainer: start the command, stop it, and check the files that it writes."""

import ctypes
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from curriculum.store import Store
from curriculum.train.processes import CANCELLED, failure_of, kind_of, signal_with_parent
from curriculum.train.run_directory import claim_directory, read_job
from curriculum.train.validate import require_fitting, require_shared_rows
from schemas.diet import JOB_FIELD
from schemas.errors import CurriculumError, JobError
from schemas.job import Failure, Job, Report, Stopped
from schemas.visible import visible

GRACE_SECONDS = 10.0
"""Seconds that the command gets to end after the signal.

Then the command and all its processes are killed.
"""
_POLL_SECONDS = 0.05
_PR_SET_CHILD_SUBREAPER = 36


TRAINER = "--trainer"
"""Option of `python -m curriculum.train` that allows a job's command to run."""


def require_permitted(job: Job, path: Path, permitted: str | None) -> None:
    """Raise unless a job names no command, or exactly the permitted one.

    Anybody may have written job.json. Therefore, a command in it isn't run without permission.

    Raises:
        JobError: for any other command.
    """
    if job.trainer is not None and job.trainer != permitted:
        raise JobError(
            str(path),
            f"trainer = {job.trainer!r}",
            cause="a command in job.json runs only if it is permitted explicitly"
            if permitted is None
            else f"only the command {permitted!r} is permitted",
            cure="Train the job by `curriculum train` with its diet, or permit exactly this command: "
            f"python -m curriculum.train {shlex.quote(str(path))} {TRAINER} COMMAND",
        )


def run_command(path: Path, permitted: str, asked_to_stop: Callable[[], bool]) -> int:
    """Run the command of the job in a file until it ends. Return 0, or 75 if it was asked to stop.

    A requested stop is forwarded as SIGTERM. All processes that the command started are ended after it.

    Raises:
        JobError: if the command can't be started, ends with another code, or leaves an incomplete run. The
            error's type depends on the exit code. The report then says `failed`, with the reason.
    """
    job = read_job(path)
    assert job.trainer is not None
    store, directory = Store.containing(path), path.absolute().parent
    require_permitted(job, path, permitted)
    with claim_directory(store, job, directory):
        try:
            require_shared_rows(job, job.processes)
            require_fitting(job, store.root)
            code = _ended(words_of(permitted, path), asked_to_stop)
            if code == CANCELLED or (code != 0 and asked_to_stop()):
                _report(job, directory, "cancelled", "asked to stop")
                return CANCELLED
            if code != 0:
                raise kind_of(code)(
                    permitted,
                    f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}",
                    cause="the trainer failed",
                    cure="Read the last lines of its output, fix the cause, and run the same command again",
                )
            report = _whole_run(job, store.root, directory)
        except CurriculumError as failed:
            _report(job, directory, "failed", str(failed), failure_of(type(failed)))
            raise
    _log(f"{report.stopped}: {report.reason}")
    return 0


def words_of(command: str, job: Path) -> list[str]:
    """Split a command into words, with the path of the job in place of {job}.

    `python my_train.py {job}` -> [python] [my_train.py] [/…/job.json].
    """
    return [word.replace(JOB_FIELD, str(job.absolute())) for word in shlex.split(command)]


def _ended(words: list[str], asked_to_stop: Callable[[], bool]) -> int:
    """Run a command and return its exit code. A negative code is a signal."""
    if sys.platform == "linux":
        # Become the parent of orphans, so that they can be ended: torchrun starts sessions of its own.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _log(f"starting {shlex.join(words)}")
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, preexec_fn=signal_with_parent(), close_fds=False
        )
    except OSError as failed:
        raise JobError(
            words[0],
            failed.strerror,
            cause="the trainer's command can't be started",
            cure="Give a program on the PATH, or a path relative to the current folder",
        ) from failed
    try:
        return _waited(process, asked_to_stop)
    finally:
        process.kill()
        process.wait()
        _end_orphans()


def _waited(process: "subprocess.Popen[bytes]", asked_to_stop: Callable[[], bool]) -> int:
    signalled_at = 0.0
    while process.poll() is None:
        if asked_to_stop() and not signalled_at:
            signalled_at = time.monotonic()
            process.terminate()
        if signalled_at and time.monotonic() - signalled_at > GRACE_SECONDS:
            process.kill()
        time.sleep(_POLL_SECONDS)
    return int(process.returncode)


def _end_orphans() -> None:
    """Kill the processes that the command left running.

    When a process is killed, its children become children of this process and are killed next.
    """
    while children := _children():
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _children() -> list[int]:
    me = os.getpid()
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == me:
            found.append(int(stat.parent.name))
    return found


# The imports below load torch, which takes seconds and memory that the running command may need.


def _whole_run(job: Job, workspace: Path, directory: Path) -> Report:
    from curriculum.train.external_results import require_whole_run

    return require_whole_run(job, workspace, directory)


def _report(
    job: Job, directory: Path, stopped: Stopped, reason: str, failure: Failure | None = None
) -> None:
    from curriculum.train.report import write_end

    workspace = Store.containing(directory).root
    write_end(job, workspace, directory, stopped, reason, failure=failure)


def _log(line: str) -> None:
    sys.stdout.write(f"{visible(line)}\n")
    sys.stdout.flush()
