"""Processes that parse foreign bytes in a sandbox, and communicate by lines of JSON.

The caller starts one of our modules with `SandboxedProcess`. The module calls `enter_sandbox` first, and
replies with `answer`. Nothing that the process sends is unpickled, and of the caller's environment it only
receives the paths of Python's libraries. Libraries that start threads, like pyarrow with its allocator,
must be imported after `enter_sandbox`: earlier threads would stay outside, in the same memory.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from curriculum.sandbox import PYTHON, Sandbox, bare_environment, landlock, require_one_thread
from schemas.errors import StoreError

_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
}
_MAX_ANSWER_BYTES = 16 << 20
_PART_BYTES = 1 << 16
_ENDING_SECONDS = 5
_BLOCK_BYTES = 512
"""Bytes of a block of st_blocks, on any file system."""
MIN_MEMORY = 4 << 30
"""Memory in bytes that a process may use even on a small machine."""
_MEMORY_RATIO = 16
"""Additional bytes of memory per byte that a process reads, up to half of the machine's memory."""
MAX_IDLE_SECONDS = 600
"""Maximum time in seconds that a caller waits for all answers of a process, beyond its processor time."""
MAX_SECONDS = 24 * 3600
"""Maximum processor time of an import in seconds."""
UNSANDBOXED = "--unsandboxed"


def usual_memory(num_bytes: int) -> int:
    """Return the memory limit in bytes for a process that parses `num_bytes` of foreign files."""
    return max(MIN_MEMORY, min(machine_memory() // 2, MIN_MEMORY + _MEMORY_RATIO * num_bytes))


def machine_memory() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def usual_seconds(num_bytes: int) -> int:
    """Return the limit of processor time in seconds for `num_bytes` of foreign files."""
    return min(60 + num_bytes // 100_000, MAX_SECONDS)


def stored_bytes(files: Iterable[Path]) -> int:
    """Return the bytes that files occupy on the disk, at most their sizes; holes don't count."""
    found = (file.stat() for file in files)
    return sum(min(status.st_size, status.st_blocks * _BLOCK_BYTES) for status in found)


class SandboxedProcess:
    """A module that runs in its own process inside a sandbox.

    Use it in a `with` block, which kills the process at its end. The process is killed earlier if its caller
    has to wait longer than its processor time plus MAX_IDLE_SECONDS.

    Raises:
        StoreError: if the kernel has no Landlock and `unsandboxed` is False.
    """

    def __init__(
        self, module: str, sandbox: Sandbox, request: object, *, unsandboxed: bool = False
    ) -> None:
        if not (unsandboxed or landlock()):
            raise StoreError(
                "Landlock",
                cause="this kernel has no Landlock, so foreign files could do harm when they are read",
                cure="Use Linux 5.13 or newer with landlock among its security modules "
                f"(/sys/kernel/security/lsm), or give {UNSANDBOXED} for files that you trust",
            )
        self._sandbox = sandbox
        self._max_seconds = MAX_IDLE_SECONDS + (sandbox.cpu_seconds or 0)
        self._seconds_left = float(self._max_seconds)
        self._unread = b""
        self._process = subprocess.Popen(
            [*PYTHON, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**_ENVIRONMENT, **bare_environment()},
        )
        self.tell({"sandbox": asdict(sandbox), "is_confined": not unsandboxed, "request": request})

    def tell(self, message: object) -> None:
        """Send a message as a line. A process that has ended is noticed when its answer is read."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass

    def next_answer(self) -> dict[str, Any] | None:
        """Return the next answer; None if the process has ended, is late, or sent anything but an answer."""
        from schemas.json_text import parse_json

        began = time.monotonic()
        try:
            found = parse_json(self._line(began + self._seconds_left))
        except ValueError:
            return None
        finally:
            self._seconds_left -= time.monotonic() - began
        return found if isinstance(found, dict) else None

    def _line(self, deadline: float) -> bytes:
        """Return the output of the process up to its next line feed, end, size limit or deadline.

        If a child of the process keeps the output open, only the deadline ends the wait.
        """
        assert self._process.stdout
        handle, ready = self._process.stdout.fileno(), select.poll()
        ready.register(handle, select.POLLIN)
        while b"\n" not in self._unread and len(self._unread) < _MAX_ANSWER_BYTES:
            left = deadline - time.monotonic()
            if left <= 0 or not ready.poll(left * 1000):
                break
            if not (part := os.read(handle, _PART_BYTES)):
                break
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def end_reason(self) -> str:
        """Return the reason why the process gave no answer."""
        if self._seconds_left <= 0:
            return f"its reader gave no answer within {self._max_seconds:,} s"
        try:
            code = self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            return "its reader sent an unexpected answer"
        if -code in (signal.SIGKILL, signal.SIGXCPU):
            return f"reading it took more than {self._sandbox.cpu_seconds} s of processor time, or was killed"
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"its reader ended by {name}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def fault_of(broken: Exception) -> str:
    r"""Return one line about the error of a reader of foreign files in its sandbox.

    >>> fault_of(ValueError("no magic bytes\nat 0")), fault_of(KeyError())
    ('no magic bytes', 'KeyError')
    """
    if isinstance(broken, MemoryError):
        return "it needs more memory than its reader may use"
    return (str(broken).splitlines() or [type(broken).__name__])[0]


def enter_sandbox() -> Any:
    """Enter the sandbox that the caller requests, before any library is loaded; return the request.

    Raises:
        SandboxError: if the kernel can't enforce it, or another thread is already running.
    """
    asked = json.loads(sys.stdin.buffer.readline())
    limits: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in asked["sandbox"].items()
    }
    sandbox = Sandbox(**limits)
    if asked["is_confined"]:
        require_one_thread()
        sandbox.enter()
    else:
        sandbox.limit()
    return asked["request"]


def next_request() -> Any:
    """Return the caller's next message, or None if there is none."""
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else None


def answer(message: object) -> None:
    """Send an answer to the caller."""
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()
