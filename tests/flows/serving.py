"""`curriculum serve` as a process of a test, and its server's API."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.deployments.runner import RunnerDeployment
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.types.entrypoint import EntrypointType

from curriculum.corpus.load import unpack_samples
from flows import settings
from flows.deployments import declared_deployments
from tests.flows.slow_flow import nap

PATIENCE_S = 300.0
"""For what must come: a machine may be slow, and busy."""
GONE_S = 20.0
"""For processes that were killed to be gone; those that nobody ends live longer than that."""
PHASES = """\
first: {row_length: 256, families: [v3_simple]}
second: {row_length: 256, families: [v2_simple]}
"""
"""The phases file `short`, for diets of the corpus `small`."""


def furnish(home: Path, samples: Path, **diets: str) -> None:
    """Give a workspace diets of its own, and a corpus and phases that train in seconds."""
    clone = unpack_samples(samples)[0]
    corpus = f"name: small\nrepositories: [{{name: nearby, path: {clone}, max_commits: 8}}]\n"
    own = {"phases/short": PHASES, "corpora/small": corpus}
    for name, text in (own | {f"diets/{name}": diet for name, diet in diets.items()}).items():
        file = home / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((settings.HOST, 0))
        return int(probe.getsockname()[1])


def command(home: Path, port: int) -> list[str]:
    """The command line of `curriculum serve`."""
    program = Path(sys.executable).with_name("curriculum")
    return [str(program), "serve", "--home", str(home), "--port", str(port)]


def wait_until(
    is_so: Callable[[], bool], seconds: float = PATIENCE_S, words: Callable[[], object] = str
) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, words()
        time.sleep(0.2)


@dataclass(frozen=True)
class Served:
    """A workspace that is served, at an address."""

    home: Path
    address: str
    process: "subprocess.Popen[bytes]"
    log: Path
    family: set[psutil.Process] = field(default_factory=set)
    """Descendant processes, running or ended."""
    host: Path | None = None
    """The workspace whose server it joined."""

    @contextlib.contextmanager
    def client(self) -> Iterator[SyncPrefectClient]:
        """A client of its server."""
        api = {PREFECT_API_URL: f"{self.address}/api", PREFECT_API_AUTH_STRING: self.secret}
        with temporary_settings(api), get_client(sync_client=True) as client:
            yield client

    @property
    def places(self) -> settings.ServedAddresses:
        """Return the addresses that it wrote for its owner's programs."""
        found = settings.served(self.home)
        assert found is not None
        return found

    @property
    def path(self) -> str:
        """The path below which reports and dashboards are shown."""
        path = self.places.login.rpartition("#")[2].rpartition(".")[2]
        assert len(path) == 32
        return path

    @property
    def secret(self) -> str:
        """Return the secret of the server."""
        return settings.served_secret(self.host or self.home)

    def request(self, path: str, body: object = None) -> urllib.request.Request:
        """A request of its owner to its server's API."""
        return urllib.request.Request(
            f"{self.address}/api/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **settings.authorization(self.secret)},
        )

    def end(self) -> int:
        """Press Ctrl-C, unless it has ended; its exit code."""
        if self.process.poll() is None:
            self.family.update(psutil.Process(self.process.pid).children(recursive=True))
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()

    def child(self, word: str) -> psutil.Process:
        """The child with a word in its command line."""
        children = psutil.Process(self.process.pid).children()
        return next(each for each in children if word in " ".join(each.cmdline()))

    def slow_flow(self, kind: str, suffix: str = "") -> UUID:
        """A deployment of the nap on a pool, as our deployments are made."""
        declared = declared_deployments(suffix)[0]
        with self.client():
            made = RunnerDeployment.from_flow(
                nap,
                entrypoint_type=EntrypointType.MODULE_PATH,
                name=f"nap-{kind}{suffix}",
                tags=[*declared.tags],
                work_pool_name=f"{kind}{suffix}",
            ).apply()
        assert isinstance(made, UUID)
        return made

    def nap(self, kind: str, suffix: str = "", **parameters: object) -> UUID:
        """A run of the nap on a pool."""
        made = self.slow_flow(kind, suffix)
        with self.client() as client:
            return client.create_flow_run_from_deployment(made, parameters=dict(parameters)).id

    def run(self, run: UUID) -> FlowRun:
        """A flow run as the server knows it."""
        with self.client() as client:
            return client.read_flow_run(run)

    def state(self, run: UUID) -> str | None:
        """The name of its state."""
        return self.run(run).state_name

    def await_state(self, run: UUID, *names: str) -> None:
        """Wait until it is in one of the states."""
        wait_until(
            lambda: self.state(run) in names, words=lambda: f"{names} wanted, {self.run(run)}"
        )


@contextlib.contextmanager
def serving(
    home: Path,
    *,
    code: int = 0,
    host: Path | None = None,
    cwd: Path | None = None,
    **variables: str,
) -> Iterator[Served]:
    """A workspace that is served while the block lasts; then all is gone, and it ends with the code."""
    home.mkdir(parents=True, exist_ok=True)
    log, port = home / "serve.txt", free_port()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command(home, port),
            stdout=file,
            stderr=subprocess.STDOUT,
            env=settings.environment(variables),
            cwd=cwd,
        )
    address = variables.get("PREFECT_API_URL", f"http://{settings.HOST}:{port}/api")
    served = Served(home, address.removesuffix("/api"), process, log, host=host)
    try:
        wait_until(
            lambda: (
                process.poll() is not None or "Press Ctrl-C to stop everything" in log.read_text()
            )
        )
        assert process.poll() is None, log.read_text()
        served.family.update(psutil.Process(process.pid).children(recursive=True))
        yield served
    finally:
        ended = served.end()
    assert ended == code, log.read_text()
    _, left = psutil.wait_procs(served.family, timeout=60 if code else GONE_S)
    assert left == [], "something outlived serve"
    assert code or not settings.served_file(home).exists()
    with socket.socket() as probe:
        assert probe.connect_ex((settings.HOST, port)) != 0, "the server outlived serve"
