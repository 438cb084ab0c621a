"""The processes of a run, whatever became of who started them; and their end."""

import os
import signal
import time
from pathlib import Path

MARK = "CURRICULUM_RUN"
"""The variable that a job's first process is given, and hands down to all that it starts: the run's
directory. A process that puts itself into another session is found by it all the same."""
_POLL_SECONDS = 0.05
_LOOKS = 200
"""At what was killed, ten seconds: one that waits for a disk or a GPU ends when that answers."""


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
                _kill(pid)
        time.sleep(_POLL_SECONDS)
    return left


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # It ended meanwhile.
