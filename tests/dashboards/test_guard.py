"""The guard of a local server, asked without a server: which requests pass, and with which headers."""

import contextlib
import itertools
from collections.abc import Mapping
from http import HTTPStatus

import pytest

from dashboards.guard import ALWAYS, Guard, Message, Receive, Scope, Send, answer_sentence

NAME, PASSED = "127.0.0.1:4200", 204
OURS = {"origin": f"http://{NAME}"}


async def _inside(scope: Scope, receive: Receive, send: Send) -> None:
    """The application that is guarded: its answer is seen only by requests that pass."""
    kind = "websocket.accept" if scope["type"] == "websocket" else "http.response.start"
    await send({"type": kind, "status": PASSED, "headers": [(b"X-Frame-Options", b"ALLOW")]})


def ask(
    headers: Mapping[str, str], *, method: str = "GET", kind: str = "http", guarded: bool = True
) -> Message:
    """The first message of an answer; asked by the server's own name unless `headers` say otherwise."""
    answers: list[Message] = []
    given_headers = {"host": NAME, **headers}
    scope = {
        "type": kind,
        "method": method,
        "path": "/api/x",
        "headers": [(name.encode(), value.encode()) for name, value in given_headers.items()],
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        answers.append(message)

    # Nothing in it waits, and a browser test beside it may have left a loop running.
    with contextlib.suppress(StopIteration):
        pages = Guard(pages=_inside, server=NAME) if guarded else _inside
        pages(scope, receive, send).send(None)
    return answers[0]


def status(headers: Mapping[str, str], *, method: str = "GET") -> int:
    return int(ask(headers, method=method)["status"])


def is_open(headers: Mapping[str, str]) -> bool:
    """Return whether a WebSocket is accepted."""
    found = ask(headers, kind="websocket")
    assert found["type"] in {"websocket.accept", "websocket.close"}
    return bool(found["type"] == "websocket.accept")


def test_programs_and_own_pages_pass_by_every_method() -> None:
    for headers, method in itertools.product(({}, OURS), ("GET", "POST", "OPTIONS")):
        assert status(headers, method=method) == PASSED
        assert is_open(headers)


def test_no_tunnel_is_opened() -> None:
    assert status({}, method="CONNECT") == 403
    assert status(OURS, method="CONNECT") == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:4200"},
        {"host": "127.0.0.1:4201"},
        {"host": "127.0.0.1"},
        {"host": ""},
        {"host": "LOCALHOST:4200"},
        {"host": "evil.example:4200", "origin": "http://evil.example:4200"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:4200"},
        {"origin": "http://localhost:4200"},
        {"origin": "null"},
        {"origin": ""},
    ],
)
def test_other_names_and_origins_are_refused_by_every_method(headers: Mapping[str, str]) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        assert status(headers, method=method) == 403
        assert not is_open(headers)
        assert ask(headers, method=method, guarded=False)["status"] == PASSED


def test_a_repeated_header_matches_nothing() -> None:
    twice = [(b"host", NAME.encode()), (b"Host", b"evil.example:4200")]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": twice}
    answers: list[Message] = []

    async def send(message: Message) -> None:
        answers.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    with contextlib.suppress(StopIteration):
        Guard(pages=_inside, server=NAME)(scope, receive, send).send(None)
    assert answers[0]["status"] == 403


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_what_the_page_of_another_port_includes_is_refused(site: str) -> None:
    """A browser names no Origin there."""
    for mode, kind in (
        *(("no-cors", "script"), ("no-cors", "image"), ("navigate", "iframe")),
        *(("navigate", "embed"), ("no-cors", "empty"), ("navigate", "object")),
    ):
        included = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": kind}
        assert status(included) == 403
        assert ask(included, guarded=False)["status"] == PASSED
    followed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert status(followed) == PASSED, "links between our own pages are followed"
    assert status(followed, method="POST") == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_own_pages_and_typed_addresses_are_answered(site: str) -> None:
    assert status({"sec-fetch-site": site}) == PASSED


def test_answers_may_not_be_framed_included_or_told_of() -> None:
    for found in (ask({}), ask({"host": "evil.example"})):
        names = [name.decode().lower() for name, _ in found["headers"]]
        headers = {name.decode().lower(): value.decode() for name, value in found["headers"]}
        assert ALWAYS.items() <= headers.items()
        assert len(names) == len(headers), "the application's own value is replaced"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in headers


def test_a_page_of_our_own_runs_one_script_and_is_kept_by_no_cache() -> None:
    answers: list[Message] = []

    async def send(message: Message) -> None:
        answers.append(message)

    for script in ("", "one()"):
        answers.clear()
        with contextlib.suppress(StopIteration):
            answer_sentence({"type": "http"}, send, HTTPStatus.OK, "a <b>", script=script).send(
                None
            )
        headers = {name.decode(): value.decode() for name, value in answers[0]["headers"]}
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert policy.count("sha256-") == len(script[:1])
        assert headers["cache-control"] == "no-store"
        assert b"a &lt;b&gt;" in answers[1]["body"]
        assert answers[1]["body"].count(b"<script>") == len(script[:1])
