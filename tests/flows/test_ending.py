"""`curriculum serve` continues and ends properly after crashes, answers and Ctrl-C."""

import os
import signal
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from flows import settings
from flows.server import supervisor
from flows.server.children import DEATHS, ChildProcess, ServeError, end_all
from tests.flows.serving import wait_until

BUSY, GONE, WELL = 503, 404, 200
POOLS = ["cpu", "gpu"]


@dataclass
class Server:
    """A server that answers as it is told, and remembers what it was asked."""

    port: int = 0
    answers: list[int | None] = field(default_factory=list)
    """Codes, the next first; None: it hangs up. All is well when they are used up."""
    late: bool = False
    """True if it answers only after all others have ended."""
    over: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            assert self.rfile.read(int(self.headers["Content-Length"])) == b'{"is_paused": true}'
            told.asked.append(self.path.removeprefix("/api/work_pools/"))
            if told.late:
                told.over.wait(120)
            code = told.answers.pop(0) if told.answers else WELL
            if code is not None:
                self.send_response(code)
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer((settings.HOST, 0), Handler)
    told.port = listening.server_port
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    yield told
    told.over.set()
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.fixture
def said() -> list[str]:
    """Return the messages to the user who ends it."""
    return []


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[ChildProcess]:
    """A child that lives until the test is over."""
    child = sleeper(tmp_path)
    child.start()
    yield child
    child.end()


def sleeper(tmp_path: Path, code: str = "import time; time.sleep(900)") -> ChildProcess:
    return ChildProcess(name="server", arguments=("-c", code), log=tmp_path / "server.log")


def served(
    tmp_path: Path, server: Server, child: ChildProcess, said: list[str]
) -> supervisor.Supervisor:
    """Return a supervisor whose workers were never started."""
    found = supervisor.Supervisor(
        workspace=tmp_path, port=server.port, team=None, shared=False, print_line=said.append
    )
    found.server = child
    found.workers = {kind: sleeper(tmp_path) for kind in POOLS}
    return found


@pytest.mark.parametrize("answers", [[BUSY, BUSY], [None, BUSY], [500, None, None, BUSY]])
def test_a_busy_server_is_asked_until_it_has_paused_every_pool(
    answers: list[int | None], tmp_path: Path, server: Server, alive: ChildProcess, said: list[str]
) -> None:
    server.answers = [*answers, WELL, *answers]
    served(tmp_path, server, alive, said).end_workers()
    tries = len(answers) + 1
    assert server.asked == ["cpu"] * tries + ["gpu"] * tries
    assert said == []


def test_a_server_that_never_answers_is_waited_for_once_and_named(
    tmp_path: Path,
    server: Server,
    alive: ChildProcess,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "PAUSE_S", 0.2)
    server.late = True
    served(tmp_path, server, alive, said).end_workers()
    wait_until(lambda: len(server.asked) == len(POOLS))
    assert sorted(server.asked) == POOLS, "each is asked once at least"
    assert [line.partition(":")[0].split()[-1] for line in said] == ["cpu", "gpu"]
    assert all("timed out" in line for line in said)


def test_an_answer_may_take_as_long_as_all_of_the_patience(
    tmp_path: Path,
    server: Server,
    alive: ChildProcess,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    asked = urllib.request.urlopen

    def note(request: urllib.request.Request, timeout: float) -> object:
        waits.append(timeout)
        return asked(request, timeout=60)

    monkeypatch.setattr(urllib.request, "urlopen", note)
    monkeypatch.setattr(supervisor, "PAUSE_S", 600.0)
    served(tmp_path, server, alive, said).end_workers()
    assert len(waits) == len(POOLS)
    assert all(300 < each <= 600 for each in waits)


def test_a_pool_that_somebody_took_away_needs_no_pause(
    tmp_path: Path, server: Server, alive: ChildProcess, said: list[str]
) -> None:
    server.answers = [GONE]
    served(tmp_path, server, alive, said).end_workers()
    assert server.asked == POOLS
    assert said == []


def test_a_server_that_is_gone_is_not_asked(
    tmp_path: Path, server: Server, said: list[str]
) -> None:
    served(tmp_path, server, dead(tmp_path), said).end_workers()
    assert server.asked == said == []


def test_a_teams_pools_are_left_to_its_other_workers(
    tmp_path: Path, server: Server, alive: ChildProcess, said: list[str]
) -> None:
    ending = served(tmp_path, server, alive, said)
    ending.team = f"http://{settings.HOST}:{server.port}/api"
    ending.end_workers()
    assert server.asked == said == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_children_end_for_a_fault_changes_nothing(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def fail(*_: object) -> None:
        raise ServeError("worker-cpu", cause="repeatedly", cure="none")

    def end(_: object) -> None:
        os.kill(os.getpid(), number)
        ended.append("workers")

    before = signal.getsignal(number)
    monkeypatch.setattr(settings, "apply", lambda _: None)
    monkeypatch.setattr(supervisor, "await_health", lambda *_: None)
    monkeypatch.setattr(supervisor.Supervisor, "start_workers", fail)
    monkeypatch.setattr(supervisor.Supervisor, "end_workers", end)
    monkeypatch.setenv("PREFECT_API_URL", f"http://{settings.HOST}:9/api")
    with pytest.raises(ServeError, match="repeatedly"):
        supervisor.serve(tmp_path, 4200, lambda _: None)
    assert ended == ["workers"]
    assert signal.getsignal(number) == before


def dead(tmp_path: Path) -> ChildProcess:
    child = sleeper(tmp_path, code="")
    child.start()
    child.await_end()
    return child


def test_what_can_not_start_because_the_server_died_is_started_after_it(
    tmp_path: Path, server: Server, alive: ChildProcess, said: list[str]
) -> None:
    keeping, worker = served(tmp_path, server, dead(tmp_path), said), dead(tmp_path)
    assert keeping.server is not None

    def fail() -> None:
        raise ServeError("deployments", cause="nobody answers", cure="none")

    def start() -> None:
        keeping.server = alive

    keeping._restart_dead(keeping.server, fail)
    keeping._restart_dead(worker, fail)
    assert said == []
    keeping._restart_dead(keeping.server, start)
    with pytest.raises(ServeError, match="answers"):
        keeping._restart_dead(worker, fail)
    keeping._restart_dead(worker, lambda: None)
    again = "ended with exit code 0 and was restarted"
    assert said == [f"server {again}"] * 2, "the worker has the server's name here"


def test_a_server_that_dies_time_and_again_as_it_starts_is_a_fault(
    tmp_path: Path, server: Server, said: list[str]
) -> None:
    keeping = served(tmp_path, server, dead(tmp_path), said)
    assert keeping.server is not None

    def fail() -> None:
        raise ServeError("server", cause="killed", cure="none")

    for _ in range(DEATHS - 1):
        keeping._restart_dead(keeping.server, fail)
    with pytest.raises(ServeError, match="repeatedly"):
        keeping._restart_dead(keeping.server, fail)


COUNTS = """\
import signal, sys, time
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
print("ready", flush=True)
while not heard:
    time.sleep(0.01)
time.sleep(1)
print(len(heard), flush=True)
"""


def test_each_child_is_interrupted_once(tmp_path: Path) -> None:
    """Prefect's workers take a second interrupt for the wish to be killed."""
    children = [
        ChildProcess(name=name, arguments=("-c", COUNTS), log=tmp_path / name, grace_s=120.0)
        for name in ("one", "two", "three")
    ]
    for each in children:
        each.start()
    wait_until(lambda: all("ready" in each.log.read_text() for each in children))
    end_all(children)
    assert [each.log.read_text().split() for each in children] == [["ready", "1"]] * 3
