"""Processes that parse foreign bytes: confined before they read any, asked and answered by lines of JSON.

The caller starts a module of ours by `SandboxedProcess`; the module begins with `enter_sandbox` and answers
with `answer`. Nothing that the process says is unpickled, and of the caller's environment it gets only where
Python's libraries are. Libraries that start threads, as pyarrow's allocator does, are imported once a process
has entered: a thread that ran before would stay outside, in the same memory.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict
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
MIN_MEMORY = 4 << 30
"""Bytes that such a process may take on any machine, whatever it reads."""
_MEMORY_RATIO = 16
"""Bytes more for each byte that it reads; with all of them it may take half of a machine's memory."""
MAX_IDLE_SECONDS = 600
"""Seconds that all answers of a process may take together, beyond its processor time."""
MAX_SECONDS = 24 * 3600
"""Seconds of processor time that no import may exceed."""
UNSANDBOXED = "--unsandboxed"


def usual_memory(num_bytes: int) -> int:
    """Return the limit of memory in bytes for a process that parses foreign files of so many bytes."""
    return max(MIN_MEMORY, min(machine_memory() // 2, MIN_MEMORY + _MEMORY_RATIO * num_bytes))


def machine_memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def usual_seconds(num_bytes: int) -> int:
    """Return the limit of processor time in seconds for foreign files of so many bytes, sparse or not."""
    return min(60 + num_bytes // 100_000, MAX_SECONDS)


class SandboxedProcess:
    """A module that runs in a process of its own inside a sandbox.

    Use it in a `with` block, at whose end the process is killed if it still runs. A process that lets its
    caller wait for longer than its processor time and MAX_IDLE_SECONDS is killed as well.

    Raises:
        StoreError: where the kernel has no Landlock and `unsandboxed` is False.
    """

    def __init__(
        self, module: str, sandbox: Sandbox, request: object, *, unsandboxed: bool = False
    ) -> None:
        if not (unsandboxed or landlock()):
            raise StoreError(
                "Landlock",
                cause="this kernel has none, and without it foreign files could do harm as they are read",
                cure="Use Linux 5.13 or newer with landlock among its security modules "
                f"(/sys/kernel/security/lsm), or say {UNSANDBOXED} for files that you trust",
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
        """Send a line; a process that has ended is noticed by its answers."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass

    def next_answer(self) -> dict[str, Any] | None:
        """Return the next answer, or None where the process ended, was late or said anything else."""
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
        """Return what the process says until its next line feed, end, bound or deadline.

        A child of the process may hold its output open: only the deadline ends that.
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
            return "its reader says what nobody asked for"
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
    r"""Return a line on what a reader of foreign files failed at, in its sandbox.

    >>> fault_of(ValueError("no magic bytes\nat 0")), fault_of(KeyError())
    ('no magic bytes', 'KeyError')
    """
    if isinstance(broken, MemoryError):
        return "it needs more memory than its reader may take"
    return (str(broken).splitlines() or [type(broken).__name__])[0]


def enter_sandbox() -> Any:
    """Confine this process as its caller asks, before it loads a library, and return the request.

    Raises:
        SandboxError: where the kernel can't confine it, or another thread runs already.
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
    """Return the caller's next message, or None where the caller has no other."""
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else None


def answer(message: object) -> None:
    """Send an answer to the caller."""
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()
