"""ASGI guard of a local server: it accepts only requests that name the server and come from its own pages.

The guard has no login. Prefect's API asks for a password, and reports and dashboards are below a secret path.
Cookies are not used, because browsers send a cookie to all ports of a host.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from dashboards import html

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""Headers of every response."""
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Content security policy of a page without scripts."""
_FROM_OUTSIDE = ("cross-site", "same-site")
"""Values of the header Sec-Fetch-Site for other origins; for another port of this host it is same-site."""
_NOT_OURS = "This server only accepts requests from its own pages on this machine."


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """Application that checks requests, passes them on to `pages`, and adds headers to all responses."""

    pages: Application
    server: str
    """Host and port that a request must name: 127.0.0.1:4202."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or one WebSocket."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = with_headers([*message.get("headers", ())], ALWAYS)
            await send(message)

        if scope["type"] == "lifespan" or self._may_pass(scope):
            await self.pages(scope, receive, send_guarded)
        else:
            await answer_sentence(scope, send_guarded, HTTPStatus.FORBIDDEN, _NOT_OURS)

    def _may_pass(self, scope: Scope) -> bool:
        """Return True if a request names this server as its host and no page of another origin sent it.

        A CONNECT request would open a tunnel, which uvicorn can't serve.
        Browsers send no Origin header with requests for images, scripts and frames and with followed links.
        Of these, only followed links may come from another origin.
        """
        headers = headers_of(scope)
        if headers.get("host") != self.server or scope.get("method") == "CONNECT":
            return False
        if "origin" in headers:
            return headers["origin"] == f"http://{self.server}"
        if headers.get("sec-fetch-site") not in _FROM_OUTSIDE:
            return True
        kind = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
        return scope.get("method") in ("GET", "HEAD") and kind == ("navigate", "document")


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers of a request by name.

    The values of a repeated header are joined, so that the result equals neither of them.
    """
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def with_headers(headers: Headers, added: Mapping[str, str]) -> Headers:
    """Return the headers of a response with the headers `added`, which replace headers of the same name."""
    kept = [(name, value) for name, value in headers if name.lower().decode("latin-1") not in added]
    return [*kept, *((name.encode(), value.encode()) for name, value in added.items())]


async def answer(
    send: Send, status: HTTPStatus, headers: Mapping[str, str], text: str = ""
) -> None:
    """Send a complete response with a header that forbids caches to store it."""
    body = text.encode()
    all_headers = {
        "content-security-policy": f"{POLICY}; style-src 'unsafe-inline'",
        "cache-control": "no-store",
        "content-length": str(len(body)),
        **headers,
    }
    start = {"type": "http.response.start", "status": int(status)}
    await send({**start, "headers": with_headers([], all_headers)})
    await send({"type": "http.response.body", "body": body})


async def answer_sentence(
    scope: Scope, send: Send, status: HTTPStatus, text: str, *, script: str = ""
) -> None:
    """Send a page of one sentence, with at most one script.

    A WebSocket is closed instead, before it opens.
    """
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = {"content-type": "text/html; charset=utf-8"}
    if script:
        allowed = f"style-src 'unsafe-inline'; script-src {html.digest(script)}; connect-src 'self'"
        headers["content-security-policy"] = f"{POLICY}; {allowed}"
    await answer(send, status, headers, html.sentence(text, script))
