"""The same job through Slurm: handed in once, followed over the shared workspace, ended by scancel.

Slurm keeps its own line, so no slot is taken. sbatch.json in the run's directory names the job, so that a
launcher which comes again follows the job that runs, and doesn't hand it in a second time.

Options of sbatch give the GPUs and cores of a job. They are parsed as sbatch parses them: short options
joined with their values or apart, long ones with = or a space, or shortened where that names one option.
Machines count alike, so what is given in total is divided.
"""

import argparse
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.processes import CANCELLED, MEMORY, job_environment
from curriculum.train.run_directory import LOG, write_text
from schemas.errors import JobError
from schemas.job import Job, SlurmJob
from schemas.json_text import read_json

NAME = "$CURRICULUM_SBATCH"
_COUNTS = (
    *("-c/--cpus-per-task", "-n/--ntasks", "-N/--nodes", "--cpus-per-gpu", "--mincpus"),
    *("--ntasks-per-gpu", "--ntasks-per-node", "--sockets-per-node"),
)
_GPUS = ("-G/--gpus", "--gpus-per-node", "--gpus-per-socket", "--gpus-per-task")
_LISTS = ("--gres", "--tres-per-node", "--tres-per-task")
_FLAGS = """
-H/--hold -h/--help -O/--overcommit -Q/--quiet -s/--oversubscribe -v/--verbose -V/--version -W/--wait
--consolidate-segments --contiguous --ignore-pbs --no-requeue --parsable --reboot --requeue --spread-job
--stepmgr --test-only --usage --use-min-nodes
"""
_MAY_HAVE_A_VALUE = "-k/--no-kill --exclusive --get-user-env --nice --propagate --resv-ports"
_HAVE_A_VALUE = """
-A/--account -a/--array -B/--extra-node-info -b/--begin -C/--constraint -D/--chdir -d/--dependency -e/--error
-F/--nodefile -i/--input -J/--job-name -L/--licenses -M/--clusters -m/--distribution -o/--output
-p/--partition -q/--qos -S/--core-spec -t/--time -w/--nodelist -x/--exclude --acctg-freq --batch --bb --bbf
--cluster-constraint --comment --container --container-id --cores-per-socket --cpu-freq --deadline
--delay-boot --export --export-file --extra --gid --gpu-bind --gpu-freq --gres-flags --hint
--kill-on-invalid-dep --mail-type --mail-user --mcs-label --mem --mem-bind --mem-per-cpu --mem-per-gpu
--network --ntasks-per-core --ntasks-per-socket --open-mode --power --prefer --priority --profile
--reservation --segment --signal --switches --thread-spec --threads-per-core --time-min --tmp --tres-bind
--uid --wait-all-nodes --wckey --wrap
"""
_RESOURCE = re.compile("cpu|gpu|gres|tres|task|node|socket")
"""Parts of the names of options on which GPUs and cores depend."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestedResources:
    """GPUs and cores of one machine."""

    gpus: int
    cores: int


def asked(options: str) -> RequestedResources:
    """The GPUs and cores that options of sbatch give each machine; 0 and 1 where none does.

    >>> asked("--gres=gpu:a100:2 -c16")
    RequestedResources(gpus=2, cores=16)

    Raises:
        JobError: for what isn't an option, and for options and values on which GPUs or cores depend and
            which can't be understood.
    """
    given = _Given(options)
    gpus = _gpus(given)
    cores = given.per_task_cpus() * (given.tasks(gpus) or 1)
    if (per_gpu := given.count("--cpus-per-gpu")) is not None:
        cores = per_gpu * gpus
    return RequestedResources(gpus=gpus, cores=max(cores, given.count("--mincpus") or 1))


class _Given:
    """The options of a text that GPUs and cores depend on."""

    def __init__(self, options: str) -> None:
        self.options = options
        self._values = _parsed(options)
        nodes = self._values["--nodes"] or "1"
        low, _, high = nodes.partition("-")
        self._nodes = _number("--nodes", low)
        self._is_range = high not in ("", low)
        tasks, on_each = self.count("--ntasks"), self.count("--ntasks-per-node")
        if self._values["--nodes"] is None and tasks and on_each:
            self._nodes = -(-tasks // on_each)

    def count(self, option: str) -> int | None:
        """The count that an option gives."""
        value = self._values[option]
        return None if value is None else _number(option, value)

    def gpus(self, option: str) -> int | None:
        """The GPUs that one of --gpus… gives: 2 for a100:2, 3 for a100:2,v100:1."""
        if (value := self._values[option]) is None:
            return None
        return sum(_number(option, each.rpartition(":")[2], value) for each in value.split(","))

    def listed(self, option: str, wanted: str) -> int | None:
        """The count of one resource in a list: 4 gpu in gres/gpu:a100:4,lustre; None if it lacks it."""
        value = self._values[option] or ""
        found = []
        for each in re.sub(r"\(.*?\)", "", value).split(","):
            name, *words = re.split("[:=]", each.strip().removeprefix("gres/"))
            if name == wanted:
                # A lone word is a type; before a number it is one too.
                is_type = len(words) == 1 and not words[0][:1].isdigit()
                found.append(1 if is_type or not words else _number(option, words[-1], value))
        return sum(found) if found else None

    def divided(self, option: str, total: int) -> int:
        """The part of each machine of what an option gives to all of them."""
        if self._is_range or self._nodes == 0 or total % self._nodes:
            machines = self._values["--nodes"] or self._nodes
            raise _refused(
                f"{option} {self._values[option]}",
                f"{machines} machines can't be given the same number each",
                "Say what each has: --gpus-per-node, --ntasks-per-node",
            )
        return total // self._nodes

    def tasks(self, gpus: int) -> int | None:
        """Tasks of each machine, if anything says how many."""
        if (on_each := self.count("--ntasks-per-node")) is not None:
            return on_each
        if (tasks := self.count("--ntasks")) is not None:
            return self.divided("--ntasks", tasks)
        if (for_each := self.count("--ntasks-per-gpu")) is not None:
            return for_each * gpus
        if gpus and (per_task := self.gpus("--gpus-per-task")):
            return gpus // per_task
        return None

    def per_task_cpus(self) -> int:
        return self.count("--cpus-per-task") or self.listed("--tres-per-task", "cpu") or 1

    def times(self, option: str, each: int, number: int | None, needs: str) -> int:
        """GPUs of so many parts of a machine."""
        if number is None:
            raise _refused(
                f"{option} {self._values[option]}",
                "nothing says how many of them there are",
                f"Add {needs}",
            )
        return each * number


def _gpus(given: _Given) -> int:
    """GPUs of each machine."""
    of_each = (
        given.gpus("--gpus-per-node"),
        given.listed("--tres-per-node", "gpu"),
        given.listed("--gres", "gpu"),
    )
    for found in of_each:
        if found is not None:
            return found
    if (total := given.gpus("--gpus")) is not None:
        return given.divided("--gpus", total)
    if (each := given.gpus("--gpus-per-task")) is not None:
        return given.times("--gpus-per-task", each, given.tasks(0), "--ntasks")
    if (each := given.listed("--tres-per-task", "gpu")) is not None:
        return given.times("--tres-per-task", each, given.tasks(0), "--ntasks")
    if (each := given.gpus("--gpus-per-socket")) is not None:
        sockets = given.count("--sockets-per-node")
        return given.times("--gpus-per-socket", each, sockets, "--sockets-per-node")
    return 0


class _Parser(argparse.ArgumentParser):
    """Raises what it would end the process with."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> _Parser:
    parser = _Parser(prog="sbatch", add_help=False)
    for each in (*_COUNTS, *_GPUS, *_LISTS, *_HAVE_A_VALUE.split()):
        parser.add_argument(*each.split("/"))
    for each in _MAY_HAVE_A_VALUE.split():
        parser.add_argument(*each.split("/"), nargs="?")
    for each in _FLAGS.split():
        parser.add_argument(*each.split("/"), action="store_true")
    return parser


def _parsed(options: str) -> dict[str, str | None]:
    """The values of the options that matter, by their long names; None where they aren't given."""
    try:
        known, others = _parser().parse_known_args(shlex.split(options))
    except ValueError as wrong:
        raise _refused(options, str(wrong), "Try its options with sbatch itself") from None
    _require_harmless(others)
    names = (each.rpartition("/")[2] for each in (*_COUNTS, *_GPUS, *_LISTS))
    return {name: getattr(known, name[2:].replace("-", "_")) for name in names}


def _require_harmless(others: list[str]) -> None:
    """Let options pass that a plugin of Slurm may have added, each with the value that follows it."""
    has_value = True
    for word in others:
        is_option = word.startswith("--")
        if is_option and _RESOURCE.search(word.partition("=")[0]):
            raise _refused(
                word,
                "sbatch has no such option, and its name says that GPUs or cores depend on it",
                "See sbatch --help for how it is called",
            )
        if not is_option and (has_value or word.startswith("-")):
            raise _refused(
                word,
                "it is no option of sbatch, nor the value of one",
                "Give options alone, such as --gres=gpu:4 -c 32",
            )
        has_value = not is_option or "=" in word


def _number(option: str, text: str, value: str | None = None) -> int:
    if not re.fullmatch("[0-9]{1,6}", text):
        raise _refused(
            f"{option} {value or text}",
            "it doesn't end in a count",
            f"Give a number: {option}={_EXAMPLES.get(option, '4')}",
        )
    return int(text)


_EXAMPLES = {"--gres": "gpu:4", "--tres-per-node": "gres/gpu:4", "--tres-per-task": "gres/gpu:1"}


def _refused(value: str, cause: str, cure: str) -> JobError:
    return JobError(NAME, value, cause=cause, cure=cure)


SUBMITTED, EXIT = "sbatch.json", "sbatch.exit"
POLL_SECONDS = 5.0
"""Seconds between questions to squeue; its server has thousands of jobs to look after."""
GRACE_SECONDS = 10.0
SECONDS_TO_APPEAR = 30.0
"""Seconds for a file that another machine wrote last."""
_ENDED = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
}
_KILLED, _TERMINATED = -9, -15
# A shell gets a signal two minutes before the time limit, and passes it to the trainer, which then leaves a
# checkpoint; a signal while it starts the trainer is passed on afterwards. `wait` returns early when a signal
# comes, so it is called until the trainer has ended.
_SCRIPT = """#!/bin/sh
told=
trap 'told=1; kill -TERM $pid 2>/dev/null' TERM INT
{command} &
pid=$!
if [ -n "$told" ]; then kill -TERM $pid; fi
wait $pid
code=$?
while kill -0 $pid 2>/dev/null; do wait $pid; code=$?; done
echo $code > {exit}.draft && mv {exit}.draft {exit}
exit $code
"""


class SlurmHandle:
    """A job in Slurm's hands."""

    def __init__(self, number: str, directory: Path) -> None:
        self.number, self.directory = number, directory

    def state(self) -> str | None:
        """State by squeue: PENDING, RUNNING …; None where squeue no longer knows it, or doesn't answer.

        Raises:
            ConnectionError: where it doesn't answer.
        """
        words = ["squeue", "--noheader", "--jobs", self.number, "--states", "all", "--format", "%T"]
        done = _run(words)
        if done.returncode == 0:
            return done.stdout.strip() or None
        if "Invalid job id" in done.stderr:
            return None
        raise ConnectionError(done.stderr.strip())

    def is_active(self) -> bool:
        """Return True if it waits or runs, as far as Slurm answers."""
        try:
            return self.state() not in {None, *_ENDED}
        except ConnectionError:
            return True

    def end(self) -> None:
        """Cancel it, and wait a while for its checkpoint; Slurm itself kills what doesn't end."""
        if _run(["scancel", self.number]).returncode != 0:
            return  # It still runs; whoever comes next follows it.
        until = time.monotonic() + GRACE_SECONDS
        while self.is_active() and time.monotonic() < until:
            time.sleep(min(POLL_SECONDS, 1.0))
        self.forget()

    def forget(self) -> None:
        """Let the next launcher hand the job in again."""
        (self.directory / SUBMITTED).unlink(missing_ok=True)
        (self.directory / EXIT).unlink(missing_ok=True)

    def code(self, state: str | None) -> int:
        """The exit code of a job that ended, negative for a signal; 75 only where somebody cancelled it."""
        until = time.monotonic() + SECONDS_TO_APPEAR
        while not (file := self.directory / EXIT).is_file() and time.monotonic() < until:
            if state not in (None, "COMPLETED", "FAILED"):
                break
            time.sleep(POLL_SECONDS / 10)
        code = int(file.read_text()) if file.is_file() else None
        if state == "CANCELLED":
            return CANCELLED if code is None else code
        if state == "OUT_OF_MEMORY":
            return MEMORY
        if code is None:
            return _KILLED
        if code == CANCELLED:
            return _TERMINATED  # Nobody asked it to stop, so its time was over: it may be resumed.
        return 128 - code if code > 128 else code  # As a shell says of a signal.


def known(directory: Path) -> SlurmHandle | None:
    """The job that an earlier launcher handed in for a run, if Slurm or the run's directory knows of it."""
    file = directory / SUBMITTED
    if file.is_file():
        job = read_json(
            SlurmJob,
            file,
            error=JobError,
            cause="it was changed since it was written, or another version wrote it",
            cure="Look for the job with squeue --me --format '%i %k', cancel it, and delete the file",
        )
        return SlurmHandle(job.id, directory)
    # It may have been killed between sbatch's answer and the file.
    done = _run(["squeue", "--noheader", "--me", "--format", "%i %k"])
    for line in done.stdout.splitlines():
        number, _, comment = line.partition(" ")
        if comment.strip() == str(directory.resolve()):
            return _noted(number, directory)
    return None


def hand_in(job: Job, directory: Path, options: str, command: Sequence[str]) -> SlurmHandle:
    """Submit the command of a job; its output goes to train.log.

    Raises:
        JobError: where sbatch isn't there, or refuses.
    """
    words = [
        *("sbatch", "--parsable", "--open-mode=append", "--signal=B:TERM@120"),
        f"--job-name=curriculum-{job.specialist}-{job.phase}-{job.run_key[:KEY_DIGITS]}",
        f"--comment={directory.resolve()}",
        f"--output={directory / LOG}",
        *shlex.split(options),
    ]
    # An earlier job may have said its last word after it was forgotten.
    (directory / EXIT).unlink(missing_ok=True)
    exit_file = shlex.quote(str(directory / EXIT))
    done = _run(words, _SCRIPT.format(command=shlex.join(command), exit=exit_file))
    if done.returncode != 0:
        raise JobError(
            NAME,
            options,
            cause=f"sbatch refused the job: {done.stderr.strip()}",
            cure="Try its options with sbatch itself",
        )
    return _noted(done.stdout.strip().partition(";")[0], directory)


def followed(handed: SlurmHandle, look: Callable[[bool], None], say: Callable[[str], None]) -> int:
    """Wait for a job to end; its exit code. `look` is called often, and told whether it runs.

    An interrupt cancels the job, and is raised again.
    """
    state: str | None = None
    try:
        while True:
            try:
                now = handed.state()
            except ConnectionError as silent:
                say(f"Slurm doesn't answer, its job {handed.number} may still be running: {silent}")
                now = state or "UNKNOWN"
            if now != state:
                say(f"Slurm's job {handed.number} is {now or 'gone'}")
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
    write_text(directory / SUBMITTED, SlurmJob(id=number).model_dump_json())
    return SlurmHandle(number, directory)


def _run(words: list[str], text: str | None = None) -> "subprocess.CompletedProcess[str]":
    try:
        # sbatch hands its environment on to the job.
        return subprocess.run(
            words, input=text, capture_output=True, text=True, check=False, env=job_environment()
        )
    except FileNotFoundError:
        raise JobError(
            NAME,
            words[0],
            cause="there is no such program on the PATH",
            cure="Start on a machine that hands jobs to Slurm, or unset the variable",
        ) from None
