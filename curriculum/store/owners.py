"""Owners of records: the process that a record names, and whether that process still lives.

A process that lives holds a lock of the system (flock), which ends with it however it ends. So a lock also
tells of processes that /proc doesn't list: those of a container with a PID namespace of its own. Locks of
files on shared storage may not reach other machines; heartbeats count there.
"""

import fcntl
import os
import socket
from pathlib import Path

from curriculum.store import inside
from schemas import regular_files
from schemas.job import RunState
from schemas.json_text import now, seconds_from

SILENT_SECONDS = 600
"""The age of its last heartbeat from which a run of another machine isn't taken to be running."""


def this_process() -> RunState:
    """Return the host and pid of this process, as its records name it."""
    return RunState(host=socket.gethostname(), pid=os.getpid(), at=now())


def is_elsewhere(owner: RunState) -> bool:
    """Return True for an owner on another machine, as far as the machine's name tells."""
    return owner.host != socket.gethostname()


class HeldFile:
    """A file that this process replaces whole, and holds locked until it is released or the process ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock: int | None = None

    def write(self, text: str) -> None:
        """Replace the file; the new one is locked before it has the name, so that it is never seen free.

        The file isn't flushed to the disk: after a loss of power its owner is gone as well.
        """
        draft = self._file.with_name(f".{self._file.name}.draft")
        inside.remove(draft)  # A killed writer left it, or another user planted it.
        lock = inside.open_lock(draft, fresh=True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with os.fdopen(os.dup(lock), "w") as opened:
                opened.write(text)
            draft.replace(self._file)
        except BaseException:
            os.close(lock)
            raise
        self.leave()
        self._lock = lock

    def release(self) -> None:
        """Remove the file, where it was written, and let go of it."""
        if self._lock is not None:
            self._file.unlink(missing_ok=True)
            self.leave()

    def leave(self) -> None:
        """Let go of the file, which stays as it was written."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def is_held(file: Path) -> bool:
    """Return True while a process that lives holds the lock of a file; False for no regular file."""
    while True:
        try:
            # A shared lock can be asked of on a read-only mount too.
            lock = regular_files.opened(file)
        except (FileNotFoundError, regular_files.IrregularFileError):
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # Its owner may have replaced it since it was opened: then the new file is the one that counts.
            here, there = os.fstat(lock), file.lstat()
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                return False
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        finally:
            os.close(lock)


def train_lock(root: Path, run_key: str, attempt: int) -> Path:
    """The lock that the trainer of an attempt holds."""
    return root / inside.LOCKS / f"{run_key}-{attempt}.train.lock"


def launch_lock(root: Path, run_key: str) -> Path:
    """The lock that the launcher of a run holds, whatever the attempt."""
    return root / inside.LOCKS / f"{run_key}.launch.lock"


def launcher_record(root: Path, run_key: str) -> Path:
    """The record of the process that launches a run."""
    return root / inside.LOCKS / f"{run_key}.launch.json"


def is_owner_alive(lock: Path, owner: RunState, beat: str = "") -> bool:
    """Return True while the owner of a run holds its lock, or its heartbeat on another machine is fresh.

    Args:
        lock: The lock that the owner holds.
        owner: The owner's record.
        beat: The moment of its last heartbeat, in UTC; empty before the first.
    """
    if is_held(lock):
        return True
    return is_elsewhere(owner) and seconds_from(max(owner.at, beat)) < SILENT_SECONDS
