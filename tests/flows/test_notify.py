"""Events arrive whole, and a target that fails, hangs or refuses costs a warning and a bounded wait."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import apprise
import psutil
import pytest

from curriculum.pipeline import notifiers as notifying
from curriculum.pipeline.notifiers import EventSource, event_of, is_url, takes_json
from curriculum.store import Store
from curriculum.store.store import WorkspaceFile
from flows.settings.contexts import context_of
from schemas.progress import Event

VARIABLE = "CURRICULUM_NOTIFY"


@dataclass
class Server:
    """A server that answers as it is told, and remembers what it was sent."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    """Codes, the next first; 200 when they are used up."""
    hangs: threading.Event = field(default_factory=threading.Event)
    """Set: let go."""
    drips: bool = False
    over: threading.Event = field(default_factory=threading.Event)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.headers.append(dict(self.headers))
            server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            server.hangs.wait(600)
            if server.drips:
                self._drip()
                return
            code = server.answers.pop(0) if server.answers else 200
            self.send_response(code)
            if 300 <= code < 400:
                self.send_header("Location", server.url)
            self.end_headers()

        def do_GET(self) -> None:
            server.bodies.append(b"GET")
            self.send_response(200)
            self.end_headers()

        def _drip(self) -> None:
            """A byte now and then: no read ever runs into its limit."""
            while not server.over.wait(0.05):
                try:
                    self.wfile.write(b"H")
                    self.wfile.flush()
                except OSError:
                    return

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A target on this machine, with pauses that a test can wait for."""
    monkeypatch.setattr(notifying, "PAUSES_S", (0.01, 0.01))
    told = Server()
    told.hangs.set()
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _handler(told))
    told.url = f"http://127.0.0.1:{listening.server_port}/hook/secret"
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv(VARIABLE, told.url)
    yield told
    told.hangs.set()
    told.over.set()
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.fixture
def whose(tmp_path: Path) -> EventSource:
    """A specialist in a workspace with a name."""
    (tmp_path / "workspace.json").write_text(WorkspaceFile(uuid="u", name="lab").model_dump_json())
    assert Store(tmp_path).workspace().name == "lab"
    return EventSource(home=tmp_path, specialist="templates", branch="wide")


def _warnings_of(whose: EventSource, kind: str = "done") -> list[str]:
    """The warnings of one event."""
    said: list[str] = []
    run = whose.home / "runs" / "specialist-templates" / "attempt=1"
    context = context_of(warn=said.append)
    context.notifier.notify(
        whose,
        kind,  # type: ignore[arg-type]
        "Größe: ¼ – “fertig”",
        phase="syntax",
        run=run,
        warn=context.warn,
    )
    return said


def test_a_url_gets_the_event_as_json_by_post(server: Server, whose: EventSource) -> None:
    assert _warnings_of(whose, "gate_waiting") == []
    event = Event.model_validate_json(server.bodies[0])
    assert event.model_dump(exclude={"when"}) == {
        "event": "gate_waiting",
        "text": "Größe: ¼ – “fertig”",
        "workspace": "lab",
        "specialist": "templates",
        "branch": "wide",
        "phase": "syntax",
        "run": "runs/specialist-templates/attempt=1",
    }
    assert event.when.endswith("+00:00")
    assert server.headers[0]["Content-Type"] == "application/json"
    assert len(server.bodies) == 1


def test_without_a_target_nothing_is_sent(
    whose: EventSource, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.delenv(VARIABLE)
    assert _warnings_of(whose) == []
    assert server.bodies == []


def test_a_server_that_fails_twice_gets_it_at_the_third_try(
    server: Server, whose: EventSource
) -> None:
    server.answers = [500, 503]
    assert _warnings_of(whose) == []
    assert len(server.bodies) == 3
    assert len(set(server.bodies)) == 1


def test_a_server_that_keeps_failing_is_named_without_its_secret(
    server: Server, whose: EventSource
) -> None:
    server.answers = [500] * 9
    (said,) = _warnings_of(whose)
    host = server.url.removesuffix("/hook/secret")
    assert said.startswith("done ")
    assert f" {host}: " in said
    assert "500 Internal Server Error" in said
    assert len(server.bodies) == 3


@pytest.mark.parametrize("code", [400, 404, 301, 307])
def test_what_no_other_try_would_change_is_tried_once(
    server: Server, whose: EventSource, code: int
) -> None:
    server.answers = [code]
    (said,) = _warnings_of(whose)
    assert str(code) in said
    assert len(server.bodies) == 1, "a redirected POST would arrive without its body"


@pytest.mark.parametrize("drips", [False, True])
def test_a_server_that_hangs_or_drips_holds_nobody_up_for_longer_than_its_limit(
    server: Server, whose: EventSource, monkeypatch: pytest.MonkeyPatch, drips: bool
) -> None:
    monkeypatch.setattr(notifying, "POST_S", 0.2)
    server.drips = drips
    if not drips:
        server.hangs.clear()
    (said,) = _warnings_of(whose)
    assert "no answer within 0.2 s" in said or "timed out" in said
    # A server that is slow to hear hears of the last one later.
    _wait_until(lambda: len(server.bodies) == 3)
    assert len({*server.bodies}) == 1


def test_nobody_listening_is_a_warning(
    whose: EventSource, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{free.getsockname()[1]}/x")
        (said,) = _warnings_of(whose)
    assert "refused" in said


@pytest.mark.parametrize(
    "url", ["http://", "http://[", "https://user:hunter2@127.0.0.1/x", "http://a b/x"]
)
def test_what_is_no_url_is_a_warning_that_keeps_passwords(
    whose: EventSource, monkeypatch: pytest.MonkeyPatch, server: Server, url: str
) -> None:
    monkeypatch.setenv(VARIABLE, url)
    (said,) = _warnings_of(whose)
    assert "wasn't sent" in said
    assert "hunter2" not in said


def _script(tmp_path: Path, text: str) -> str:
    file = tmp_path / "tell it.py"
    file.write_text(text)
    return f"{sys.executable} '{file}' --token hunter2"


def test_a_command_gets_the_event_on_its_stdin(
    whose: EventSource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    got = tmp_path / "got.json"
    script = f"import sys; open({str(got)!r}, 'wb').write(sys.stdin.buffer.read()); print('loud')"
    monkeypatch.setenv(VARIABLE, _script(tmp_path, script))
    assert _warnings_of(whose, "not_finite") == []
    assert Event.model_validate_json(got.read_bytes()).event == "not_finite"
    assert json.loads(got.read_bytes())["text"] == "Größe: ¼ – “fertig”"
    assert capfd.readouterr() == ("", ""), "a command's words would spoil --json"


def test_a_command_runs_without_a_shell(
    whose: EventSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired = tmp_path / "fired"
    command = f"echo done; touch {fired}"
    monkeypatch.setenv(VARIABLE, command)
    _warnings_of(whose)
    assert not fired.exists()
    subprocess.run(command, shell=True, check=True)
    assert fired.exists(), "a shell would have run the second command"


def test_a_command_that_fails_is_named_with_its_last_words_and_without_its_arguments(
    whose: EventSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, _script(tmp_path, "print('a'); raise SystemExit('no such chat')"))
    (said,) = _warnings_of(whose)
    name = Path(sys.executable).name
    assert said.startswith("done ")
    assert f" {name}: it ended with 1: no such chat. " in said


def test_a_command_that_hangs_is_killed_with_its_children(
    whose: EventSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"
    monkeypatch.setenv(VARIABLE, f"sh -c 'sleep 600 & echo $! > {child}; sleep 600'")
    for seconds in (0.4, 4.0, 40.0):
        monkeypatch.setattr(notifying, "COMMAND_S", seconds)
        (said,) = _warnings_of(whose)
        assert f"didn't end within {seconds:g} s and was killed" in said
        if child.is_file() and child.read_text().endswith("\n"):
            break  # On a busy machine it may be killed before it has a child.
    pid = int(child.read_text())
    _wait_until(lambda: not _works(pid))


def _works(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("command", ["no-such-program", "'unclosed", " ", "/"])
def test_what_is_no_command_is_a_warning(
    whose: EventSource, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv(VARIABLE, command)
    (said,) = _warnings_of(whose)
    assert said.startswith("done ")


def test_a_command_that_reads_nothing_is_none_the_worse(
    whose: EventSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "true")
    assert _warnings_of(whose) == []


def test_a_workspace_that_cant_be_read_is_named_after_its_folder(
    server: Server, tmp_path: Path
) -> None:
    home = tmp_path / "gone"
    assert _warnings_of(EventSource(home=home, specialist="x")) == []
    assert json.loads(server.bodies[0])["workspace"] == "gone"


def test_a_warning_goes_to_stderr_where_nobody_else_takes_it(
    whose: EventSource, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "false")
    context = context_of()
    context.notifier.notify(whose, "crashed", "text", warn=context.warn)
    out, err = capsys.readouterr()
    assert out == ""
    assert " false: it ended with 1" in err


def _service(server: Server, monkeypatch: pytest.MonkeyPatch, options: str = "") -> None:
    monkeypatch.setenv(VARIABLE, server.url.replace("http://", "JSON://") + options)


def test_a_service_of_apprise_gets_the_event_as_text(
    server: Server,
    whose: EventSource,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    _service(server, monkeypatch)
    assert _warnings_of(whose, "gate_not_met") == []
    (body,) = server.bodies
    sent = json.loads(body)
    assert sent["title"] == "templates: gate not met"
    assert sent["type"] == "warning"
    first, empty, *fields = sent["message"].splitlines()
    assert (first, empty) == ("Größe: ¼ – “fertig”", "")
    assert fields[:5] == [
        "workspace: lab",
        "specialist: templates",
        "branch: wide",
        "phase: syntax",
        "run: runs/specialist-templates/attempt=1",
    ]
    assert fields[5].startswith("when: 20")
    assert capfd.readouterr() == ("", "")


def test_a_service_that_fails_twice_gets_it_at_the_third_try(
    server: Server, whose: EventSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    _service(server, monkeypatch)
    server.answers = [500, 503]
    assert _warnings_of(whose) == []
    assert len(server.bodies) == 3


@pytest.mark.parametrize("options", ["", "?redirect=yes"])
@pytest.mark.parametrize("code", [301, 307, 500])
def test_a_service_that_keeps_failing_or_leads_elsewhere_is_a_warning_without_its_secret(
    server: Server,
    whose: EventSource,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    code: int,
    options: str,
) -> None:
    _service(server, monkeypatch, options)
    server.answers = [code] * 9
    assert _warnings_of(whose) == [
        "done wasn't sent to json://…: it wasn't delivered; `apprise -v -b test URL` says why. "
        "See $CURRICULUM_NOTIFY."
    ]
    assert len(server.bodies) == 3
    assert b"GET" not in server.bodies, "a redirect was followed"
    assert capfd.readouterr() == ("", "")


def test_a_service_that_hangs_holds_nobody_up_for_longer_than_its_limit(
    server: Server, whose: EventSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    _service(server, monkeypatch)
    monkeypatch.setattr(notifying, "SERVICE_S", 0.2)
    server.hangs.clear()
    (said,) = _warnings_of(whose)
    assert "no answer within 0.2 s" in said


@pytest.mark.parametrize(
    ("url", "is_known"),
    [
        ("mailto://ada:hunter2@example.org", True),
        ("mailto://", False),
        ("mailto://hunter2", False),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#runs", True),
        ("slack://hunter2", False),
        ("hunter2://x", False),
    ],
)
def test_a_url_of_a_service_is_sent_to_or_refused_with_a_warning_that_keeps_passwords(
    whose: EventSource, monkeypatch: pytest.MonkeyPatch, url: str, is_known: bool
) -> None:
    bodies: list[str] = []

    def notify(services: apprise.Apprise, body: str, **_: object) -> bool:
        bodies.append(body)
        return True

    monkeypatch.setattr(apprise.Apprise, "notify", notify)
    monkeypatch.setenv(VARIABLE, url)
    warnings = _warnings_of(whose)
    assert len(bodies) == is_known
    if is_known:
        assert warnings == []
    else:
        (said,) = warnings
        assert "apprise" in said
        assert "hunter2" not in said.replace("hunter2://…", "")


def test_urls_are_told_from_commands() -> None:
    assert is_url("https://x")
    assert is_url("HTTP://x")
    assert is_url("slack://x")
    assert not is_url("/usr/bin/https")
    assert not is_url("httpie x")
    assert not is_url("mail https://x")
    assert takes_json("HTTP://x")
    assert not takes_json("json://x")


@pytest.mark.parametrize("text", [None, "{"])
def test_an_event_of_a_workspace_whose_record_is_lost_or_damaged_has_its_folders_name(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "workspace.json").write_text(text)
    source = EventSource(home=tmp_path, specialist="templates", branch=None)
    assert event_of(source, "done", "text", phase=None, run=None).workspace == tmp_path.name
