"""The pages as one ASGI application that answers its own browser only.

Whoever asks must know the token, once in the address and then by a cookie; by the name of this machine, so
that no other site reaches the pages through a name of its own; and from our own pages. What a page may load
is said in a header: nothing from elsewhere, and no script but its own.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import marimo

from dashboards import frame, place

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

HERE = Path(__file__).parent
TOKEN = "token"
"""The name of the token in an address."""
SESSION_TTL_S = 120
"""How long the state of a page is kept after its browser is gone."""
KEPT_DAYS = 30
"""How long a browser need not be told the token again, while the server lives."""

_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<body>.*?)</script>", re.DOTALL)
_PRELOAD = re.compile(r'<link rel="preload"[^>]*>')
_ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def application(home: Path, token: str, names: Collection[str]) -> Application:
    """The pages of a workspace, for browsers that know the token and ask for one of the names.

    A name is a host and a port: `127.0.0.1:4202`.
    """
    place.show(home)
    pages = marimo.create_asgi_app(
        quiet=True, html_head=frame.HEAD, session_ttl=SESSION_TTL_S, include_code=False
    )
    for page in frame.PAGES:
        pages = pages.with_app(path=f"/{page.name}", root=str(HERE / f"{page.name}.py"))
    return Guard(pages=pages.build(), token=token, names=frozenset(names))


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """Stands before the pages: lets in who may come in, and says what a page may load."""

    pages: Application
    token: str
    names: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one WebSocket."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if not self._is_ours(headers):
            await _refuse(
                scope, send, HTTPStatus.FORBIDDEN, "These pages are for this machine only."
            )
        elif given := _token_in(scope):
            await self._take_in(scope, send, given)
        elif not self._is_known(headers):
            await _refuse(scope, send, HTTPStatus.UNAUTHORIZED, _NEEDS_TOKEN)
        elif scope["type"] == "http" and scope["path"] in ("/", ""):
            await _answer(send, HTTPStatus.SEE_OTHER, {"location": f"/{frame.PAGES[0].name}/"})
        elif scope["type"] == "http" and scope["path"] == frame.STYLE_PATH:
            await _answer(send, HTTPStatus.OK, {"content-type": "text/css"}, frame.style())
        else:
            await self._show(scope, receive, send, headers.get("host", ""))

    async def _live(self, receive: Receive, send: Send) -> None:
        """Begin and end; what runs for open pages ends with us, and nothing waits for it."""
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for mounted in getattr(self.pages, "routes", ()):
            if (app := getattr(mounted, "app", None)) is not None and hasattr(app, "state"):
                await app.state.session_manager.shutdown()
        await send({"type": "lifespan.shutdown.complete"})

    def _is_ours(self, headers: Mapping[str, str]) -> bool:
        """Whether it is asked by this machine's name, and not by the page of another site."""
        origins = {f"http://{name}" for name in self.names}
        return headers.get("host") in self.names and headers.get("origin") in {None, *origins}

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(self._cookie)
        return found is not None and _same(found.value, self._proof)

    @property
    def _cookie(self) -> str:
        """Ports share their cookies: each workspace that is served has one of its own."""
        return f"curriculum-{hashlib.sha256(self.token.encode()).hexdigest()[:12]}"

    @property
    def _proof(self) -> str:
        return hmac.digest(self.token.encode(), b"cookie", "sha256").hex()

    async def _take_in(self, scope: Scope, send: Send, given: str) -> None:
        """Remember a browser that knows the token, and take that out of its address."""
        if not _same(given, self.token) or scope["type"] != "http":
            await _refuse(scope, send, HTTPStatus.UNAUTHORIZED, _NEEDS_TOKEN)
            return
        path = "/" + scope["path"].lstrip("/\\")
        if rest := urlencode([pair for pair in _query(scope) if pair[0] != TOKEN]):
            path = f"{path}?{rest}"
        life = f"Max-Age={KEPT_DAYS * 24 * 3600}"
        cookie = f"{self._cookie}={self._proof}; {life}; Path=/; HttpOnly; SameSite=Strict"
        await _answer(send, HTTPStatus.SEE_OTHER, {"location": path, "set-cookie": cookie})

    async def _show(self, scope: Scope, receive: Receive, send: Send, host: str) -> None:
        if scope["type"] != "http":
            await self.pages(scope, receive, send)
            return
        begun: list[Message] = []
        body = bytearray()

        async def pass_on(message: Message) -> None:
            """Hold a page back until all of it is there: its scripts are named in its header."""
            if message["type"] == "http.response.start":
                if _is_page(message["headers"]):
                    begun.append(message)
                    return
                message["headers"] = _with(message["headers"], _ALWAYS)
            elif begun:
                body.extend(message.get("body", b""))
                if message.get("more_body"):
                    return
                page = _trimmed(body.decode())
                added = {**_ALWAYS, "content-security-policy": policy(page, host)}
                text = page.encode()
                start = begun.pop()
                kept = [each for each in start["headers"] if each[0].lower() != b"content-length"]
                size = (b"content-length", str(len(text)).encode())
                await send({**start, "headers": _with([*kept, size], added)})
                await send({"type": "http.response.body", "body": text})
                return
            await send(message)

        await self.pages(scope, receive, pass_on)


def policy(page: str, host: str) -> str:
    """What a page may load: what this server has, and of scripts in it those that it came with."""
    inline = [
        found["body"] for found in _SCRIPT.finditer(page) if "src=" not in found["attributes"]
    ]
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inline)
    scripts = " ".join(f"'sha256-{each}'" for each in digests)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            f"connect-src 'self' ws://{host}",
            "worker-src 'self' blob:",
            "manifest-src 'self'",
            "base-uri 'self'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def _trimmed(page: str) -> str:
    """The page without the script that would leave a service worker behind, and what we don't show."""
    shown = _PRELOAD.sub("", page)
    return _SCRIPT.sub(lambda found: "" if "serviceWorker" in found["body"] else found[0], shown)


_NEEDS_TOKEN = "Open the address that `curriculum dashboard` printed: it holds a token."


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _token_in(scope: Scope) -> str:
    return dict(_query(scope)).get(TOKEN, "")


def _is_page(headers: Headers) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/html")
        for name, value in headers
    )


def _with(headers: Headers, added: Mapping[str, str]) -> Headers:
    kept = [each for each in headers if each[0].lower().decode("latin-1") not in added]
    return [*kept, *((name.encode(), value.encode()) for name, value in added.items())]


async def _refuse(scope: Scope, send: Send, status: HTTPStatus, why: str) -> None:
    if scope["type"] == "websocket":
        # Before it was accepted, so that the browser hears a 403.
        await send({"type": "websocket.close", "code": 1008})
        return
    page = frame.plain(why)
    await _answer(send, status, {"content-type": "text/html; charset=utf-8"}, page)


async def _answer(
    send: Send, status: HTTPStatus, headers: Mapping[str, str], text: str = ""
) -> None:
    body = text.encode()
    said = {
        **_ALWAYS,
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
        "cache-control": "no-store",
        "content-length": str(len(body)),
        **headers,
    }
    await send({"type": "http.response.start", "status": int(status), "headers": _with([], said)})
    await send({"type": "http.response.body", "body": body})
