"""The processes of a job: their environment, the ranks on one machine, and their end with their parent.

torchrun starts ranks too (`torchrun --nproc-per-node 2 -m curriculum.train job.json`), on several machines
as well. It starts each rank in a session of its own, where the end of a process group doesn't reach, and
returns 1 for whatever exit code of a rank; so a run here isn't started by it.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from curriculum.train.exit_codes import CANCELLED, first_of, words_of
from curriculum.workers.spawn import interrupts_held

_PR_SET_PDEATHSIG = 1


def job_environment() -> dict[str, str]:
    """The environment of this process for a job and the commands in it, without what they need not have.

    Prefect's variables hold what lets a program into its server, and a command of others may look for modules
    beside its script.
    """
    return {
        name: value
        for name, value in os.environ.copy().items()
        if not name.startswith("PREFECT_") and name != "PYTHONSAFEPATH"
    }


def dying_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """Return a function for a new process to call first: Linux signals it when its starting thread is gone.

    It may be called between fork and exec: what it needs is looked up before, since afterwards another
    thread's lock may be held for ever. Elsewhere than on Linux it does nothing.
    """
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, number)


MARK = "CURRICULUM_RUN"
"""The variable that a job's first process is given, and hands down to all that it starts: the run's
directory. A process that puts itself into another session is found by it all the same."""
_LOOKS = 200
"""Number of looks at a killed process, ten seconds: one that waits for a disk or GPU ends with it."""


def processes_of(run: Path) -> list[int]:
    """The pids of this machine's processes that train a run, as far as a launcher started them."""
    words = f"{MARK}={run.resolve()}".encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            marked = words in file.read_bytes().split(b"\0")
        except OSError:
            continue  # It has ended, or is another user's.
        if marked and int(file.parent.name) != os.getpid():
            found.append(int(file.parent.name))
    return found


def end_all(run: Path, grace_seconds: float = 0.0) -> list[int]:
    """Wait for the processes of a run to end, and kill those that don't; returns what even then lives."""
    until, looks = time.monotonic() + grace_seconds, 0
    while (left := processes_of(run)) and looks < _LOOKS:
        if time.monotonic() >= until:
            # Counted, not timed: where the whole machine stood still, nobody could die.
            looks += 1
            for pid in left:
                _kill_one(pid)
        time.sleep(_POLL_SECONDS)
    return left


def _kill_one(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # It ended meanwhile.


GRACE_SECONDS = 10.0
"""Seconds for the other ranks when one has failed: they may be at the same error, or wait for it in vain."""
_POLL_SECONDS = 0.05
Rank = subprocess.Popen[bytes]


def start_ranks(
    command: Sequence[str],
    processes: int,
    environment: dict[str, str],
    asked_to_stop: Callable[[], bool],
) -> int:
    """Run `command` once for each rank, with what tells it its place, until all have ended.

    Returns 0 or 75 where all ranks ended so; else what the first to fail returned, or that it was killed,
    and what ended each is the last line written. A stop that is asked for is passed on to each rank. They
    start with SIGINT and SIGTERM blocked, and let them through when they listen.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        meet = (Path(folder) / "meet").as_uri()
        places = [
            ["--rank", str(rank), "--of", str(processes), "--meet", meet]
            for rank in range(processes)
        ]
        # A stop reaches who only starts, too: it would end him, and the run as one that was killed.
        with interrupts_held(spawns=False, also={signal.SIGTERM}):
            # What is inherited here is inherited there: the slot is taken as long as a rank lives.
            ranks = [
                subprocess.Popen([*command, *each], env=environment, close_fds=False)
                for each in places
            ]
        try:
            first = _until_the_end(ranks, asked_to_stop)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    codes = [rank.returncode for rank in ranks]
    if not first:
        return max(codes)
    ended = (f"rank {rank} by {words_of(code)}" for rank, code in enumerate(codes))
    sys.stderr.write(f"ranks ended: {', '.join(ended)}\n")
    return first_of(first)


def _until_the_end(ranks: Sequence[Rank], asked_to_stop: Callable[[], bool]) -> list[int]:
    """Wait for all, or for a while once one has failed; returns how the first to fail did."""
    told, failed_at, first = False, 0.0, list[int]()
    while True:
        codes = [rank.poll() for rank in ranks]
        if asked_to_stop() and not told:
            told = True
            for rank in ranks:
                rank.send_signal(signal.SIGTERM)
        if not first:
            first = [code for code in codes if code not in (None, 0, CANCELLED)]
            failed_at = time.monotonic()
        if None not in codes or (first and time.monotonic() - failed_at > GRACE_SECONDS):
            return first
        time.sleep(_POLL_SECONDS)
