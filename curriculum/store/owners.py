"""Owners of records: the processes that records name, and whether they are alive.

A living process holds a system lock (flock), which the system releases when the process ends, however it
ends. So locks also reveal processes that /proc doesn't list, for example those of a container with its own
PID namespace. Locks on shared storage may not be visible on other machines; heartbeats are used there.
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
"""Age in seconds of the last heartbeat after which a run on another machine counts as not running."""


def this_process() -> RunState:
    """Return the host and the pid of this process, as its records name them."""
    return RunState(host=socket.gethostname(), pid=os.getpid(), at=now())


def is_elsewhere(owner: RunState) -> bool:
    """Return True if the host name of an owner is that of another machine."""
    return owner.host != socket.gethostname()


class HeldFile:
    """A file that this process always replaces as a whole, and keeps locked until its release."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock: int | None = None

    def write(self, text: str) -> None:
        """Replace the file. The new file is locked before the rename, so that nobody ever sees it unlocked.

        The file isn't flushed to disk: after a power loss, its owner is gone as well.
        """
        draft = self._file.with_name(f".{self._file.name}.draft")
        inside.remove(draft)  # Left by a killed writer, or planted by another user.
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
        """Remove the file if this process wrote it, and release its lock."""
        if self._lock is not None:
            self._file.unlink(missing_ok=True)
            self.leave()

    def leave(self) -> None:
        """Release the lock without removing the file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def is_held(file: Path) -> bool:
    """Return True while a living process holds the lock of a file; False for anything but a regular file."""
    while True:
        try:
            # A shared lock also works on a read-only mount.
            lock = regular_files.opened(file)
        except (FileNotFoundError, regular_files.IrregularFileError):
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # If the owner replaced the file after it was opened, the new file has to be checked.
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
    """Return the path of the lock that the trainer of an attempt holds."""
    return root / inside.LOCKS / f"{run_key}-{attempt}.train.lock"


def launch_lock(root: Path, run_key: str) -> Path:
    """Return the path of the lock that the launcher of a run holds, whatever the attempt."""
    return root / inside.LOCKS / f"{run_key}.launch.lock"


def launcher_record(root: Path, run_key: str) -> Path:
    """Return the path of the record that names the launcher of a run."""
    return root / inside.LOCKS / f"{run_key}.launch.json"


def is_owner_alive(lock: Path, owner: RunState, beat: str = "") -> bool:
    """Return True if the owner of a run is alive.

    An owner is alive if it holds its lock, or if it runs on another machine and its heartbeat is recent.

    Args:
        lock: The lock that the owner holds.
        owner: The owner's record.
        beat: UTC time of its last heartbeat; empty before the first.
    """
    if is_held(lock):
        return True
    return is_elsewhere(owner) and seconds_from(max(owner.at, beat)) < SILENT_SECONDS
