"""Questions take turns: no number of pages makes a server answer more than a few at once."""

import asyncio
import doctest
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from curriculum.catalog import CatalogError
from curriculum.catalog.page_query import Limits, ask
from curriculum.sandbox import landlock
from dashboards import questions, sql_panels
from dashboards.questions import OpenPages, Turns, Watched, session_of

ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(10000000000) b WHERE a.range < b.range"


def _never() -> bool:
    return False


def test_no_more_than_a_few_questions_are_answered_at_once_and_in_order() -> None:
    line = Turns(most=2)
    lock, now, most = threading.Lock(), 0, 0
    order: list[int] = []
    seen: dict[int, list[int]] = {number: [] for number in range(6)}

    def one(number: int) -> None:
        nonlocal now, most
        with line.turn(seen[number].append, _never):
            with lock:
                now += 1
                order.append(number)
                most = max(most, now)
            time.sleep(0.15)
            with lock:
                now -= 1

    with ThreadPoolExecutor(6) as pool:
        done = []
        for number in range(6):
            done.append(pool.submit(one, number))
            time.sleep(0.01)
        for each in done:
            each.result()
    assert most == 2
    assert sorted(order[4:]) == [4, 5]
    assert seen[0] == seen[1] == []
    assert seen[5][0] == 5
    assert seen[5] == sorted(seen[5], reverse=True)


def test_a_question_that_waits_too_long_or_behind_too_many_is_refused() -> None:
    line = Turns(most=1, places=1, seconds=0.3)
    shown: list[int] = []
    with line.turn(shown.append, _never):
        with pytest.raises(CatalogError, match="waited"), line.turn(shown.append, _never):
            pytest.fail("it had a turn")
        assert shown == [1]
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(lambda: line.turn(shown.append, _never).__enter__())
            time.sleep(0.1)
            with (
                pytest.raises(CatalogError, match="already waiting"),
                line.turn(shown.append, _never),
            ):
                pytest.fail("it had a turn")
            assert isinstance(first.exception(), CatalogError)
    with line.turn(shown.append, _never):
        pass


def test_servers_of_a_user_take_their_turns_together(tmp_path: Path) -> None:
    one, other = (Turns(most=2, slots=tmp_path) for _ in range(2))
    late = Turns(most=2, slots=tmp_path, seconds=0.3)
    shown: list[int] = []
    with one.turn(shown.append, _never):
        with other.turn(shown.append, _never):
            assert shown == []
            with (
                pytest.raises(CatalogError, match="queries of other servers"),
                late.turn(shown.append, _never),
            ):
                pytest.fail("it had a turn")
            assert shown == [0]
            # The control: a server that shares no folder answers.
            with Turns(most=2).turn(shown.append, _never):
                pass
        with late.turn(shown.append, _never):
            pass
    assert shown == [0]


def test_a_server_that_is_killed_gives_its_turn_back(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time\n"
        "from dashboards.questions import Turns\n"
        "with Turns(most=1, slots=pathlib.Path(sys.argv[1])).turn(print, lambda: False):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)\n"
    )
    line = Turns(most=1, slots=tmp_path, seconds=0.3)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CatalogError, match="other servers"), line.turn(print, _never):
            pytest.fail("it had a turn")
        holder.kill()
        holder.wait()
    with line.turn(print, _never):
        pass


def test_dashboard_servers_share_the_folder_of_their_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions.TURNS, "slots", None)
    (tmp_path / "questions").mkdir()
    questions.share(tmp_path / "questions")
    assert questions.TURNS.slots == tmp_path / "questions"
    with questions.TURNS.turn(print, _never):
        assert [each.name for each in (tmp_path / "questions").iterdir()] == ["0.lock"]


@pytest.mark.parametrize("event", ["asks", "forget"])
def test_a_waiting_question_whose_page_asks_anew_or_is_closed_leaves_the_line(event: str) -> None:
    pages, line = OpenPages(), Turns(most=1)
    pages.opened("s")
    given_up = pages.given_up("s")
    with line.turn(print, _never):
        threading.Timer(0.1, getattr(pages, event), ["s"]).start()
        with pytest.raises(CatalogError, match="its page"), line.turn(lambda _: None, given_up):
            pytest.fail("it had a turn")
    assert not pages.given_up("s")()


@pytest.mark.skipif(not landlock(), reason="needs Landlock")
def test_the_process_of_a_question_that_is_given_up_ends(tmp_path: Path) -> None:
    pages = OpenPages()
    pages.opened("s")
    threading.Timer(1.0, pages.forget, ["s"]).start()
    begin = time.monotonic()
    with pytest.raises(CatalogError, match="its page"):
        ask(tmp_path, ENDLESS, Limits(seconds=60), pages.given_up("s"))
    assert time.monotonic() - begin < 30


@pytest.mark.skipif(not landlock(), reason="needs Landlock")
def test_the_page_shows_the_place_in_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Turns(most=1)
    monkeypatch.setattr(sql_panels, "TURNS", line)
    shown: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        with line.turn(print, _never):
            asked = pool.submit(sql_panels.outcome, tmp_path, "SELECT 42 AS it", show=shown.append)
            time.sleep(0.5)
        came = asked.result()
    assert "Waiting for 1 query." in shown[0]
    assert "Running the query" in shown[-1]
    assert "42" in came.shown


def _passed(watched: Watched, scope: dict[str, Any], during: Any = None) -> None:
    async def go() -> None:
        await watched(scope, None, None)

    asyncio.run(go())


def test_marimos_pages_are_watched_by_their_sessions() -> None:
    pages, during = OpenPages(), []

    def app(scope: Any, *_: Any) -> Awaitable[None]:
        async def done() -> None:
            during.append(pages.given_up("s1"))

        return done()

    watched = Watched(pages=app, open_pages=pages)
    socket = {
        "type": "websocket",
        "path": "/sql/ws",
        "query_string": b"session_id=s1",
        "headers": [],
    }
    _passed(watched, socket)
    assert during[0](), "its page is closed"
    pages.opened("s1")
    before = pages.given_up("s1")
    post = {
        "type": "http",
        "path": "/sql/api/kernel/set_ui_element_value",
        "headers": [(b"marimo-session-id", b"s1")],
    }
    _passed(watched, {**post, "path": "/sql/api/status"})
    assert not before()
    _passed(watched, {**post, "headers": [(b"marimo-session-id", b"unknown")]})
    assert not before()
    _passed(watched, post)
    assert before()
    assert session_of(None) == ""
    first = SimpleNamespace(headers={}, query_params={"session_id": ["s1"]})
    assert session_of(first) == "s1"
    assert session_of(SimpleNamespace(headers={"marimo-session-id": "s2"}, query_params={})) == "s2"


def test_examples_hold() -> None:
    assert questions.MAX_RUNNING == 2
    assert doctest.testmod(sql_panels).failed == 0
