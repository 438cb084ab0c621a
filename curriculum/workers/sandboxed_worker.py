"""A worker process in a sandbox, for code that parses foreign text in C.

It starts without this process's environment and imports nothing but this package before it is confined, so
that no thread of a library stays outside. Its answers are read as values alone.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe

from curriculum.sandbox import PYTHON, Sandbox, bare_environment
from curriculum.workers.answers import answer_tasks, unpickled

_START = (
    "import sys; from curriculum.workers.sandboxed_worker import serve; serve(int(sys.argv[1]))"
)


class SandboxedWorker:
    """A process with the methods of one of multiprocessing that a pool needs."""

    def __init__(self, process: "subprocess.Popen[bytes]", scratch: str) -> None:
        self._process = process
        self._scratch = scratch

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def exitcode(self) -> int | None:
        """Exit code, below 0 for a signal; None while the process runs."""
        return self._process.poll()

    def is_alive(self) -> bool:
        """Return True while the process runs."""
        return self.exitcode is None

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def join(self) -> None:
        """Wait for the end of the process, and remove its temporary files."""
        self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)


def start_sandboxed(sandbox: Sandbox, *, quiet: bool) -> tuple[SandboxedWorker, Connection]:
    """Start a worker that enters a sandbox before its first task; the process and the pipe to it.

    It may also write temporary files, into a folder of its own.
    """
    scratch = tempfile.mkdtemp(prefix="curriculum-worker-")
    ours, theirs = Pipe()
    given = {"PATH": ":".join(os.get_exec_path()), "TMPDIR": scratch}
    process = subprocess.Popen(
        [*PYTHON, "-c", _START, str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else None,
        cwd="/",
        env={**bare_environment(), **given},
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    # The pipe of a dead worker is broken: its exit is handled when its end of file is read.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        ours.send(replace(sandbox, write=(*sandbox.write, scratch)))
    return SandboxedWorker(process, scratch), ours


def serve(handle: int) -> None:
    """Confine this process as the other end of its pipe says, and answer tasks until that end closes."""
    # A worker ends at an interrupt, and with its parent, without a message: the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    connection = Connection(handle)
    sandbox: Sandbox = connection.recv()
    sandbox.enter()
    threading.Thread(target=_end_with_parent, args=(handle,), daemon=True).start()
    answer_tasks(connection, read=unpickled)


def _end_with_parent(handle: int) -> None:
    """End this process when the other end of its pipe closes, whatever it is doing."""
    closed = select.poll()
    closed.register(handle, select.POLLRDHUP)
    closed.poll()
    os._exit(1)
