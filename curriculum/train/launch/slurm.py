"""Jobs that run through Slurm.

They are submitted once, followed through the shared workspace, and cancelled by scancel. Slurm has its
own queue, so that a job needs no slot. sbatch.json in the run's directory names the Slurm job. By this
file, a restarted launcher follows the running job instead of submitting another one.

The template of a job is a user's sbatch script. Its line {command} is replaced by the training command. A
comment in the script gives the number of GPUs per machine, so that sbatch options need not be parsed.
"""

import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.processes import CANCELLED, MEMORY, job_environment
from curriculum.train.run_directory import LOG
from curriculum.whole_files import write_whole
from schemas.errors import JobError
from schemas.job import Job, SlurmJob
from schemas.json_text import read_json
from schemas.visible import one_line

NAME = "$CURRICULUM_SBATCH"
COMMAND_LINE = "{command}"
_FIELD = re.compile(r"^#\s*(gpus|cores):(.*)$", re.MULTILINE)
_EXAMPLES = {"gpus": "# gpus: 4 (0 trains on CPUs)", "cores": "# cores: 32"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SbatchTemplate:
    """sbatch script with a placeholder line for the training command. All counts are per machine."""

    file: Path
    script: str
    gpus: int
    cores: int = 1

    def filled(self, lines: str) -> str:
        """Return the script with the shell lines `lines` instead of the line {command}."""
        written = self.script.splitlines()
        return "\n".join(lines if line.strip() == COMMAND_LINE else line for line in written) + "\n"


def read_template(file: Path) -> SbatchTemplate:
    """Read the template in a file.

    Raises:
        JobError: if the file can't be read, doesn't have exactly one line {command}, lacks the comment `#
            gpus: N`, or has an invalid count.
    """
    try:
        script = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failed:
        raise _refused(
            file, f"the script can't be read: {failed}", "Give the path of an sbatch script"
        ) from None
    if [line.strip() for line in script.splitlines()].count(COMMAND_LINE) != 1:
        cause = f"the script must have exactly one line {COMMAND_LINE}, which starts the training"
        raise _refused(file, cause, f"Write {COMMAND_LINE} on one line of its own")
    counts = {name: _count(file, name, value.strip()) for name, value in _FIELD.findall(script)}
    if "gpus" not in counts:
        cause = "the script has no comment with the number of GPUs per machine"
        raise _refused(file, cause, f"Add {_EXAMPLES['gpus']}")
    return SbatchTemplate(file=file, script=script, **counts)


def _count(file: Path, name: str, value: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", value):
        raise _refused(
            f"{file}: # {name}: {value}", "the value isn't a count", f"Write {_EXAMPLES[name]}"
        )
    return int(value)


def _refused(value: object, cause: str, cure: str) -> JobError:
    return JobError(NAME, str(value), cause=cause, cure=cure)


SUBMITTED, EXIT = "sbatch.json", "sbatch.exit"
POLL_SECONDS = 5.0
"""Seconds between two calls of squeue. They are many, since its server may manage thousands of jobs."""
GRACE_SECONDS = 10.0
ANSWER_SECONDS = 120.0
"""Time limit of a call of one of Slurm's programs, which wait for its server."""
SECONDS_TO_APPEAR = 30.0
"""Seconds that a file may take to appear here after another machine wrote it."""
_ENDED = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
}
_KILLED, _TERMINATED = -9, -15
# The shell gets a signal two minutes before the time limit and forwards it to the trainer, which then saves a
# checkpoint. A signal received while the trainer starts is forwarded afterwards. `wait` returns early when
# a signal arrives, so it is called until the trainer has ended. A template may have `set -eu` before these
# lines.
_LINES = """told= pid=
trap 'told=1; kill -TERM $pid 2>/dev/null || :' TERM INT
{command} &
pid=$!
if [ -n "$told" ]; then kill -TERM $pid || :; fi
code=0
wait $pid || code=$?
while kill -0 $pid 2>/dev/null; do code=0; wait $pid || code=$?; done
echo $code > {exit}.draft && mv {exit}.draft {exit}
(exit $code)"""


class SlurmHandle:
    """Job submitted to Slurm."""

    def __init__(self, number: str, directory: Path) -> None:
        self.number, self.directory = number, directory

    def state(self) -> str | None:
        """Return the state that squeue shows (PENDING, RUNNING …), or None if squeue doesn't know the job.

        Raises:
            ConnectionError: if squeue doesn't answer.
        """
        words = ["squeue", "--noheader", "--jobs", self.number, "--states", "all", "--format", "%T"]
        done = _run(words)
        if done.returncode == 0:
            return done.stdout.strip() or None
        if "Invalid job id" in done.stderr:
            return None
        raise ConnectionError(one_line(done.stderr.strip()))

    def is_active(self) -> bool:
        """Return True if the job waits or runs. Return True also if Slurm doesn't answer."""
        try:
            return self.state() not in {None, *_ENDED}
        except ConnectionError:
            return True

    def end(self) -> None:
        """Cancel the job, and wait some time for its checkpoint. Slurm kills a job that doesn't end."""
        if _run(["scancel", self.number]).returncode != 0:
            return  # The job still runs; the next launcher follows it.
        until = time.monotonic() + GRACE_SECONDS
        while self.is_active() and time.monotonic() < until:
            time.sleep(min(POLL_SECONDS, 1.0))
        self.forget()

    def forget(self) -> None:
        """Remove the files about the job. Then the next launcher submits it again."""
        (self.directory / SUBMITTED).unlink(missing_ok=True)
        (self.directory / EXIT).unlink(missing_ok=True)

    def code(self, state: str | None) -> int:
        """Return the exit code of a job that has ended, negative for a signal.

        It is 75 only for a cancelled job.
        """
        until = time.monotonic() + SECONDS_TO_APPEAR
        while not (file := self.directory / EXIT).is_file() and time.monotonic() < until:
            if state not in (None, "COMPLETED", "FAILED"):
                break
            time.sleep(POLL_SECONDS / 10)
        code = _exit_code(file) if file.is_file() else None
        if state == "CANCELLED":
            return CANCELLED if code is None else code
        if state == "OUT_OF_MEMORY":
            return MEMORY
        if code is None:
            return _KILLED
        if code == CANCELLED:
            return _TERMINATED  # Nobody cancelled the job, so its time limit was reached; it can resume.
        # A shell adds 128 to the number of a signal.
        return 128 - code if 128 < code < 128 + signal.NSIG else code


def find_submitted(directory: Path) -> SlurmHandle | None:
    """Return the Slurm job that an earlier launcher submitted for a run, or None."""
    file = directory / SUBMITTED
    if file.is_file():
        job = read_json(
            SlurmJob,
            file,
            error=JobError,
            cause="the file was changed after it was written, or another version wrote it",
            cure="Find the job with squeue --me --format '%i %k', cancel it, and delete the file",
        )
        return SlurmHandle(job.id, directory)
    # The launcher may have been killed between sbatch's answer and writing the file.
    done = _run(["squeue", "--noheader", "--me", "--format", "%i %k"])
    for line in done.stdout.splitlines():
        number, _, comment = line.partition(" ")
        if comment.strip() == str(directory.resolve()):
            return _noted(number, directory)
    return None


def submit_job(
    job: Job, directory: Path, template: SbatchTemplate, command: Sequence[str]
) -> SlurmHandle:
    """Submit a job whose script runs `command`. Its output goes to train.log.

    Raises:
        JobError: if sbatch is missing or rejects the job.
    """
    words = [
        *("sbatch", "--parsable", "--open-mode=append", "--signal=B:TERM@120"),
        f"--job-name=curriculum-{job.specialist}-{job.phase}-{job.run_key[:KEY_DIGITS]}",
        f"--comment={directory.resolve()}",
        f"--output={str(directory / LOG).replace('%', '%%')}",
    ]
    # An earlier job may have written its exit code after it was forgotten.
    (directory / EXIT).unlink(missing_ok=True)
    exit_file = shlex.quote(str(directory / EXIT))
    lines = _LINES.format(command=shlex.join(command), exit=exit_file)
    done = _run(words, template.filled(lines))
    if done.returncode != 0:
        raise JobError(
            NAME,
            str(template.file),
            cause=f"sbatch rejected the job: {done.stderr.strip()}",
            cure="Test the script by running sbatch directly",
        )
    return _noted(done.stdout.strip().partition(";")[0], directory)


def follow_job(
    handed: SlurmHandle, look: Callable[[bool], None], say: Callable[[str], None]
) -> int:
    """Wait until a job ends, and return its exit code.

    Meanwhile `look` is called often, with True while the job runs. An interrupt cancels the job and is raised
    again.
    """
    state: str | None = None
    try:
        while True:
            try:
                now = handed.state()
            except ConnectionError as silent:
                say(f"Slurm doesn't answer; its job {handed.number} may still be running: {silent}")
                now = state or "UNKNOWN"
            if now != state:
                say(f"Slurm job {handed.number} is {now or 'no longer known'}")
            state = now
            if state is None or state in _ENDED:
                return handed.code(state)
            _look_for(POLL_SECONDS, look, runs=state == "RUNNING")
    except BaseException:
        handed.end()
        raise


def _look_for(seconds: float, look: Callable[[bool], None], *, runs: bool) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        look(runs)
        time.sleep(min(0.5, seconds / 10))


def _noted(number: str, directory: Path) -> SlurmHandle:
    """Record a submitted job in the directory of its run.

    Raises:
        JobError: if Slurm's answer isn't the number of a job.
    """
    try:
        job = SlurmJob(id=number)
    except ValidationError:
        raise JobError(
            NAME,
            number,
            cause="Slurm didn't answer with the number of the job, which may have been submitted",
            cure="Find the job with squeue --me and cancel it; test the script by running sbatch directly",
        ) from None
    write_whole(directory / SUBMITTED, job.model_dump_json())
    return SlurmHandle(number, directory)


def _exit_code(file: Path) -> int | None:
    """Read the exit code that a job's script wrote; None if it couldn't write the file completely."""
    written = file.read_text(encoding="utf-8", errors="replace").strip()
    return int(written) if re.fullmatch("[0-9]{1,3}", written) else None


def _run(words: list[str], text: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run one of Slurm's programs. If it doesn't answer in time, the exit code is 124, as of `timeout`."""
    try:
        return subprocess.run(
            words,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=ANSWER_SECONDS,
            # sbatch passes its environment on to the job.
            env=job_environment(),
        )
    except subprocess.TimeoutExpired:
        silent = f"{words[0]} didn't answer in {ANSWER_SECONDS} s"
        return subprocess.CompletedProcess(words, 124, stdout="", stderr=silent)
    except FileNotFoundError:
        raise JobError(
            NAME,
            words[0],
            cause="the program isn't on the PATH",
            cure="Start on a machine that can submit Slurm jobs, or unset the variable",
        ) from None
