"""A worker process in a sandbox, for code that parses untrusted text in C.

The worker starts without the environment of its parent. Before it enters the sandbox, it imports only this
package, because threads that a library started earlier would stay outside of the sandbox. Its answers may
only be plain values.
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
    """A sandboxed process with those methods of a multiprocessing process that a pool needs."""

    def __init__(self, process: "subprocess.Popen[bytes]", scratch: str) -> None:
        self._process = process
        self._scratch = scratch

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def exitcode(self) -> int | None:
        """Exit code, negative for a signal; None while the process runs."""
        return self._process.poll()

    def is_alive(self) -> bool:
        """Return True while the process runs."""
        return self.exitcode is None

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def join(self) -> None:
        """Wait for the end of the process, and remove its temporary files."""
        self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)


def start_sandboxed(sandbox: Sandbox, *, quiet: bool) -> tuple[SandboxedWorker, Connection]:
    """Start a worker that enters `sandbox` before its first task; return the process and the pipe to it.

    In addition to the permissions of `sandbox`, the worker gets a folder for its temporary files.
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
    # The pipe of a dead worker is broken; its exit is handled when its end of file is read.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        ours.send(replace(sandbox, write=(*sandbox.write, scratch)))
    return SandboxedWorker(process, scratch), ours


def serve(handle: int) -> None:
    """Enter the sandbox received through the pipe, and answer tasks until its other end closes."""
    # A worker ends silently on an interrupt or with its parent; the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    connection = Connection(handle)
    sandbox: Sandbox = connection.recv()
    sandbox.enter()
    threading.Thread(target=_end_with_parent, args=(handle,), daemon=True).start()
    answer_tasks(connection, read=unpickled)


def _end_with_parent(handle: int) -> None:
    """End this process as soon as the other end of its pipe closes."""
    closed = select.poll()
    closed.register(handle, select.POLLRDHUP)
    closed.poll()
    os._exit(1)
