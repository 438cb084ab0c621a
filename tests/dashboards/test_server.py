"""Who gets the pages, and what a page may load: asked of the application itself, without a server."""

import contextlib
import doctest
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.pipeline.next_steps import NextStep
from dashboards import charts, frame, mixture_panels, overview_panels, questions
from dashboards.guard import Guard, Message, Receive, Scope, Send
from dashboards.server import Pages, policy
from flows.settings import DASHBOARD_LOGIN

TOKEN = "a-token-of-24-characters"
NAME = "127.0.0.1:4202"
PAGE = (
    '<head><link rel="preload" href="./x.woff2"></head><script src="./a.js"></script>'
    "<script>one()</script><script>navigator.serviceWorker.register()</script>"
)


@pytest.mark.parametrize("module", [charts, questions, overview_panels, mixture_panels])
def test_examples_hold(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert (done.failed, done.attempted > 0) == (0, True)


@dataclass
class Heard:
    """What was answered."""

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
    """What stands in for marimo: a page that comes in two pieces."""
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", b"9")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": PAGE[:50].encode(), "more_body": True})
    await send({"type": "http.response.body", "body": PAGE[50:].encode()})


def ask(
    path: str = "/overview/",
    query: str = "",
    *,
    kind: str = "http",
    headers: Mapping[str, str] | None = None,
) -> Heard:
    """Ask a guard for a path; by its own name unless `headers` say otherwise."""
    heard = Heard()
    given_headers = {"host": NAME, **(headers or {})}
    scope = {
        "type": kind,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given_headers.items()],
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        heard.messages.append(message)

    names = frozenset({NAME, "localhost:4202"})
    guard = Guard(pages=Pages(built=_page), token=TOKEN, names=names, cure=DASHBOARD_LOGIN)
    # Nothing in it waits, and a browser test beside it may have left a loop running.
    with contextlib.suppress(StopIteration):
        guard(scope, receive, send).send(None)
    return heard


def known(**headers: str) -> dict[str, str]:
    """The headers of a browser that was taken in."""
    return {
        "cookie": ask(query=f"token={TOKEN}").headers["set-cookie"].partition(";")[0],
        **headers,
    }


def test_nobody_gets_in_without_the_token() -> None:
    assert ask().status == 401
    assert ask(query="token=wrong").status == 401
    assert ask(query="token=").status == 401
    assert ask(headers={"cookie": "curriculum=x"}).status == 401
    assert ask("/style.css").status == 401
    assert "curriculum dashboard" in ask().body


@given(st.text(max_size=40))
def test_no_cookie_that_isnt_ours_lets_anyone_in(said: str) -> None:
    name = known()["cookie"].partition("=")[0]
    assert ask(headers={"cookie": f"{name}={said}"}).status == 401


def test_the_token_is_taken_out_of_the_address_and_not_put_into_the_cookie() -> None:
    heard = ask("/mixtures/", f"phase=a%26b&token={TOKEN}&x=")
    assert heard.status == 303
    assert heard.headers["location"] == "/mixtures/?phase=a%26b&x="
    cookie = heard.headers["set-cookie"]
    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))


@pytest.mark.parametrize(
    "path",
    [
        *("//evil.example/", "/\\evil.example", "\\\\evil.example", "///evil.example"),
        *(
            "/\t/evil.example",
            "/\n/evil.example",
            "/\r\n\\evil.example",
            "\t//evil.example",
            " //evil.example",
        ),
        *("/%09/evil.example", "/%2f/evil.example", "/.//evil.example", "http://evil.example/"),
        *("/@evil.example", " //evil.example", "javascript:alert(1)", "/a\r\nSet-Cookie: b=c"),
    ],
)
def test_nobody_is_sent_to_another_site(path: str) -> None:
    where = ask(path, f"token={TOKEN}").headers["location"]
    # As browsers do: what they drop from an address, and which bars they take for a slash.
    dropped = where.translate(dict.fromkeys(map(ord, "\t\r\n"))).strip().replace("\\", "/")
    assert urljoin(f"http://{NAME}/", dropped).startswith(f"http://{NAME}/")
    assert not re.match(r"/?/", dropped[1:])
    assert where.isprintable()


def test_who_was_taken_in_gets_the_pages_their_style_and_the_first_one() -> None:
    assert ask(headers=known()).status == 200
    assert ask(headers=known(host="localhost:4202")).status == 200
    style = ask("/style.css", headers=known())
    assert (style.headers["content-type"], style.body) == ("text/css", frame.style())
    assert ask("/", headers=known()).headers["location"] == "/overview/"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:4202"},
        {"host": "127.0.0.1:4203"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:4200"},
        {"origin": "null"},
    ],
)
def test_other_sites_get_nothing_even_with_our_cookie(headers: Mapping[str, str]) -> None:
    assert ask(headers=known(**headers)).status == 403
    closed = ask("/overview/ws", kind="websocket", headers=known(**headers))
    assert [each["type"] for each in closed.messages] == ["websocket.close"]


def test_a_socket_needs_the_token_too() -> None:
    closed = ask("/overview/ws", kind="websocket")
    assert [each["type"] for each in closed.messages] == ["websocket.close"]
    closed = ask("/overview/ws", f"token={TOKEN}", kind="websocket")
    assert [each["type"] for each in closed.messages] == ["websocket.close"]


def test_a_page_runs_the_scripts_that_it_came_with_and_leaves_nothing_behind() -> None:
    heard = ask(headers=known(origin=f"http://{NAME}"))
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
