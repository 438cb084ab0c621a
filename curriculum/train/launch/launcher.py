"""A job as a separate process: start it, follow its log and heartbeat, end it, interpret its exit code."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from curriculum.store import Store, inside
from curriculum.train.external_command import TRAINER, require_permitted
from curriculum.train.launch import slurm
from curriculum.train.launch.gpu_slots import Slot, Slots
from curriculum.train.launch.log_follower import LogFollower
from curriculum.train.processes import (
    CANCELLED,
    KILLED,
    MARK,
    MEMORY,
    NOT_FINITE,
    end_all,
    failure_of,
    job_environment,
    kind_of,
    processes_of,
    words_of,
)
from curriculum.train.run_directory import (
    CHECKPOINTS,
    HEARTBEAT,
    JOB,
    LEAKCHECK,
    LOG,
    REPORT,
    read_job,
    read_report,
    require_unclaimed,
)
from schemas.errors import JobError
from schemas.job import Job, Report
from schemas.progress import Progress, ProgressCallback, ignore_message, ignore_progress

GRACE_SECONDS = 10.0
"""Seconds that a job gets to finish its step and save a checkpoint.

Then all of its processes are killed, and the previous checkpoint is the last one.
"""
POLL_SECONDS = 0.2
COMMAND = (sys.executable, "-P", "-m", "curriculum.train")
_LOG_LINES = 12
_CURES = {
    NOT_FINITE: "The last line of the log names the rows and what to do",
    MEMORY: "Try --recompute, more --processes, a smaller --model or a shorter --row-length",
    KILLED: "The same command {again}. If nobody killed the process, the machine's memory was full: see "
    "dmesg",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """Place where a job runs, and callbacks that follow its progress."""

    slots: Slots | None = None
    """Slots, one of which the job needs and waits for. None starts the job without waiting."""
    watch: ProgressCallback = ignore_progress
    """Callback that gets the number of finished steps."""
    tell: Callable[[str], None] = ignore_message
    """Callback that gets new lines of train.log."""
    stalled: Callable[[str], None] = ignore_message
    """Callback that gets a message if no step was finished for long.

    It is called again only after another step.
    """
    sbatch: slurm.SbatchTemplate | None = None
    """Script that submits the job to Slurm, which has its own queue."""
    trainer: str | None = None
    """Permitted command of another trainer, taken from the diet.

    A command in job.json isn't permitted by itself.
    """


def launch_job(store: Store, path: Path, how: Launch) -> Report:
    """Train the job in a file, in processes of a new session.

    Their output goes to train.log next to the file. Processes that a killed launcher left behind are ended
    first. If this process is interrupted, the job finishes its step with a checkpoint, and the interrupt is
    raised again.

    Raises:
        JobKilledError: if the job's process was killed.
        JobMemoryError, NotFiniteError: if the exit code says so.
        JobError: for any other exit code than 0 and 75 (cancelled), with the last lines of the log; if
            another process trains the run; and if the job names a command that isn't permitted.
    """
    job, directory = read_job(path), path.absolute().parent
    require_permitted(job, path, how.trainer)
    follower = LogFollower(job, directory, how.watch, how.tell, how.stalled)
    if how.sbatch is not None:
        return outcome(job, directory, _through_slurm(store, job, directory, how, follower))
    _end_orphans(directory, how.tell)
    _begin(store, job, directory)
    with _slot(job, directory, how) as slot:
        code = _ended(directory, slot, follower, _permission(how))
    return outcome(job, directory, code)


def _begin(store: Store, job: Job, directory: Path) -> None:
    """Check that no other process trains the run, and remove files that record an earlier end."""
    require_unclaimed(store, job, directory)
    for stale in (REPORT, HEARTBEAT, slurm.EXIT):
        (directory / stale).unlink(missing_ok=True)


def _through_slurm(
    store: Store, job: Job, directory: Path, how: Launch, follower: LogFollower
) -> int:
    assert how.sbatch is not None
    handed = slurm.find_submitted(directory)
    if handed is not None and not handed.is_active():
        if (code := handed.code(handed.state())) == 0:
            handed.forget()
            return code
        handed = None
    if handed is None:
        _begin(store, job, directory)
        command = [*COMMAND, str(directory / JOB), *_permission(how)]
        handed = slurm.submit_job(job, directory, how.sbatch, command)
    code = slurm.follow_job(handed, follower.look, wait_reporter(job, how))
    follower.look()
    handed.forget()
    return code


def outcome(job: Job, directory: Path, code: int) -> Report:
    """Return the report of a job that ended with exit code `code`.

    Raises:
        JobError: of the type that belongs to the code, unless it is 0 or 75.
    """
    kind, ended = kind_of(code), words_of(code)
    if not (directory / REPORT).is_file():
        # Imported late, because torch takes seconds to import, and a job that succeeds writes its own report.
        from curriculum.train.report import write_end

        workspace, why = Store.containing(directory).root, failure_of(kind)
        if code == CANCELLED:
            write_end(job, workspace, directory, "cancelled", "asked to stop")
        else:
            write_end(job, workspace, directory, "failed", f"ended by {ended}", failure=why)
    if code in (0, CANCELLED) and (report := read_report(directory)).stopped != "failed":
        return report
    raise kind(
        str(directory),
        ended,
        cause="training failed, and its log ends with the lines below",
        cure=_remedy(job, directory, KILLED if code < 0 else code),
        lines=_last_lines(directory / LOG),
    )


def _remedy(job: Job, directory: Path, code: int) -> str:
    """Return the hint for a failed training. After a leak, the same command would fail again."""
    # Imported late, because the module imports torch.
    from curriculum.train.required_proof import is_refuted

    if is_refuted(directory):
        return (
            f"Run curriculum leakcheck --model {job.model.name} to see which claims fail. Another backend "
            "may pass, such as backend: math in the diet. If the model is one of the package's presets, "
            f"please report the failure with {directory / LEAKCHECK}"
        )
    is_saved = any((directory / CHECKPOINTS).glob("step=*"))
    again = (
        "resumes from the last checkpoint"
        if is_saved
        else "starts at step 0, because no checkpoint was saved"
    )
    return _CURES.get(code, "Fix the cause and run the same command, which {again}").format(
        again=again
    )


@contextlib.contextmanager
def _slot(job: Job, directory: Path, how: Launch) -> Iterator[Slot | None]:
    if how.slots is None:
        yield None
        return

    with how.slots.hold(str(directory.resolve()), wait_reporter(job, how)) as slot:
        yield slot


def wait_reporter(job: Job, how: Launch) -> Callable[[str], None]:
    """Return a function that reports why a job waits: as a log line, and as a note in the progress."""

    def log_wait(words: str) -> None:
        how.tell(words)
        waits = Progress(
            stage="train", item=job.phase, done=0, total=job.steps, unit="steps", note=words
        )
        how.watch(waits)

    return log_wait


def _permission(how: Launch) -> list[str]:
    return [] if how.trainer is None else [TRAINER, how.trainer]


def _ended(directory: Path, slot: Slot | None, follower: LogFollower, permission: list[str]) -> int:
    """Run the job's process and return its exit code. A negative code is a signal."""
    command = [*COMMAND, str(directory / JOB), "--parent", str(os.getpid()), *permission]
    if slot is not None:
        command += ["--slot", f"{slot.number}/{slot.of}"]
    with os.fdopen(inside.append(directory / LOG), "ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**job_environment(), MARK: str(directory.resolve())},
            pass_fds=() if slot is None else (slot.lock,),
        )
    try:
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
            follower.look()
    finally:
        _end(process, directory)
    follower.look()
    return process.returncode


def _end(process: "subprocess.Popen[bytes]", directory: Path) -> None:
    """Let a process finish its step, then end everything that it started."""
    grace = GRACE_SECONDS
    try:
        if process.poll() is None:
            process.terminate()
            process.wait(grace)
            grace = 0.0
    except subprocess.TimeoutExpired:
        grace = 0.0
    except BaseException:
        # A second interrupt ends the processes at once.
        _kill(process, directory)
        raise
    _kill(process, directory, grace if process.returncode else 0.0)


def _kill(process: "subprocess.Popen[bytes]", directory: Path, grace: float = 0.0) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    end_all(directory, grace)


def _end_orphans(directory: Path, say: Callable[[str], None]) -> None:
    """End processes that an earlier launcher left behind. They got a signal when it died."""
    if not (left := processes_of(directory)):
        return
    listed = ", ".join(map(str, left))
    say(f"waiting for processes {listed} to end, which an earlier launcher left behind")
    if left := end_all(directory, GRACE_SECONDS):
        raise JobError(
            str(directory),
            f"process {left[0]}",
            cause="an earlier launcher left this process behind; it still trains the run and can't be killed",
            cure="Find out what it waits for (a disk, a GPU), or restart the machine",
        )


def _last_lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
