"""`python -m curriculum.train job.json`: train one job, in as many processes as the job says.

If the job names another trainer's command, this command is run, but only if --trainer names it, too.

On several machines: run `torchrun … -m curriculum.train job.json` on each machine, with one shared workspace.

Exit codes: 0 the job ended by its budget or its gate; 1 it failed, and the last line says why; 2 the
command line is wrong; 65 a loss or gradient isn't finite; 69 one of several processes was killed; 71
memory is full; 75 the job was asked to stop (SIGTERM, SIGHUP, SIGINT), finished its step and saved a
checkpoint. After 75, the same command resumes the job.
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

from curriculum.exposure import is_trusted_by_environment, keep_others_out, real_path
from curriculum.stop_signals import terminating_signals
from curriculum.train.process_environment import restrict_visible_gpus, wait_passively
from curriculum.train.processes import signal_with_parent
from schemas.errors import StoreError

if TYPE_CHECKING:
    from curriculum.train.distributed import ProcessRank
    from schemas.errors import CurriculumError

_WRONG = 2
GRACE_SECONDS = 10
"""Seconds that this process and its group may still run after their parent has died. Then they are killed."""


def main() -> int:
    """Parse the command line, make this process end with its parent, and train."""
    arguments = _arguments()
    if arguments.parent is not None:
        _end_with(arguments.parent)
    if arguments.slot is not None:
        number, _, of = arguments.slot.partition("/")
        restrict_visible_gpus(int(number), int(of))
    asked_to_stop = _listen()
    # $CURRICULUM_TRUST names workspaces that users share who may write to them.
    if not is_trusted_by_environment(real_path(arguments.job)):
        try:
            keep_others_out()
        except StoreError as exposed:
            return _exit_code(exposed)
    wait_passively()
    # Otherwise Weights & Biases would report its own crashes to its makers.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    if arguments.rank is None and "RANK" not in os.environ:
        trainer, processes = _trainer_and_processes(arguments.job)
        if trainer is not None:
            return _train_by_command(arguments, lambda: bool(asked_to_stop))
        if processes > 1:
            return _start(arguments.job, processes, lambda: bool(asked_to_stop))
    return _train(arguments, lambda: bool(asked_to_stop))


def _train(arguments: argparse.Namespace, asked_to_stop: Callable[[], bool]) -> int:
    # torch takes seconds to import; signals and the parent's death are handled before that.
    from curriculum.train.distributed import ProcessRank, exit_rank

    place = ProcessRank.from_environment(os.environ)
    if arguments.rank is not None:
        place = ProcessRank(
            rank=arguments.rank, size=arguments.of, local=arguments.rank, meet=arguments.meet
        )
    if place.rank:
        # Only rank 0 writes to stdout; errors of all ranks go to stderr.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    code = _trained(arguments.job, asked_to_stop, place)
    if place.size > 1:
        exit_rank(code)
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
    """Write an error as the last line of the log, if the disk allows it, and return the error's exit code."""
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
        # The training process then reports the fault of the file.
        return None, 1
    return read.trainer, read.processes


def _start(job: Path, processes: int, asked_to_stop: Callable[[], bool]) -> int:
    from curriculum.train.processes import start_ranks

    words = (str(job), "--parent", str(os.getpid()))
    command = [sys.executable, "-P", "-m", "curriculum.train", *words]
    environment = dict(os.environ)
    if sys.platform == "linux":
        # All ranks are on this machine; gloo might resolve its name to another interface.
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return start_ranks(command, processes, environment, asked_to_stop)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m curriculum.train", description=__doc__)
    parser.add_argument("job", type=Path, help="job.json in the directory of a run")
    parser.add_argument(
        "--parent", type=int, help="pid of the parent process; this process ends when it ends"
    )
    parser.add_argument(
        "--trainer",
        help="command of another trainer, if the job names one; it runs with your permissions",
    )
    for name, kind in (("--rank", int), ("--of", int), ("--meet", str), ("--slot", str)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    return parser.parse_args()


def _end_with(parent: int) -> None:
    """Let the system send SIGTERM to this process when the process `parent` dies.

    Exit if it is already dead.
    """
    signal_with_parent(signal.SIGTERM)()
    if os.getppid() != parent:
        sys.exit(f"process {parent}, which started this job, has ended")
    threading.Thread(target=_outlive_not, args=(parent,), daemon=True).start()


def _outlive_not(parent: int) -> None:
    """Kill this process some time after its parent has died, even if it hangs and never handles a signal."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)
    # Counted second by second, so that time in which the whole machine was suspended doesn't count.
    for _ in range(GRACE_SECONDS):
        time.sleep(1.0)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _listen() -> list[int]:
    """Return a list to which each SIGTERM, SIGHUP and SIGINT that this process gets is appended."""
    received: list[int] = []
    numbers = (*terminating_signals(), signal.SIGINT)
    for number in numbers:
        signal.signal(number, lambda received_number, _frame: received.append(received_number))
    # The process that starts ranks blocks these signals until the ranks can handle them.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    return received


if __name__ == "__main__":
    sys.exit(main())
