"""The guard of a server of ours, asked without a server: who passes, who is refused, where a login leads."""

import contextlib
import itertools
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.guard import (
    ALWAYS,
    Guard,
    Message,
    Receive,
    Scope,
    Send,
    authorization,
    login,
    secret_of,
    split_login,
)

TOKEN, NAME, PASSED = "a-token-of-24-characters", "127.0.0.1:4200", 204
OWNER = {"authorization": authorization(secret_of(TOKEN))}
OURS = {"origin": f"http://{NAME}"}


async def _inside(scope: Scope, receive: Receive, send: Send) -> None:
    """The application that is guarded: its answer is seen by those alone who passed."""
    kind = "websocket.accept" if scope["type"] == "websocket" else "http.response.start"
    await send({"type": kind, "status": PASSED, "headers": []})


def ask(
    headers: Mapping[str, str],
    *,
    method: str = "GET",
    kind: str = "http",
    path: str = "/api/x",
    query: str = "",
    followed_below: str | None = None,
) -> Message:
    """The first message of an answer; asked by the server's own name unless `headers` say otherwise."""
    said: list[Message] = []
    given_headers = {"host": NAME, **headers}
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given_headers.items()],
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        said.append(message)

    guard = Guard(
        pages=_inside,
        token=TOKEN,
        names=frozenset({NAME}),
        cure="no",
        secret=secret_of(TOKEN),
        followed_below=followed_below,
    )
    # Nothing in it waits, and a browser test beside it may have left a loop running.
    with contextlib.suppress(StopIteration):
        guard(scope, receive, send).send(None)
    return said[0]


def status(headers: Mapping[str, str], *, method: str = "GET", path: str = "/api/x") -> int:
    return int(ask(headers, method=method, path=path)["status"])


def is_open(headers: Mapping[str, str]) -> bool:
    """Whether a WebSocket is accepted; else it is closed before that."""
    answer = ask(headers, kind="websocket")
    assert answer["type"] in {"websocket.accept", "websocket.close"}
    return bool(answer["type"] == "websocket.accept")


def cookie(same_site: str = "Strict") -> dict[str, str]:
    """What a browser sends that logged in: the cookie of one kind."""
    answer = ask({}, query=f"token={TOKEN}")
    said = [value.decode() for name, value in answer["headers"] if name == b"set-cookie"]
    assert len(said) == 2
    (kept,) = [each for each in said if each.endswith(f"; HttpOnly; SameSite={same_site}")]
    return {"cookie": kept.partition(";")[0]}


def test_the_cookie_that_links_of_other_sites_send_is_good_for_pages_that_follow_links_alone() -> (
    None
):
    """A link to /sql/?q=… of another site would ask that question."""
    strict, lax = cookie(), cookie("Lax")
    name, proof = lax["cookie"].split("=")
    as_strict = {"cookie": f"{strict['cookie'].partition('=')[0]}={proof}"}
    elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    followed = {**elsewhere, "sec-fetch-dest": "document"}
    as_lax = {"cookie": f"{name}={strict['cookie'].partition('=')[2]}"}
    for each in (lax, as_strict, as_lax):
        assert status({**each, **followed}) == status(each) == 401
    shown = ask({**lax, **followed}, followed_below="/")
    assert shown["status"] == PASSED
    assert ask(lax, followed_below="/", method="POST")["status"] == 401
    included = {**elsewhere, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}
    assert ask({**lax, **included}, followed_below="/")["status"] == 403
    assert ask({**lax, **followed}, followed_below="/reports/")["status"] == 401, "beside that path"


def test_the_owner_passes_by_secret_or_cookie_and_nobody_else() -> None:
    assert status(OWNER) == status(OWNER, method="POST") == status(cookie()) == PASSED
    assert status({**cookie(), **OURS}, method="POST") == PASSED
    assert is_open(OWNER)
    assert is_open({**cookie(), **OURS})
    assert status({}) == status({}, method="POST") == 401
    assert not is_open({})
    assert not is_open(OURS)


@pytest.mark.parametrize(
    "given",
    [
        "Basic",
        "Basic ",
        f"Bearer {TOKEN}",
        authorization(""),
        authorization(TOKEN),
        authorization(f"{secret_of(TOKEN)} "),
        authorization("curriculum:"),
        f"{OWNER['authorization']}, {OWNER['authorization']}",
    ],
)
def test_wrong_secrets_are_refused(given: str) -> None:
    assert status({"authorization": given}) == 401
    assert not is_open({"authorization": given})


@given(st.text(max_size=40))
def test_no_other_cookie_passes(said: str) -> None:
    name = cookie()["cookie"].partition("=")[0]
    assert status({"cookie": f"{name}={said}"}) == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:4200"},
        {"host": "127.0.0.1:4201"},
        {"host": "127.0.0.1"},
        {"host": ""},
        {"host": "LOCALHOST:4200"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:4200"},
        {"origin": "http://localhost:4200"},
        {"origin": "null"},
        {"origin": ""},
    ],
)
def test_other_names_and_origins_are_refused_whatever_they_prove(
    headers: Mapping[str, str],
) -> None:
    for proof, method in itertools.product((OWNER, cookie()), ("GET", "POST", "OPTIONS")):
        assert status({**proof, **headers}, method=method) == 403
        assert not is_open({**proof, **headers})


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_what_the_page_of_another_port_includes_is_refused(site: str) -> None:
    """A browser sends the cookie there, and no Origin."""
    for mode, kind in (
        *(("no-cors", "script"), ("no-cors", "image"), ("navigate", "iframe")),
        *(("navigate", "embed"), ("no-cors", "empty"), ("navigate", "object")),
    ):
        included = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": kind}
        assert status({**cookie(), **included}) == 403
    followed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert status({**cookie(), **followed}) == PASSED, "links between our own pages are followed"
    assert status({**cookie(), **followed}, method="POST") == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_own_pages_and_typed_addresses_are_answered(site: str) -> None:
    assert status({**cookie(), "sec-fetch-site": site}) == PASSED


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_a_cookie_alone_changes_nothing(method: str) -> None:
    """Browsers name the origin of each such request; who names none is no browser of the owner's."""
    assert status(cookie(), method=method) == 401
    assert not is_open(cookie())


def test_a_token_that_is_wrong_logs_nobody_in() -> None:
    for query in ("token=wrong", "token=", f"token={TOKEN}x"):
        assert ask({}, query=query)["status"] == 401
    assert ask({}, query=f"token={TOKEN}", kind="websocket")["type"] == "websocket.close"


@given(st.text(alphabet="/\\\t\n\r .:@evil%", max_size=12))
def test_a_login_leads_to_this_server_only(path: str) -> None:
    where = dict(ask({}, path=f"/{path}", query=f"token={TOKEN}")["headers"])[b"location"].decode()
    assert where.isascii()
    assert where.isprintable()
    # Browsers read a backslash as a slash, and leave tabs and line ends out.
    read = where.replace("\\", "/").replace("\t", "")
    assert urlsplit(urljoin(f"http://{NAME}/", read)).netloc == NAME
    assert TOKEN not in where


def test_a_login_by_a_link_of_another_page_leads_on_by_a_page_of_the_server() -> None:
    """A browser would send no Strict cookie with a redirect that began elsewhere."""
    followed = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    for site, status in (("none", 303), ("same-origin", 303), ("cross-site", 200)):
        answer = ask({"sec-fetch-site": site, **followed}, query=f"token={TOKEN}&a=b")
        said = dict(answer["headers"])
        assert answer["status"] == status
        assert (said.get(b"location") == b"/api/x?a=b") == (status == 303)
        assert TOKEN.encode() not in b"".join(said.values())
    included = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert ask(included, query=f"token={TOKEN}")["status"] == 403


def test_answers_may_not_be_framed_kept_or_included() -> None:
    for answer in (ask({}), ask({"host": "evil.example"}), ask({}, query=f"token={TOKEN}")):
        said = {name.decode(): value.decode() for name, value in answer["headers"]}
        assert ALWAYS.items() <= said.items()
        assert said["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in said["content-security-policy"]
        assert said["cache-control"] == "no-store"


def test_an_address_is_read_as_it_was_written() -> None:
    assert split_login(login(f"http://{NAME}", TOKEN)) == (f"http://{NAME}", TOKEN)
    assert split_login("http://team:4200") == ("http://team:4200", "")
