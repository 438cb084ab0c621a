"""`python -m curriculum.train job.json`: train one job, in this process or in as many as the job says.

A job that names another trainer is trained by its command, where --trainer says the same.

On several machines: `torchrun … -m curriculum.train job.json` on each, over one workspace.

Exit codes: 0 the job ended by its budget or its gate; 1 it failed, and the last line says why; 2 the
command is wrong; 65 a loss or gradient isn't finite; 69 one of several processes was killed; 71 memory is
full; 75 it was asked to stop (SIGTERM, SIGHUP, SIGINT), finished its step and left a checkpoint: the same
command resumes from there.
"""

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from curriculum.exposure import deny_others_writing, is_trusted_by_environment, real_path
from curriculum.stop_signals import terminating_signals
from curriculum.train.process_environment import see_gpus_of, wait_passively
from curriculum.train.processes import dying_with_parent

if TYPE_CHECKING:
    from curriculum.train.distributed import ProcessRank
    from schemas.errors import CurriculumError

_WRONG = 2
GRACE_SECONDS = 10
"""Seconds for the step in progress, when the parent is gone; then this process ends, and its group."""


def main() -> int:
    """Read the command, tie this process to its parent's life, and train."""
    arguments = _arguments()
    if arguments.parent is not None:
        _end_with(arguments.parent)
    if arguments.slot is not None:
        number, _, of = arguments.slot.partition("/")
        see_gpus_of(int(number), int(of))
    asked_to_stop = _listen()
    if not is_trusted_by_environment(real_path(arguments.job)):
        # Those who share a workspace that it names may write to it.
        deny_others_writing()
    wait_passively()
    # Weights & Biases would tell its makers of its own crashes.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    if arguments.rank is None and "RANK" not in os.environ:
        trainer, processes = _trainer_and_processes(arguments.job)
        if trainer is not None:
            return _train_by_command(arguments, lambda: bool(asked_to_stop))
        if processes > 1:
            return _start(arguments.job, processes, lambda: bool(asked_to_stop))
    return _train(arguments, lambda: bool(asked_to_stop))


def _train(arguments: argparse.Namespace, asked_to_stop: Callable[[], bool]) -> int:
    # torch takes seconds to import; signals and the parent's death are heeded from the start.
    from curriculum.train.distributed import ProcessRank, leave

    place = ProcessRank.of(os.environ)
    if arguments.rank is not None:
        place = ProcessRank(
            rank=arguments.rank, size=arguments.of, local=arguments.rank, meet=arguments.meet
        )
    if place.rank:
        # Rank 0 speaks for all; errors are heard from each.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    code = _trained(arguments.job, asked_to_stop, place)
    if place.size > 1:
        leave(code)
    return code


def _trained(job: Path, asked_to_stop: Callable[[], bool], place: "ProcessRank") -> int:
    from curriculum.store import no_room
    from curriculum.train.job_process import run_job
    from curriculum.train.processes import CANCELLED
    from schemas.errors import CurriculumError

    try:
        report = run_job(job, asked_to_stop, place)
    except CurriculumError as failed:
        return _exit_code(failed)
    except OSError as failed:
        if (full := no_room(failed)) is None:
            raise
        return _exit_code(full)
    return CANCELLED if report.stopped == "cancelled" else 0


def _train_by_command(arguments: argparse.Namespace, asked_to_stop: Callable[[], bool]) -> int:
    from curriculum.train.external_command import require_permitted, run_command
    from curriculum.train.run_directory import read_job
    from schemas.errors import CurriculumError

    try:
        require_permitted(read_job(arguments.job), arguments.job, arguments.trainer)
    except CurriculumError as refused:
        _exit_code(refused)
        return _WRONG
    try:
        return run_command(arguments.job, arguments.trainer, asked_to_stop)
    except CurriculumError as failed:
        return _exit_code(failed)


def _exit_code(failed: "CurriculumError") -> int:
    """The exit code of an error, which is the last line written; as far as the log's disk takes it."""
    from curriculum.train.processes import code_of

    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.write(f"{type(failed).__name__}: {failed}\n")
    return code_of(failed)


def _trainer_and_processes(job: Path) -> tuple[str | None, int]:
    from curriculum.train.run_directory import read_job
    from schemas.errors import JobError

    try:
        read = read_job(job)
    except JobError:
        # The one process then says what is wrong with the file.
        return None, 1
    return read.trainer, read.processes


def _start(job: Path, processes: int, asked_to_stop: Callable[[], bool]) -> int:
    from curriculum.train.processes import start_ranks

    words = (str(job), "--parent", str(os.getpid()))
    command = [sys.executable, "-P", "-m", "curriculum.train", *words]
    environment = dict(os.environ)
    if sys.platform == "linux":
        # All are on this machine; by its name gloo might look for another way to it.
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return start_ranks(command, processes, environment, asked_to_stop)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m curriculum.train", description=__doc__)
    parser.add_argument("job", type=Path, help="the job.json in a run's directory")
    parser.add_argument(
        "--parent", type=int, help="pid of the process whose end also ends this one"
    )
    parser.add_argument(
        "--trainer", help="the command of another trainer, if the job names one: it runs as you"
    )
    for name, kind in (("--rank", int), ("--of", int), ("--meet", str), ("--slot", str)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    return parser.parse_args()


def _end_with(parent: int) -> None:
    """Get SIGTERM when the parent dies; leave at once if it already has."""
    dying_with_parent(signal.SIGTERM)()
    if os.getppid() != parent:
        sys.exit(f"process {parent}, which started this job, is gone")
    threading.Thread(target=_outlive_not, args=(parent,), daemon=True).start()


def _outlive_not(parent: int) -> None:
    """End even a process that hangs in a call; the signal alone would never be heeded."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)
    # Second by second: where the whole machine stood still, the step did too.
    for _ in range(GRACE_SECONDS):
        time.sleep(1.0)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _listen() -> list[int]:
    """A list that is empty until SIGTERM, SIGHUP or SIGINT comes."""
    received: list[int] = []
    numbers = (*terminating_signals(), signal.SIGINT)
    for number in numbers:
        signal.signal(number, lambda each, _frame: received.append(each))
    # Whoever starts ranks holds them back until they can be heard.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    return received


if __name__ == "__main__":
    sys.exit(main())
