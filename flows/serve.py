"""`curriculum serve`: server, worker and deployments in one command, ended by one Ctrl-C."""

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import filelock

from flows import settings
from schemas.errors import CurriculumError

_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src '
    "'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self' "
    'http://{server} ws://{server} data: blob:">'
)
PATIENCE_S = 120.0
"""How long a server may take to start."""
_SERVER = ("server", "start", "--host", settings.HOST)
PARENTS = 10
"""Runs that the cpu worker takes at once: most of them wait, for training or for another's build."""
GRACE_S = 15.0
"""How long a child may take to end before it is killed."""

_PR_SET_PDEATHSIG = 1

Tell = Callable[[str], None]


class ServeError(CurriculumError):
    """The server can't start, or didn't stay up."""


def serve(workspace: Path, port: int, tell: Tell) -> None:
    """Serve the workspace on 127.0.0.1 until SIGINT or SIGTERM; all children have ended on return.

    Raises:
        ServeError: where the workspace is served already, the port is taken or a child dies.
    """
    with _only_one(workspace), _stoppable(), contextlib.ExitStack() as children:
        _free(port)
        shared, slots = settings.is_shared(), settings.gpu_slots()
        variables = settings.served(workspace, port)
        settings.apply(variables)
        tell("starting the server …")
        server = children.enter_context(_child(workspace, "server", *_SERVER))
        _await_health(f"http://{settings.HOST}:{port}/api/health", server, workspace)
        _confine_pages(workspace, port)
        suffix = _deploy(shared)
        workers = {
            f"worker-{kind}": children.enter_context(
                _child(workspace, f"worker-{kind}", *_worker(f"{kind}{suffix}", limit))
            )
            for kind, limit in ((settings.CPU, PARENTS), (settings.GPU, slots))
        }
        _announce(workspace, port, tell)
        _wait({"server": server, **workers}, workspace)


@contextlib.contextmanager
def api_for(workspace: Path) -> Iterator[None]:
    """A Prefect API while the block lasts: one that is there already, else a short-lived own.

    The own one is out of reach of the terminal's Ctrl-C, so that an interrupted flow can still say so.

    Raises:
        ServeError: where it doesn't start.
    """
    settings.prefect_folder(workspace).mkdir(parents=True, exist_ok=True)
    if api := settings.known_api(workspace):
        settings.apply(settings.attached(workspace, api))
        yield
        return
    port = _any_port()
    settings.apply(settings.unseen(workspace, port))
    with _child(workspace, f"server-{port}", *_SERVER) as server:
        _await_health(f"http://{settings.HOST}:{port}/api/health", server, workspace)
        yield


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind((settings.HOST, 0))
        return int(probe.getsockname()[1])


def _announce(workspace: Path, port: int, tell: Tell) -> None:
    address = f"http://{settings.HOST}:{port}"
    settings.address_file(workspace).write_text(address)
    tell(f"workspace   {workspace}")
    tell(f"runs        {address}/v2/runs")
    tell(f"start one   {address}/v2/deployments  (choose run, then Run, then Custom run)")
    tell(
        f"logs        {settings.prefect_folder(workspace)}/server.log, worker-cpu.log, worker-gpu.log"
    )
    tell("Ctrl-C ends all of it.")


def _confine_pages(workspace: Path, port: int) -> None:
    """Let the pages talk to this server and to nobody else; their client analytics has no switch.

    Raises:
        ServeError: where the pages aren't where this version of Prefect puts them.
    """
    files = sorted(settings.pages_folder(workspace).glob("*/index.html"))
    if not files:
        raise ServeError(
            str(settings.pages_folder(workspace)),
            cause="the server's pages aren't there",
            cure="Install the versions of requirements.lock",
        )
    policy = _POLICY.format(server=f"{settings.HOST}:{port}")
    for file in files:
        before, head, after = file.read_text().partition("<head>")
        after = re.sub(r"^<meta http-equiv=[^>]*>", "", after)
        file.write_text(f"{before}{head}{policy}{after}")


def _worker(pool: str, limit: int) -> tuple[str, ...]:
    return ("worker", "start", "--type", "process", "--pool", pool, "--limit", str(limit))


def _deploy(shared: bool) -> str:
    """Make the deployments; the end of their names."""
    # Prefect reads its settings when it is imported, and the command line must not pay for it.
    from flows.deployments import deploy

    return deploy(shared=shared)


@contextlib.contextmanager
def _only_one(workspace: Path) -> Iterator[None]:
    lock = settings.serve_lock(workspace)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise ServeError(
            str(workspace),
            settings.served_at(workspace),
            cause="this workspace is served already",
            cure="Open that address, or end that process first",
        ) from None
    try:
        yield
    finally:
        settings.address_file(workspace).unlink(missing_ok=True)
        lock.release()


def _free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.HOST, port))
        except OSError as taken:
            raise ServeError(
                "--port",
                port,
                cause=f"{settings.HOST}:{port} is in use ({taken.strerror})",
                cure="Choose another with --port",
            ) from None


class _StoppedError(Exception):
    """Somebody asked us to end."""


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM end the block; a second one changes nothing while children end."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise _StoppedError

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with contextlib.suppress(_StoppedError):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _child(workspace: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Prefect command in a process group of its own, which is gone when the block ends.

    A group of its own keeps the terminal's Ctrl-C away from it: we end the children, in order.
    """
    with _log(workspace, name).open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "prefect", *arguments],
            env=settings.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    try:
        yield child
    finally:
        _end(child)


def _die_with_parent() -> None:
    """Runs in the child: should we be killed without a word, the system ends it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)


def _await_health(url: str, server: subprocess.Popen[bytes], workspace: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        _alive("server", server, workspace)
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise _dead("server", f"no answer within {PATIENCE_S:.0f} s", workspace)


def _wait(children: dict[str, subprocess.Popen[bytes]], workspace: Path) -> None:
    while True:
        for name, child in children.items():
            _alive(name, child, workspace)
        time.sleep(0.5)


def _alive(name: str, child: subprocess.Popen[bytes], workspace: Path) -> None:
    if child.poll() is not None:
        raise _dead(name, f"exit code {child.returncode}", workspace)


def _dead(name: str, found: str, workspace: Path) -> ServeError:
    log = _log(workspace, name)
    last = log.read_text(errors="replace").strip().splitlines()[-3:]
    return ServeError(
        name, found, cause=" / ".join(last) or "it said nothing", cure=f"Its log is {log}"
    )


def _log(workspace: Path, name: str) -> Path:
    return settings.prefect_folder(workspace) / f"{name}.log"
