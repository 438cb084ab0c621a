"""Child processes of a server: watched, started again, ended as a group; and the sockets they inherit."""

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
"""A child that dies so often within so long isn't started again."""


class ServeError(CurriculumError):
    """The server can't start, or didn't stay up."""


@dataclass(kw_only=True, slots=True)
class ChildProcess:
    """A command of this Python; the system ends it should we be killed without a word.

    A group of its own keeps the terminal's Ctrl-C away from it: we end the children, in order.
    """

    name: str
    arguments: tuple[str, ...]
    log: Path
    grace_s: float = 10.0
    """Seconds to end before it is killed, with its group."""
    with_us: signal.Signals = signal.SIGTERM
    """Signal that it gets when this process is gone."""
    variables: dict[str, str] = field(default_factory=dict)
    """Variables of its environment alone."""
    sockets: tuple[socket.socket, ...] = ()
    """Sockets of ours that it inherits, by their numbers."""
    process: "subprocess.Popen[bytes] | None" = None
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=DEATHS))

    def start(self) -> None:
        """Start it; its output goes to its log, beside that of an earlier start."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.process is None and self.log.is_file():
            self.log.replace(self.log.with_suffix(".before.log"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *self.arguments],
                # Nothing is imported or set by what lies where we were started.
                cwd=self.log.parent,
                env=settings.environment(self.variables),
                pass_fds=[each.fileno() for each in self.sockets],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=signal_with_parent(self.with_us),
            )

    def died(self) -> int | None:
        """Its exit code, where it has ended."""
        assert self.process is not None, "it was never started"
        return self.process.poll()

    def may_start_again(self) -> bool:
        """Return True if it died seldom enough; asking counts as a death."""
        now = time.monotonic()
        self.deaths.append(now)
        return len(self.deaths) < DEATHS or now - self.deaths[0] > WINDOW_S

    def interrupt(self) -> None:
        """Ask it to end; nothing happens where it has ended."""
        assert self.process is not None, "it was never started"
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """End the process and all of its group before the return."""
        if self.process is None:
            return
        self.interrupt()
        self.await_end()

    def end_own(self) -> None:
        """End what it started itself, while it can report it: a worker's own are flow runs."""
        assert self.process is not None, "it was never started"
        deadline = time.monotonic() + self.grace_s
        signalled: set[int] = set()
        while (own := self._own()) and time.monotonic() < deadline:
            for each in own:
                if each.pid not in signalled:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.terminate()
            signalled.update(each.pid for each in own)
            time.sleep(0.1)

    def _own(self) -> list[psutil.Process]:
        assert self.process is not None
        try:
            children = psutil.Process(self.process.pid).children()
        except psutil.NoSuchProcess:
            return []
        return [each for each in children if _works(each)]

    def await_end(self) -> None:
        """Wait for the end of its group, and kill what is left of it when its time is over."""
        assert self.process is not None, "it was never started"
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
        """Raises: ServeError where it has ended."""
        if (code := self.died()) is not None:
            raise self.fault(f"exit code {code}")

    def fault(self, found: str) -> ServeError:
        """An error with its last words."""
        last = self.log.read_text(errors="replace").strip().splitlines()[-3:]
        cause = " / ".join(line.strip() for line in last) or "it said nothing"
        return ServeError(self.name, found, cause=cause, cure=f"Its log is {self.log}")


def _works(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_all(children: Sequence[ChildProcess]) -> None:
    """End all of them; all are asked before any is waited for, and once: a second time means at once."""
    started = [each for each in children if each.process is not None]
    for each in started:
        each.interrupt()
    for each in started:
        each.await_end()


PATIENCE_S = 300.0
"""Seconds for a server to start."""
FOREIGN_PATIENCE_S = 15.0
"""Seconds for a server that runs already to answer."""
SLOW_S = 20.0
"""Seconds after which who waits for a server is told so."""
BACKLOG = 1024
"""Connections that wait for a server that is busy, or is started again."""


@contextlib.contextmanager
def listening(port: int, *, or_any: bool = False) -> Iterator[socket.socket]:
    """Listen on a port of 127.0.0.1, any for 0, as long as the block lasts.

    The server inherits the socket: while it is started again no other user can take its place. With `or_any`
    a port that is in use is replaced by any free one.
    """
    try:
        ear = socket.create_server((settings.HOST, port), backlog=BACKLOG)
    except OSError as taken:
        if not or_any:
            raise ServeError(
                "--port",
                port,
                cause=f"{settings.HOST}:{port} is in use ({taken.strerror})",
                cure="Choose another with --port",
            ) from None
        ear = socket.create_server((settings.HOST, 0), backlog=BACKLOG)
    with ear:
        yield ear


def await_health(
    url: str, server: ChildProcess | None, warn: Callable[[str], None] = ignore
) -> None:
    """Wait until a server answers; one that isn't our child gets a little while only.

    Raises:
        ServeError: where it ends or doesn't answer in time, with what it answered last.
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
                f"{server.name} hasn't answered for {SLOW_S:.0f} s; it gets {patience:.0f} s. "
                f"Its log is {server.log}."
            )
        time.sleep(0.2)
    found = f"no answer within {patience:.0f} s ({last})"
    if server is not None:
        raise server.fault(found)
    raise ServeError(
        "the server of PREFECT_API_URL or of curriculum serve",
        url.removesuffix("/health"),
        cause=found,
        cure="Start that server again; or unset the variable or end curriculum serve, to have your own",
    )
