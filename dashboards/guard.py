"""ASGI guard of a local server: requests of its owner's browser and programs pass, all others are refused.

A request must name this server in its Host header, must not come from another site's page, and must prove
that it is the owner's: a browser by a cookie, which it got for the token in the printed address, and which
counts for this user's processes only; a program by the Authorization header, where the server has a secret
for programs.

Browsers send a cookie to every port of a host, so that another user's server may get ours: it is worth
nothing in the hands of another user.
"""

import base64
import hashlib
import hmac
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from dashboards import html

TABLE = Path("/proc/net/tcp")
_LOCAL, _REMOTE, _STATE, _USER, _INODE = 1, 2, 3, 7, 9
"""Columns."""
_LISTENS, _GONE = "0A", "0"
Address = tuple[str, int]


def is_same_user(client: Address, server: Address) -> bool:
    """Return True where a connection to a server of ours is this user's, or root's.

    True as well where the system doesn't list connections. One that its process closed already is nobody's.
    """
    try:
        table = TABLE.read_text()
    except OSError:
        return True
    return owner_of(table, client, server) in {None, 0, os.getuid()}


def owner_of(table: str, client: Address, server: Address) -> int | None:
    """The id of the user who holds the client's end.

    -1 where nobody does, None where the table doesn't list the server.
    """
    here, there = _written(server), _written(client)
    rows = [line.split() for line in table.splitlines()[1:]]
    if not any((row[_LOCAL], row[_STATE]) == (here, _LISTENS) for row in rows):
        return None
    held = (
        int(row[_USER])
        for row in rows
        if (row[_LOCAL], row[_REMOTE]) == (there, here) and row[_INODE] != _GONE
    )
    return next(held, -1)


def _written(address: Address) -> str:
    """An address as the table has it: the bytes of its host in this machine's order, in hexadecimal."""
    (host,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{host:08X}:{address[1]:04X}"


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

TOKEN = "token"
"""The name of the token in an address."""
KEPT_DAYS = 30
"""Days that a browser stays logged in, while the server lives."""
ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""Headers of every answer."""
USER = "curriculum"
"""The name by which programs log in, with the token as their password."""
_STRICT, _LAX = "Strict", "Lax"
"""Values of SameSite: a link of a sandboxed page, which has no origin, is sent the Lax cookie alone."""
_SAFE = ("GET", "HEAD")
_FROM_OUTSIDE = ("cross-site", "same-site")
"""Values of Sec-Fetch-Site; another port of this host is the same site."""
_NOT_OURS = "This server answers its own pages on this machine only."


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """Stands before an application; the application sees only requests that may pass."""

    pages: Application
    token: str
    names: frozenset[str]
    """Hosts with ports that the server is asked by: 127.0.0.1:4202."""
    cure: str
    """The sentence for a browser without a token."""
    secret: str | None = None
    """`user:password` of programs; where there is none, browsers alone get in."""
    followed_below: str | None = None
    """The path below which links of every page may lead: of other sites, and of pages without an origin.

    For pages that only show what a request can't change.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one WebSocket."""
        if scope["type"] == "lifespan":
            await self.pages(scope, receive, send)
            return
        headers = headers_of(scope)
        if not (self._is_ours(headers) and _is_from_here(scope, headers)):
            await _refuse(scope, send, HTTPStatus.FORBIDDEN, _NOT_OURS)
        elif given := _token_in(scope):
            await self._take_in(scope, headers, send, given)
        elif not self._is_known(scope, headers):
            await _refuse(scope, send, HTTPStatus.UNAUTHORIZED, self.cure)
        else:
            await self.pages(scope, receive, send)

    def _is_ours(self, headers: Mapping[str, str]) -> bool:
        """Return True for a request to this server by its own name, from no page of another origin.

        A page that was opened by one of the names asks by the same.
        """
        host = headers.get("host")
        return host in self.names and headers.get("origin") in {None, f"http://{host}"}

    def _is_known(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        given = headers.get("authorization", "")
        if self.secret is not None and _same(given, authorization(self.secret)):
            return True
        # A browser names the origin of whatever may change something, or opens a connection.
        is_named = "origin" in headers
        is_safe = scope["type"] == "http" and scope.get("method", "GET") in _SAFE
        kind = _STRICT
        if self.followed_below is not None and scope["type"] == "http":
            kind = _LAX if scope["path"].startswith(self.followed_below) else _STRICT
        return (is_safe or is_named) and self._has_cookie(headers, kind) and _is_this_users(scope)

    def _has_cookie(self, headers: Mapping[str, str], kind: str) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(self._cookie(kind))
        return found is not None and _same(found.value, self._proof(kind))

    def _cookie(self, kind: str) -> str:
        """Name a cookie; ports share their cookies, and servers of one token those of one login."""
        return f"curriculum-{kind}-{hashlib.sha256(self.token.encode()).hexdigest()[:12]}"

    def _proof(self, kind: str) -> str:
        return hmac.digest(self.token.encode(), f"cookie {kind}".encode(), "sha256").hex()

    async def _take_in(
        self, scope: Scope, headers: Mapping[str, str], send: Send, given: str
    ) -> None:
        """Log a browser in that has the token, and remove the token from its address.

        A redirect carries on the request of the page that led here: browsers send no Strict cookie with it
        where that page is of another site, a file among them. A page of this server leads on in that case.
        """
        if not _same(given, self.token) or scope["type"] != "http":
            await _refuse(scope, send, HTTPStatus.UNAUTHORIZED, self.cure)
            return
        path = _local(scope["path"])
        if rest := urlencode([pair for pair in _query(scope) if pair[0] != TOKEN]):
            path = f"{path}?{rest}"
        life = f"Max-Age={KEPT_DAYS * 24 * 3600}"
        cookies = [
            f"{self._cookie(kind)}={self._proof(kind)}; {life}; Path=/; HttpOnly; SameSite={kind}"
            for kind in (_LAX, _STRICT)
        ]
        if headers.get("sec-fetch-site") in _FROM_OUTSIDE:
            page = html.render("login.html", address=path)
            kind = {"content-type": "text/html; charset=utf-8"}
            await answer(send, HTTPStatus.OK, kind, page, cookies=cookies)
            return
        await answer(send, HTTPStatus.SEE_OTHER, {"location": path}, cookies=cookies)


def login(address: str, token: str) -> str:
    """The address that logs a browser in."""
    return f"{address}?{urlencode({TOKEN: token})}"


def split_login(address: str) -> tuple[str, str]:
    """A server's address and the token that it was written down with, empty where there was none."""
    server, _, query = address.partition("?")
    return server.rstrip("/"), dict(parse_qsl(query)).get(TOKEN, "")


def secret_of(token: str) -> str:
    """`user:password` of programs."""
    return f"{USER}:{token}"


def authorization(secret: str) -> str:
    """The Authorization header of a program."""
    return f"Basic {base64.b64encode(secret.encode()).decode()}"


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request; one that comes twice is joined, so that neither value matches."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def with_headers(headers: Headers, added: Mapping[str, str]) -> Headers:
    """Headers of an answer, some of them added or replaced."""
    kept = [each for each in headers if each[0].lower().decode("latin-1") not in added]
    return [*kept, *((name.encode(), value.encode()) for name, value in added.items())]


async def answer(
    send: Send,
    status: HTTPStatus,
    headers: Mapping[str, str],
    text: str = "",
    *,
    cookies: Sequence[str] = (),
) -> None:
    """Send a whole answer, which no page may frame and no cache keeps."""
    body = text.encode()
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    all_headers = {
        **ALWAYS,
        "content-security-policy": policy,
        "cache-control": "no-store",
        "content-length": str(len(body)),
        **headers,
    }
    start = {"type": "http.response.start", "status": int(status)}
    added: Headers = [(b"set-cookie", each.encode()) for each in cookies]
    await send({**start, "headers": with_headers(added, all_headers)})
    await send({"type": "http.response.body", "body": body})


def _is_from_here(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Return False for what another origin's page includes; a link that is followed may come from there.

    Browsers send no Origin with a picture, a script or a frame.
    """
    if "origin" in headers or headers.get("sec-fetch-site") not in _FROM_OUTSIDE:
        return True
    kind = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
    return scope.get("method") in _SAFE and kind == ("navigate", "document")


def _is_this_users(scope: Scope) -> bool:
    """Return False for a connection of another user, who may have got our cookie."""
    client, server = scope.get("client"), scope.get("server")
    return client is None or server is None or is_same_user(tuple(client), tuple(server))


def _local(path: str) -> str:
    """Encode a path of this server so that no browser reads a host in it; one slash begins it."""
    return "/" + quote(path, safe="/~").lstrip("/")


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _token_in(scope: Scope) -> str:
    return dict(_query(scope)).get(TOKEN, "")


async def _refuse(scope: Scope, send: Send, status: HTTPStatus, why: str) -> None:
    if scope["type"] == "websocket":
        # Before it was accepted, so that the browser gets a 403.
        await send({"type": "websocket.close", "code": 1008})
        return
    page = html.render("sentence.html", text=why)
    await answer(send, status, {"content-type": "text/html; charset=utf-8"}, page)
