"""Child processes of a server, which are watched, restarted and ended as a group, and their sockets."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from curriculum.pipeline.context import ignore
from curriculum.train.processes import signal_with_parent
from flows import settings
from schemas.errors import CurriculumError

DEATHS = 5
WINDOW_S = 600.0
"""A child that died DEATHS times within WINDOW_S seconds isn't restarted."""


class ServeError(CurriculumError):
    """The server can't start, or it ended unexpectedly."""


@dataclass(kw_only=True, slots=True)
class ChildProcess:
    """Python command in a child process; the kernel ends it if this process is killed.

    The child has its own process group. Ctrl-C in the terminal therefore doesn't reach it, and this process
    can end its children in order.
    """

    name: str
    arguments: tuple[str, ...]
    log: Path
    grace_s: float = 10.0
    """Seconds that the process group has to end before it is killed."""
    with_us: signal.Signals = signal.SIGTERM
    """Signal that the child gets when this process ends."""
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables of this child only."""
    sockets: tuple[socket.socket, ...] = ()
    """Sockets whose file descriptors the child inherits."""
    process: "subprocess.Popen[bytes] | None" = None
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=DEATHS))

    def start(self) -> None:
        """Start the process; its output is appended to the file `log`."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.process is None and self.log.is_file():
            self.log.replace(self.log.with_suffix(".before.log"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *self.arguments],
                # The current directory must not affect imports or settings of the child.
                cwd=self.log.parent,
                env=settings.environment(self.variables),
                pass_fds=[ear.fileno() for ear in self.sockets],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=signal_with_parent(self.with_us),
            )

    def died(self) -> int | None:
        """Exit code if the process has ended, or None."""
        assert self.process is not None, "the process was never started"
        return self.process.poll()

    def may_start_again(self) -> bool:
        """Count one more death of the process; return False if it has died too often to be restarted."""
        now = time.monotonic()
        self.deaths.append(now)
        return len(self.deaths) < DEATHS or now - self.deaths[0] > WINDOW_S

    def interrupt(self) -> None:
        """Ask the process to end; does nothing if it has ended."""
        assert self.process is not None, "the process was never started"
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """End the process and its group, and wait until they have ended."""
        if self.process is None:
            return
        self.interrupt()
        self.await_end()

    def end_own(self) -> None:
        """End the flow runs of this process, a worker, while it can still report their end to the server."""
        assert self.process is not None, "the process was never started"
        deadline = time.monotonic() + self.grace_s
        signalled: set[int] = set()
        while (own := self._own()) and time.monotonic() < deadline:
            for process in own:
                if process.pid not in signalled:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.terminate()
            signalled.update(process.pid for process in own)
            time.sleep(0.1)

    def _own(self) -> list[psutil.Process]:
        assert self.process is not None
        try:
            children = psutil.Process(self.process.pid).children()
        except psutil.NoSuchProcess:
            return []
        return [child for child in children if _works(child)]

    def await_end(self) -> None:
        """Wait until the process group has ended; kill it after `grace_s` seconds."""
        assert self.process is not None, "the process was never started"
        deadline = time.monotonic() + self.grace_s
        while self._group_lives() and time.monotonic() < deadline:
            time.sleep(0.1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _group_lives(self) -> bool:
        assert self.process is not None
        self.process.poll()
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def require_alive(self) -> None:
        """Raise a ServeError if the process has ended."""
        if (code := self.died()) is not None:
            raise self.fault(f"exit code {code}")

    def fault(self, found: str) -> ServeError:
        """Return an error about `found` with the last lines of the process's log."""
        last = self.log.read_text(errors="replace").strip().splitlines()[-3:]
        cause = " / ".join(line.strip() for line in last) or "no output"
        return ServeError(self.name, found, cause=cause, cure=f"Its log is {self.log}")


def _works(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_all(children: Sequence[ChildProcess]) -> None:
    """Interrupt each child once, then wait for all of them.

    A second interrupt would make a child skip its cleanup.
    """
    started = [child for child in children if child.process is not None]
    for child in started:
        child.interrupt()
    for child in started:
        child.await_end()


PATIENCE_S = 300.0
"""Seconds within which our own server must answer after its start."""
FOREIGN_PATIENCE_S = 15.0
"""Seconds within which a server that runs already must answer."""
SLOW_S = 20.0
"""Seconds after which a warning says that a server is slow."""
BACKLOG = 1024
"""Connections that may wait for a server while it starts."""


@contextlib.contextmanager
def listening(port: int, *, or_any: bool = False) -> Iterator[socket.socket]:
    """Listen on a port of 127.0.0.1 (0: any free port) within the block, and yield the socket.

    The server is a child process that inherits the socket. Because the socket stays open in this process, no
    other user can bind the port while the server restarts. With `or_any`, a free port is used if `port` is in
    use.
    """
    try:
        ear = socket.create_server((settings.HOST, port), backlog=BACKLOG)
    except OSError as taken:
        if not or_any:
            raise ServeError(
                "--port",
                port,
                cause=f"{settings.HOST}:{port} is in use ({taken.strerror})",
                cure="Choose another port with --port",
            ) from None
        ear = socket.create_server((settings.HOST, 0), backlog=BACKLOG)
    with ear:
        yield ear


def await_health(
    url: str, server: ChildProcess | None, warn: Callable[[str], None] = ignore
) -> None:
    """Wait until the server at `url` answers.

    `server` is the server's process. If it is None, this process didn't start the server, which must then
    answer sooner.

    Raises:
        ServeError: if the server ends or doesn't answer in time, with its last answer.
    """
    patience = PATIENCE_S if server else FOREIGN_PATIENCE_S
    began, last, warned = time.monotonic(), "", False
    while time.monotonic() < began + patience:
        if server is not None:
            server.require_alive()
        try:
            asked = urllib.request.Request(url, headers=settings.credentials())
            with urllib.request.urlopen(asked, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError) as failed:
            last = str(failed)
        if server is not None and not warned and time.monotonic() > began + SLOW_S:
            warned = True
            warn(
                f"{server.name} hasn't answered for {SLOW_S:.0f} s; waiting up to {patience:.0f} "
                f"s. Its log is {server.log}."
            )
        time.sleep(0.2)
    found = f"no answer within {patience:.0f} s ({last})"
    if server is not None:
        raise server.fault(found)
    raise ServeError(
        "the server of PREFECT_API_URL or of curriculum serve",
        url.removesuffix("/health"),
        cause=found,
        cure="Start that server again. To use a server of your own, unset the variable or stop "
        "curriculum serve",
    )
