"""Access to pages and their permitted resources, tested on the application without a server."""

import contextlib
import doctest
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.pipeline.next_steps import NextStep
from dashboards import frame, overview_panels, questions
from dashboards.guard import Application, Guard, Message, Receive, Scope, Send
from dashboards.server import LOGIN, Pages, policy

PATH = "0123456789abcdef0123456789abcdef"
NAME = "127.0.0.1:4202"
PAGE = (
    '<head><link rel="preload" href="./x.woff2"></head><script src="./a.js"></script>'
    "<script>one()</script><script>navigator.serviceWorker.register()</script>"
)


@pytest.mark.parametrize("module", [questions, overview_panels])
def test_examples_hold(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert (done.failed, done.attempted > 0) == (0, True)


@dataclass
class Heard:
    """A recorded response."""

    messages: list[Message] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.messages[0].get("status", 0))

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> str:
        return b"".join(each.get("body", b"") for each in self.messages[1:]).decode()


async def _page(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a page in two pieces in place of marimo."""
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", b"9")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": PAGE[:50].encode(), "more_body": True})
    await send({"type": "http.response.body", "body": PAGE[50:].encode()})


def ask(
    path: str = f"/{PATH}/overview/",
    *,
    kind: str = "http",
    headers: Mapping[str, str] | None = None,
    built: Application | None = _page,
) -> Heard:
    """Ask a guard for a path; by its own name unless `headers` say otherwise."""
    heard = Heard()
    given_headers = {"host": NAME, **(headers or {})}
    scope = {
        "type": kind,
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given_headers.items()],
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        heard.messages.append(message)

    guard = Guard(pages=Pages(path=PATH, built=built), server=NAME)
    # Nothing in it waits, and a browser test beside it may have left a loop running.
    with contextlib.suppress(StopIteration):
        guard(scope, receive, send).send(None)
    return heard


@pytest.mark.parametrize(
    "path",
    [
        *("/", "", "/overview/", "/reports/", "/style.css", "/overview/ws", f"/{PATH}"),
        *(f"/{PATH[:-1]}/overview/", f"/{PATH}0/overview/", f"/{PATH.upper()}/overview/"),
        *(f"//{PATH}/overview/", f"/./{PATH}/overview/", f"/x/../{PATH}/overview/", "/ä/"),
        *(f"/{'f' * 32}/overview/", f"/{PATH}\\overview", f"/ {PATH}/overview/", f"{PATH}/"),
    ],
)
def test_outside_of_the_path_all_answers_are_one_page_that_holds_nothing(path: str) -> None:
    found = ask(path)
    assert found.status == 404
    assert LOGIN in found.body.replace("&#39;", "'")
    assert (found.headers, found.body) == (ask("/").headers, ask("/").body)
    assert PATH not in found.body + str(found.headers)
    closed = ask(path, kind="websocket")
    assert [message["type"] for message in closed.messages] == ["websocket.close"]
    assert ask().status == 200, "below the path the same page is shown"


@given(st.text(max_size=40))
def test_no_guessed_path_leads_in(path: str) -> None:
    assert ask(f"/{path}").status == 404
    assert ask(f"/{path}/overview/").status == 404


def test_below_the_path_are_the_pages_their_style_and_the_first_one() -> None:
    style = ask(f"/{PATH}/style.css")
    assert (style.headers["content-type"], style.body) == ("text/css", frame.style())
    assert ask(f"/{PATH}/").headers["location"] == "overview/"
    assert ask(f"/{PATH}/", built=None).headers["location"] == "reports/"
    assert ask(built=None).status == 404, "no dashboards are installed"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:4202"},
        {"host": "localhost:4202"},
        {"host": "127.0.0.1:4203"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:4200"},
        {"origin": "null"},
    ],
)
def test_other_sites_get_nothing_even_if_they_know_the_path(headers: Mapping[str, str]) -> None:
    assert ask(headers=headers).status == 403
    closed = ask(f"/{PATH}/overview/ws", kind="websocket", headers=headers)
    assert [message["type"] for message in closed.messages] == ["websocket.close"]


def test_a_page_runs_the_scripts_that_it_came_with_and_leaves_nothing_behind() -> None:
    heard = ask(headers={"origin": f"http://{NAME}"})
    assert "serviceWorker" not in heard.body
    assert "preload" not in heard.body
    assert heard.headers["content-length"] == str(len(heard.body.encode()))
    said = heard.headers["content-security-policy"]
    assert said == policy(heard.body, NAME)
    scripts = next(each for each in said.split("; ") if each.startswith("script-src"))
    assert scripts.count("sha256-") == 1
    assert "unsafe" not in scripts
    assert "default-src 'none'" in said
    assert f"connect-src 'self' ws://{NAME}" in said
    assert heard.headers["x-content-type-options"] == "nosniff"
    assert heard.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in heard.headers


def test_each_page_says_where_it_is_and_whose() -> None:
    head = frame.header("runs")
    assert head.count("aria-current") == 1
    assert 'href="../runs/" aria-current="page">Runs compared' in head
    assert [f"../{each.name}/" in head for each in frame.PAGES] == [True] * 4


@given(st.text(max_size=30))
def test_text_that_people_wrote_never_becomes_markup(said: str) -> None:
    shown = frame.first_steps(said, f"a{said}", [NextStep(command=said, effect=said)])
    assert shown.count("<") == 14
    assert "\0" not in shown
