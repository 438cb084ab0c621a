"""Processes of a training job: start them, end them with their parent, and interpret exit codes.

torchrun can start ranks too (`torchrun --nproc-per-node 2 -m curriculum.train job.json`), even on several
machines. But it starts every rank in its own session, so that ending the process group doesn't end the
ranks. It also returns 1 for any exit code of a rank. Therefore, local runs don't use it.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from curriculum.exposure import exposure_above
from curriculum.stop_signals import terminating_signals
from curriculum.workers.pool import defer_signals
from curriculum.workers.stopped_processes import stopped_words
from schemas.errors import CurriculumError, JobError, JobKilledError, JobMemoryError, NotFiniteError
from schemas.job import Failure

FAILED = 1
NOT_FINITE = 65
KILLED = 69
"""Exit code if one of several processes was killed, or another trainer's command."""
MEMORY = 71
CANCELLED = 75
"""Exit code after a requested stop. A checkpoint is saved, and the same command resumes."""

_KINDS: dict[int, type[JobError]] = {
    NOT_FINITE: NotFiniteError,
    KILLED: JobKilledError,
    MEMORY: JobMemoryError,
}
_FAILURES: dict[type[JobError], Failure] = {
    NotFiniteError: "not_finite",
    JobKilledError: "killed",
    JobMemoryError: "memory",
}


def kind_of(code: int) -> type[JobError]:
    """Return the error type that belongs to an exit code. A negative code is a signal.

    >>> kind_of(71).__name__, kind_of(-9).__name__, kind_of(1).__name__
    ('JobMemoryError', 'JobKilledError', 'JobError')
    """
    return JobKilledError if code < 0 else _KINDS.get(code, JobError)


def words_of(code: int) -> str:
    """Describe how a process ended, given its exit code.

    >>> words_of(1), words_of(-9)
    ('exit code 1', 'signal SIGKILL')
    """
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def first_of(codes: Sequence[int]) -> int:
    """Return the most specific one of several exit codes. The other failures may be consequences of it.

    >>> first_of([1, 71]), first_of([1, -9]), first_of([-6, 1])
    (71, 69, 1)
    """
    order = (MEMORY, NOT_FINITE, -signal.SIGKILL, KILLED, FAILED)
    first = min(codes, key=lambda code: order.index(code) if code in order else len(order))
    return KILLED if first < 0 else first


def code_of(failed: CurriculumError) -> int:
    """Return the exit code that belongs to the type of an error."""
    return next((code for code, kind in _KINDS.items() if isinstance(failed, kind)), FAILED)


def failure_of(kind: type[CurriculumError]) -> Failure:
    """Return the kind of failure in reports that belongs to an error type."""
    return next((name for base, name in _FAILURES.items() if issubclass(kind, base)), "other")


_PR_SET_PDEATHSIG = 1


def job_environment() -> dict[str, str]:
    """Return this process's environment for a job, without variables that the job must not or need not get.

    Prefect's variables have credentials of its server. With PYTHONSAFEPATH, a user's command couldn't import
    modules from the folder of its script.
    """
    return {
        name: value
        for name, value in os.environ.copy().items()
        if not name.startswith("PREFECT_") and name != "PYTHONSAFEPATH"
    }


def signal_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """Return a preexec function that lets Linux signal the new process when its parent thread ends.

    The returned function may run between fork and exec: it takes no locks, because its symbols are looked
    up when it is created.
    On other systems it does nothing.
    """
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, number)


MARK = "CURRICULUM_RUN"
"""Environment variable with the run's directory. All processes of a job inherit it.

It also finds processes that moved to another session.
"""
_RANK = "--rank"
_MAX_LOOKS = 200
"""Maximum number of checks whether killed processes have ended, within ten seconds.

A process that waits for a disk or a GPU ends later.
"""


def processes_of(run: Path) -> list[int]:
    """Return the process ids of this machine's processes that train a run and that a launcher started."""
    words = f"{MARK}={run.resolve()}".encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            marked = words in file.read_bytes().split(b"\0")
        except OSError:
            continue  # The process has ended or belongs to another user.
        if marked and int(file.parent.name) != os.getpid():
            found.append(int(file.parent.name))
    return found


def has_open(run: Path, file: Path) -> bool:
    """Return True if a process of a run has `file` open, such as the lock of a slot."""
    for pid in processes_of(run):
        for handle in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):  # The file was closed, or the process has ended.
                if handle.samefile(file):
                    return True
    return False


def describe_stopped(run: Path) -> list[str]:
    """Describe the processes of a run that are stopped or blocked, by rank if they have one.

    If one of several ranks is stopped, the others wait for it in a collective operation until gloo times out.
    """
    described = []
    for pid in sorted(processes_of(run)):
        try:
            state = (
                Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            )
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue  # The process has ended.
        rank = words[words.index(_RANK) + 1] if _RANK in words[:-1] else None
        name = f"process {pid}" if rank is None else f"rank {rank} (process {pid})"
        if (stopped := stopped_words(pid)) is not None:
            described.append(f"{name} {stopped}")
        elif state == "D":
            described.append(f"{name} is waiting for a disk or a device")
    return described


def end_all(run: Path, grace_seconds: float = 0.0) -> list[int]:
    """Wait until the processes of a run end, and kill those left after `grace_seconds`.

    Return the process ids of processes that exist even then.
    """
    until, looks = time.monotonic() + grace_seconds, 0
    while (left := processes_of(run)) and looks < _MAX_LOOKS:
        if time.monotonic() >= until:
            # Count looks instead of time: while the whole machine is suspended, no process can end.
            looks += 1
            for pid in left:
                with contextlib.suppress(ProcessLookupError):  # The process has ended meanwhile.
                    os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    return left


GRACE_SECONDS = 10.0
"""Seconds that the other ranks get to end after one failed. They may fail too, or wait in vain."""
_POLL_SECONDS = 0.05
_MEETINGS = "curriculum-ranks-"
Rank = subprocess.Popen[bytes]


def start_ranks(
    command: Sequence[str],
    processes: int,
    environment: dict[str, str],
    asked_to_stop: Callable[[], bool],
) -> int:
    """Run `command` once per rank until all ranks have ended; return the exit code of the job.

    It is 0 or 75 if all ranks ended with these codes, 69 if a rank was killed, and otherwise the code of the
    first failure. Then the last line of the output lists how every rank ended. A requested stop is forwarded
    to all ranks. Ranks start with SIGINT, SIGTERM and SIGHUP blocked. They unblock the signals once they can
    handle them.
    """
    with _meeting() as folder:
        meet = (folder / "meet").as_uri()
        places = [
            [_RANK, str(rank), "--of", str(processes), "--meet", meet] for rank in range(processes)
        ]
        # A signal also reaches ranks that are still starting; it would kill them, and the run would count
        # as killed.
        with defer_signals(spawns=False, also=terminating_signals()):
            # Ranks inherit the slot's lock, so that the slot is taken as long as a rank lives.
            ranks = [
                subprocess.Popen([*command, *place], env=environment, close_fds=False)
                for place in places
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


@contextlib.contextmanager
def _meeting() -> Iterator[Path]:
    """Create a private folder that this process and its ranks lock, and remove it afterwards.

    Folders that killed processes left behind are removed first. They are not removed if another user could
    move a folder of this user to such a name.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    is_safe = exposure_above(temporary / _MEETINGS) is None
    for left in temporary.glob(f"{_MEETINGS}*") if is_safe else ():
        with contextlib.suppress(OSError), _held(left):  # The folder is in use or another user's.
            shutil.rmtree(left)
    draft = Path(tempfile.mkdtemp(prefix="draft-of-ranks-"))
    with _held(draft):
        # Renamed only once it is locked, so that no other process finds it unlocked. The random name can't
        # be taken before.
        folder = draft.rename(temporary / f"{_MEETINGS}{secrets.token_hex(8)}")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock a folder for this process, and for processes that inherit the lock.

    Raises:
        OSError: if another process holds the lock, another user owns the folder, or the path is a link.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", str(folder))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.set_inheritable(lock, True)
        yield
    finally:
        os.close(lock)


def _until_the_end(ranks: Sequence[Rank], asked_to_stop: Callable[[], bool]) -> list[int]:
    """Wait for all ranks, after a failure only up to GRACE_SECONDS.

    Return the codes of the first failures.
    """
    asked, failed_at, first = False, 0.0, list[int]()
    while True:
        codes = [rank.poll() for rank in ranks]
        if asked_to_stop() and not asked:
            asked = True
            for rank in ranks:
                rank.send_signal(signal.SIGTERM)
        if not first:
            first = [code for code in codes if code not in (None, 0, CANCELLED)]
            failed_at = time.monotonic()
        if None not in codes or (first and time.monotonic() - failed_at > GRACE_SECONDS):
            return first
        time.sleep(_POLL_SECONDS)
