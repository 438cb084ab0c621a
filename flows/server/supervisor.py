"""`curriculum serve`: a Prefect server, its workers, deployments and pages, which Ctrl-C stops together."""

import contextlib
import functools
import hashlib
import http.client
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import FrameType

import filelock

from curriculum.stop_signals import handlers_restored
from curriculum.store import Store
from curriculum.train.processes import signal_with_parent
from flows import settings
from flows.server import dashboard
from flows.server.children import (
    ChildProcess,
    ServeError,
    await_health,
    end_all,
    listening,
)
from flows.settings import prefect_variables
from flows.settings.api_listener import join_api

PARENTS = 10
"""Maximum number of concurrent runs of the cpu worker; most runs wait for training or another
build."""
RUNS_END_S = 25.0
"""Seconds that running flow runs have to save a checkpoint and end."""
PAUSE_S = 20.0
"""Seconds that the server has to pause the pools of workers that are ended."""
LOOK_EVERY_S = 0.5
FOLDERS = ("diets", "corpora", "phases", "ablations")
"""Folders of a workspace whose files the forms offer as choices."""
BRANCHES = "*/specialist-*/branch-*"
"""Pattern of the folders of branches, which the forms offer as choices."""
DEPLOY_S = 300.0
"""Timeout in seconds for creating the deployments."""

_SERVER = "flows.server.api"

PrintLine = Callable[[str], None]


def serve(workspace: Path, port: int, print_line: PrintLine) -> None:
    """Serve the workspace on 127.0.0.1 until SIGINT or SIGTERM; end all child processes before returning.

    If PREFECT_API_URL names a team's server, workers and deployments join that server.

    Raises:
        ServeError: if the workspace is served already, the port is in use, or a child dies repeatedly.
        SettingError: if an environment variable is invalid.
    """
    Store(workspace).open()
    team, shared, slots = settings.team_api(), settings.is_shared(), settings.gpu_slots()
    settings.apply(settings.absolute_paths())
    with (
        _only_one(workspace),
        handlers_restored(*_STOPS),
        contextlib.ExitStack() as ending,
        _stoppable(),
    ):
        supervisor = Supervisor(
            workspace=workspace, port=port, team=team, shared=shared, print_line=print_line
        )
        if team is None:
            ear = ending.enter_context(listening(port))
            settings.apply(prefect_variables.own_server(workspace, port, supervisor.secret))
            supervisor.server = supervisor.child("server", _SERVER, str(ear.fileno()))
            supervisor.server.sockets = (ear,)
            ending.callback(lambda: end_all([supervisor.server] if supervisor.server else []))
            print_line("starting the server …")
            supervisor.start_server()
        else:
            settings.apply(prefect_variables.team_server(workspace, team))
            print_line(f"joining {team} …")
            await_health(f"{team}/health", None)
        scratch = ending.enter_context(tempfile.TemporaryDirectory(prefix="curriculum-serve-"))
        ending.callback(supervisor.end_workers)
        supervisor.start_workers({settings.CPU: PARENTS, settings.GPU: slots}, scratch)
        pages = ending.enter_context(listening(port % 65535 + 1, or_any=True))
        supervisor.start_pages(pages)
        supervisor.start_crash_detection()
        supervisor.announce(pages)
        supervisor.watch()


State = tuple[tuple[str, str], ...]
"""Paths of the files, each with the digest of its content."""


@dataclass(kw_only=True, slots=True)
class FormChoices:
    """Watch of the files that Prefect's forms list as choices, to update the forms after a change."""

    workspace: Path
    deployed: State = ()
    seen: State = ()

    def have_changed(self) -> bool:
        """Return True if the files differ from the deployed ones and haven't changed since the previous call.

        A change is thus reported once, after it is complete.
        """
        before, self.seen = self.seen, self._look()
        if self.seen == self.deployed or self.seen != before:
            return False
        self.deployed = self.seen
        return True

    def mark_deployed(self) -> None:
        """Remember the current files as those that the forms list."""
        self.seen = self.deployed = self._look()

    def _look(self) -> State:
        found = [(str(path), "") for path in sorted(self.workspace.glob(BRANCHES))]
        for folder in FOLDERS:
            for file in sorted((self.workspace / folder).glob("*.y*ml")):
                # An editor may remove a file for a moment while it saves.
                with contextlib.suppress(FileNotFoundError):
                    found.append((str(file), hashlib.sha256(file.read_bytes()).hexdigest()))
        return tuple(found)


@dataclass(kw_only=True, slots=True)
class Supervisor:
    """Child processes of `curriculum serve`; restarts dead ones and keeps the forms up to date."""

    workspace: Path
    port: int
    team: str | None
    shared: bool
    print_line: PrintLine
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    """Password of our own Prefect server."""
    path: str = field(default_factory=dashboard.new_path)
    """Path prefix of reports and dashboards."""
    server: ChildProcess | None = None
    suffix: str = ""
    workers: dict[str, ChildProcess] = field(default_factory=dict)
    """Workers by the kind of their pool."""
    pages: list[ChildProcess] = field(default_factory=list)
    choices: FormChoices = field(init=False)

    def __post_init__(self) -> None:
        self.choices = FormChoices(workspace=self.workspace)

    @property
    def secret(self) -> str:
        """Login `user:password` of our own Prefect server; empty with a team's server."""
        return f"{settings.USER}:{self.password}" if self.team is None else ""

    def child(self, name: str, module: str, *arguments: str, grace_s: float = 10.0) -> ChildProcess:
        """Return a child process that runs a Python module; `name` is also the name of its log."""
        log = settings.prefect_folder(self.workspace) / f"{name}.log"
        return ChildProcess(
            name=name, arguments=("-m", module, *arguments), log=log, grace_s=grace_s
        )

    @property
    def address(self) -> str:
        """Address of the Prefect server: the team's or our own."""
        if self.team is not None:
            return self.team.removesuffix("/api")
        return f"http://{settings.HOST}:{self.port}"

    def start_server(self) -> None:
        """Start our own Prefect server and wait until it answers."""
        assert self.server is not None
        self.server.start()
        await_health(f"{self.address}/api/health", self.server, self.print_line)

    def start_workers(self, limits: dict[str, int], scratch: str) -> None:
        """Create the deployments and start one worker per kind of pool.

        Workers and runs use the folder `scratch` for temporary files. Prefect's workers create a folder there
        whose name is the same for all users; in /tmp it would belong to the first user.
        """
        self.choices.mark_deployed()
        self.suffix = deploy(self.workspace, shared=self.shared, idle=[*limits])
        settings.apply(settings.flow_run_variables(self.workspace, self.suffix))
        for kind, limit in limits.items():
            worker = self.child(
                f"worker-{kind}",
                "prefect",
                *("worker", "start", "--type", "process"),
                *("--pool", f"{kind}{self.suffix}", "--limit", str(limit)),
                grace_s=RUNS_END_S,
            )
            worker.variables = {"TMPDIR": scratch}
            # The worker would wait for its runs; they end when it dies, and must not outlive us.
            worker.with_us = signal.SIGKILL
            self.workers[kind] = worker
            worker.start()

    def end_workers(self) -> None:
        """End the workers and their flow runs.

        First no more runs are started. Then the running ones end, and the workers report that to the server.
        At last the workers end.
        """
        deadline = time.monotonic() + PAUSE_S
        for kind in self.workers:
            self._pause(f"{kind}{self.suffix}", deadline)
        for worker in self.workers.values():
            if worker.process is not None:
                worker.end_own()
        end_all([*self.workers.values(), *self.pages])

    def _pause(self, pool: str, deadline: float) -> None:
        """Pause a pool until its worker is started again.

        Pools on a team's server are not paused, since they may have other workers.
        """
        if self.team is not None:
            return
        request = urllib.request.Request(
            f"{self.address}/api/work_pools/{pool}",
            data=b'{"is_paused": true}',
            headers={"Content-Type": "application/json", **settings.credentials()},
            method="PATCH",
        )
        # Without a server nobody can take a run either.
        while self.server is not None and self.server.died() is None:
            try:
                with urllib.request.urlopen(request, timeout=max(deadline - time.monotonic(), 1)):
                    return
            except (OSError, http.client.HTTPException) as fault:
                # A busy server answers late, or reports that its database is locked.
                if isinstance(fault, urllib.error.HTTPError) and fault.code == HTTPStatus.NOT_FOUND:
                    return  # Somebody deleted the pool.
                if time.monotonic() > deadline:
                    self.print_line(f"could not pause pool {pool}: {fault}")
                    return
            time.sleep(0.2)

    def start_pages(self, ear: socket.socket) -> None:
        """Start the server of reports and dashboards on the socket `ear`."""
        module = ("flows.server.dashboard", str(self.workspace), str(ear.fileno()))
        pages = self.child("dashboards", *module)
        pages.variables, pages.sockets = settings.pages_path_variable(self.path), (ear,)
        self.pages.append(pages)
        pages.start()

    def start_crash_detection(self) -> None:
        """Start the crash detection if a notification target is set."""
        if settings.notify_target() is None:
            return
        api = self.team or f"{self.address}/api"
        pools = [f"{kind}{self.suffix}" for kind in self.workers]
        detection = self.child(
            "teller", "flows.server.crash_detection", api, str(self.workspace), *pools
        )
        self.pages.append(detection)
        detection.start()

    def announce(self, ear: socket.socket) -> None:
        """Print the addresses of all pages; the address with a # logs the browser in to all of them."""
        pages = dashboard.pages_address(ear)
        runs, login = f"{self.address}/v2/runs", dashboard.login_address(ear, self.path)
        if self.team is None:
            fragment = f"{self.password}.{ear.getsockname()[1]}.{self.path}"
            runs = login = f"{self.address}{settings.LOGIN_PATH}#{fragment}"
        settings.ServedAddresses(
            address=self.address, secret=self.secret, pages=pages, login=login
        ).write(self.workspace)
        shown = f"{pages}/overview/" if dashboard.is_installed() else dashboard.how_to_install()
        self.print_line(f"workspace   {self.workspace}")
        self.print_line(f"runs        {runs}")
        self.print_line(
            f"start a run {self.address}/v2/deployments  (choose run, then Run, then Custom run)"
        )
        reports = f"{pages}/reports/" if self.team is None else f"{pages}/reports/#{self.path}"
        self.print_line(f"reports     {reports}")
        self.print_line(f"dashboards  {shown}")
        self.print_line(f"logs        {settings.prefect_folder(self.workspace)}/*.log")
        self.print_line("First open the address with a #; it logs the browser in to all pages.")
        self.print_line("Press Ctrl-C to stop everything.")

    def watch(self) -> None:
        """Restart dead children, and update the forms when their choices change, until a signal arrives."""
        while True:
            if self.server is not None:
                self._restart_dead(self.server, self.start_server)
            for kind, worker in self.workers.items():
                self._restart_dead(worker, functools.partial(self._start_worker, kind))
            for page in self.pages:
                self._restart_dead(page, page.start)
            if self.choices.have_changed():
                self._redeploy()
            time.sleep(LOOK_EVERY_S)

    def _restart_dead(self, child: ChildProcess, start: Callable[[], None]) -> None:
        code = child.died()
        if code is None:
            return
        if not child.may_start_again():
            raise child.fault(f"exit code {code}, repeatedly")
        child.await_end()
        try:
            start()
        except ServeError:
            if self.server is None or self.server.died() is None:
                raise
            return  # The server died meanwhile; the next iteration restarts it first.
        self.print_line(f"{child.name} ended with exit code {code} and was restarted")

    def _start_worker(self, kind: str) -> None:
        deploy(self.workspace, shared=self.shared, idle=[kind])
        self.workers[kind].start()

    def _redeploy(self) -> None:
        try:
            deploy(self.workspace, shared=self.shared)
        except ServeError as fault:
            self.print_line(f"could not update the forms: {fault}")
        else:
            self.print_line("updated the forms: diets, phases, corpora and branches")


def deploy(workspace: Path, *, shared: bool, idle: Sequence[str] = ()) -> str:
    """Create or update the deployments in a child process, and return the suffix of their names.

    Raises:
        ServeError: if the child process fails. The error has the last lines of its output, which is in the
            log.
    """
    log = settings.prefect_folder(workspace) / "deployments.log"
    flags = [*(["--shared"] if shared else []), *(["--idle", *idle] if idle else [])]
    try:
        with log.open("wb") as errors:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "flows.deployments", *flags],
                cwd=log.parent,
                env=settings.environment({}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                timeout=DEPLOY_S,
                text=True,
                check=True,
                preexec_fn=signal_with_parent(),
            )
    except subprocess.SubprocessError as failed:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise ServeError(
            "deployments",
            str(failed).rpartition("' ")[2],
            cause="".join(last) or "no output",
            cure=f"Its log is {log}",
        ) from None
    return done.stdout.splitlines()[-1] if done.stdout.strip() else ""


@contextlib.contextmanager
def api_for(workspace: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Provide a Prefect API within the block: that of a running server, or else that of a temporary server.

    Ctrl-C in the terminal doesn't reach the temporary server, so that an interrupted flow can still report
    its state.

    Raises:
        ServeError: if the server doesn't start or answer.
    """
    Store(workspace).open()
    if api := settings.known_api(workspace):
        join_api(workspace, api)
        await_health(f"{api.rstrip('/')}/health", None)
        yield
        return
    with listening(0) as ear:
        port = ear.getsockname()[1]
        settings.apply(
            prefect_variables.temporary_server(
                workspace, port, f"{settings.USER}:{secrets.token_hex(16)}"
            )
        )
        server = ChildProcess(
            name=f"server-{port}",
            arguments=("-m", _SERVER, str(ear.fileno())),
            log=settings.prefect_folder(workspace) / f"server-{port}.log",
            sockets=(ear,),
        )
        try:
            server.start()
            await_health(f"http://{settings.HOST}:{port}/api/health", server, warn)
            yield
        finally:
            server.end()
    server.log.unlink()


@contextlib.contextmanager
def _only_one(workspace: Path) -> Iterator[None]:
    lock = settings.serve_lock(workspace)
    try:
        # A process that checks whether the workspace is served holds the lock for a moment.
        lock.acquire(timeout=1)
    except filelock.Timeout:
        raise ServeError(
            str(workspace),
            settings.served_at(workspace),
            cause="another curriculum serve is running on this workspace",
            cure="Open its address, or stop the other process first",
        ) from None
    try:
        yield
    finally:
        settings.served_file(workspace).unlink(missing_ok=True)
        lock.release()


_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _StoppedError(Exception):
    """A signal asked the server to stop."""


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Leave the block at Ctrl-C, SIGTERM or a closed terminal.

    While children are being ended, these signals are ignored.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        ignore()
        raise _StoppedError

    def ignore() -> None:
        for number in _STOPS:
            signal.signal(number, signal.SIG_IGN)

    for number in _STOPS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # As under nohup.
            signal.signal(number, stop)
    with contextlib.suppress(_StoppedError):
        try:
            yield
        finally:
            ignore()
