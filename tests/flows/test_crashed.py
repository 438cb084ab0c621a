"""Runs that crashed with nobody alive to say so are told once each, whatever ends or fails between."""

import base64
import datetime
import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from curriculum.pipeline import notifications
from curriculum.pipeline.notifiers import EventSource
from curriculum.store import Store
from flows import settings
from flows.server import crash_detection
from flows.server.crash_detection import (
    LOOKS,
    PAGE,
    Crash,
    CrashWatch,
    crash_sender,
    crashes_since,
    sent_until,
)
from flows.settings.contexts import context_of
from schemas.progress import Event

NOW = datetime.datetime.now(datetime.UTC)
POOLS = ["cpu-lab", "gpu-lab"]


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now is when a test begins; the file may have been read long before."""
    monkeypatch.setitem(globals(), "NOW", datetime.datetime.now(datetime.UTC))


def at(minutes: float) -> datetime.datetime:
    """A time, in minutes from now."""
    return NOW + datetime.timedelta(minutes=minutes)


@dataclass
class Server:
    """A stand-in for a Prefect server: what it knows of runs, and what it was asked."""

    api: str = ""
    runs: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    broken: bool = False

    def crash(
        self, run: str, when: datetime.datetime, pool: str = "cpu-lab", state: str = "s"
    ) -> None:
        """A run that is Crashed since then."""
        self.runs = [each for each in self.runs if each["id"] != run]
        self.runs.append(
            {
                "id": run,
                "name": f"run {run}",
                "parameters": {"specialist": "templates.demo", "changes": {}},
                "end_time": when.isoformat().replace("+00:00", "Z"),
                "state": {"id": state, "type": "CRASHED", "message": "No heartbeat for 90 s."},
                "work_pool_name": pool,
                "more": "that we don't know",
            }
        )

    def answer(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        """Return a Prefect server's response to these filters."""
        assert asked["flow_runs"]["state"] == {"type": {"any_": ["CRASHED"]}}
        assert asked["sort"] == "END_TIME_DESC"
        after = datetime.datetime.fromisoformat(asked["flow_runs"]["end_time"]["after_"])
        fit = [
            each
            for each in self.runs
            if each["work_pool_name"] in asked["work_pools"]["name"]["any_"]
            and datetime.datetime.fromisoformat(each["end_time"]) >= after
        ]
        fit.sort(key=lambda each: str(each["end_time"]), reverse=True)
        return fit[asked["offset"] :][: asked["limit"]]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that answers until the test ends."""
    stand_in = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/api/flow_runs/filter"
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stand_in.headers.append(dict(self.headers))
            self.send_response(503 if stand_in.broken else 200)
            self.end_headers()
            if not stand_in.broken:
                self.wfile.write(json.dumps(stand_in.answer(body)).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in.api = f"http://127.0.0.1:{listening.server_port}/api"
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    yield stand_in
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace that was served before."""
    Store(tmp_path / "lab").open()
    return tmp_path / "lab"


def crash_watcher(server: Server, home: Path, said: list[str] | None = None) -> CrashWatch:
    """One that begins: what it counted before is gone, as after a restart of serve."""
    return CrashWatch(
        workspace=home,
        ask=lambda when: crashes_since(server.api, POOLS, when),
        send=crash_sender(home, (said if said is not None else []).append),
    )


def look(watching: CrashWatch, times: int = LOOKS) -> None:
    """Look some times, by default as often as makes a run due."""
    for _ in range(times):
        watching.look()


def test_a_run_that_nobody_told_of_is_told_once_in_the_words_of_its_state(
    server: Server, home: Path, sent_events: Callable[[], list[Event]]
) -> None:
    server.crash("a", at(-1))
    look(crash_watcher(server, home), 3 * LOOKS)
    (event,) = sent_events()
    assert event.event == "crashed"
    assert event.text.startswith("run a ")
    assert event.text.endswith(": No heartbeat for 90 s.")
    assert (event.workspace, event.specialist, event.branch) == ("lab", "templates", "demo")


def test_a_process_that_lives_has_time_to_tell_it_itself(
    server: Server, home: Path, sent_events: Callable[[], list[Event]]
) -> None:
    server.crash("a", at(-1), state="killed")
    watching = crash_watcher(server, home)
    look(watching, LOOKS - 1)
    assert sent_events() == []
    whose = EventSource(home=home, specialist="templates")
    assert notifications.broken_down(
        whose, "run a", "its own words", mark="a-killed", context=context_of()
    )
    look(watching, LOOKS)
    (event,) = sent_events()
    assert event.text.endswith(": its own words")


def test_a_restart_neither_repeats_nor_loses_one(
    server: Server, home: Path, sent_events: Callable[[], list[Event]]
) -> None:
    server.crash("a", at(-5))
    look(crash_watcher(server, home))
    server.crash("b", at(-4))
    look(crash_watcher(server, home), LOOKS - 1)
    server.crash("c", at(-4))
    look(crash_watcher(server, home), 2 * LOOKS)
    assert sorted(each.text[:5] for each in sent_events()) == ["run a", "run b", "run c"]


def test_what_crashed_while_nothing_was_served_is_told_at_the_start(
    server: Server, home: Path, sent_events: Callable[[], list[Event]]
) -> None:
    server.crash("a", at(-3 * 24 * 60))
    look(crash_watcher(server, home))
    assert sent_events() == [], "before anybody ever looked"
    (settings.prefect_folder(home) / "crashes-told.txt").write_text(at(-4 * 24 * 60).isoformat())
    look(crash_watcher(server, home))
    assert len(sent_events()) == 1


def test_a_first_look_that_finds_nothing_is_remembered_too(
    server: Server,
    home: Path,
    sent_events: Callable[[], list[Event]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as yesterday:
        yesterday.setattr(crash_detection, "START", datetime.timedelta(days=1))
        look(crash_watcher(server, home), 1)
    server.crash("a", at(-60))
    look(crash_watcher(server, home))
    assert len(sent_events()) == 1


def test_what_is_no_news_any_more_isnt_told(home: Path) -> None:
    (settings.prefect_folder(home) / "crashes-told.txt").write_text(at(-60 * 24 * 60).isoformat())
    assert sent_until(home) > at(-8 * 24 * 60)
    (settings.prefect_folder(home) / "crashes-told.txt").write_text("")
    assert sent_until(home) > at(-11)


def test_a_run_that_is_retried_and_crashes_again_is_told_again(
    server: Server, home: Path, sent_events: Callable[[], list[Event]]
) -> None:
    watching = crash_watcher(server, home)
    server.crash("a", at(-5), state="first")
    look(watching)
    server.runs.clear()
    look(watching)
    server.crash("a", at(-1), state="second")
    look(watching, 2 * LOOKS)
    assert len(sent_events()) == 2


def test_runs_of_other_workspaces_of_a_teams_server_arent_ours(
    server: Server, home: Path, sent_events: Callable[[], list[Event]]
) -> None:
    server.crash("theirs", at(-1), pool="cpu-other")
    server.crash("ours", at(-1), pool="gpu-lab")
    look(crash_watcher(server, home))
    assert [each.text[:8] for each in sent_events()] == ["run ours"]


def test_what_doesnt_arrive_is_sent_later_and_the_rest_waits_behind_it(
    server: Server,
    home: Path,
    sent_events: Callable[[], list[Event]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.crash("a", at(-3))
    server.crash("b", at(-2))
    said: list[str] = []
    watching = crash_watcher(server, home, said)
    with monkeypatch.context() as away:
        away.setenv("CURRICULUM_NOTIFY", "false")
        look(watching)
    assert len(said) == 1, "each would hold the others up as long as a target may hang"
    assert sent_until(home) == at(-3)
    look(crash_watcher(server, home))
    assert [each.text[:5] for each in sent_events()] == ["run a", "run b"]


def test_a_disk_without_room_for_a_mark_doesnt_make_it_tell_again_and_again(
    server: Server,
    home: Path,
    sent_events: Callable[[], list[Event]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "touch", full)
    server.crash("a", at(-1))
    said: list[str] = []
    look(crash_watcher(server, home, said), 3 * LOOKS)
    assert len(sent_events()) == 1
    assert len(said) == 1
    assert "Could not record" in said[0]


def test_all_of_many_are_found(server: Server) -> None:
    for number in range(2 * PAGE + 1):
        server.crash(str(number), at(-number / 1000))
    found = crashes_since(server.api, POOLS, at(-10))
    assert len({each.mark for each in found}) == 2 * PAGE + 1


def test_it_keeps_looking_where_the_server_is_away_and_says_so_once(
    server: Server,
    home: Path,
    sent_events: Callable[[], list[Event]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.crash("a", at(-1))
    server.broken = True
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        server.broken = len(pauses) < 3
        if len(pauses) == 3 + LOOKS:
            raise KeyboardInterrupt

    # In place of the module: other threads of this process sleep, too.
    monkeypatch.setattr(crash_detection, "time", SimpleNamespace(sleep=pause))
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        crash_detection.watch(server.api, home, POOLS, said.append)
    assert len(said) == 1
    assert "503" in said[0]
    assert len(sent_events()) == 1


def test_it_says_who_asks_where_a_server_wants_to_know(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes_since(server.api, POOLS, NOW)
    monkeypatch.setenv("PREFECT_API_KEY", "key")
    crashes_since(server.api, POOLS, NOW)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "me:word")
    crashes_since(server.api, POOLS, NOW)
    basic = base64.b64encode(b"me:word").decode()
    assert [each.get("Authorization") for each in server.headers] == [
        *(None, "Bearer key", f"Basic {basic}")
    ]


def test_a_run_without_a_word_or_a_specialist_is_told_all_the_same(
    home: Path, sent_events: Callable[[], list[Event]]
) -> None:
    crash = Crash(mark="x", title="nap", specialist="", why="no reason given", when=NOW)
    assert crash_sender(home, lambda words: None)(crash)
    assert sent_events()[0].text.endswith(": no reason given")
