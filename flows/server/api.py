"""`python -m flows.server.api FD`: Prefect's server behind a guard, on a socket of the parent process.

FD is the file descriptor of the socket. The guard requires a login with $PREFECT_SERVER_API_AUTH_STRING for
requests to the API and for WebSockets. It checks the login before Prefect reads anything; Prefect then checks
the login again. The guard also checks what Prefect doesn't: that the Host header names this server, that the
request doesn't come from a page of another site, and that no page of another site shows the answer in a
frame.
"""

import hmac
import socket
import sys
from http import HTTPStatus
from pathlib import Path

from dashboards import html
from dashboards.guard import (
    Application,
    Guard,
    Message,
    Receive,
    Scope,
    Send,
    answer_sentence,
    headers_of,
    with_headers,
)
from flows import settings
from flows.server.uvicorn_server import serve_socket
from schemas.json_text import parse_json

POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    "connect-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy: Prefect's pages may request only their own server, since their
analytics can't be disabled."""
NO_ANALYTICS = """<script>
  (() => {
    const own = Object.getOwnPropertyDescriptor(Document.prototype, "cookie");
    Object.defineProperty(document, "cookie", {
      get: () => own.get.call(document),
      set: (text) => text.startsWith("AMP_") || own.set.call(document, text),
    });
  })();
</script>"""
"""Script that blocks the cookies of the analytics in Prefect's pages.

Browsers would send these cookies to all ports of this host.
"""
API = "/api/"
OPEN_PATHS = frozenset((f"{API}health", f"{API}ready"))
"""Paths of the API that need no login."""
NOT_LOGGED_IN = 1008
"""Close code of a WebSocket with a wrong password, as Prefect uses it."""
MAX_LOGIN = 10_000
"""Maximum characters of a WebSocket's first message."""
LOGIN = "This browser isn't logged in. Open the address that `curriculum serve` printed."


def application(prefect: Application, server: str, login: str) -> Application:
    """Return Prefect's application with a login page, restricted to one host and port.

    If Prefect can't parse or compare an `Authorization` header or the first message of a WebSocket, it logs a
    traceback. The guard therefore passes on only those that equal `login`.
    """

    async def pages(scope: Scope, receive: Receive, send: Send) -> None:
        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = {"content-security-policy": POLICY}
                message["headers"] = with_headers([*message.get("headers", ())], policy)
            await send(message)

        if scope["type"] == "http" and scope["path"] == settings.LOGIN_PATH:
            script = html.asset("login_runs.js")
            await answer_sentence(scope, send, HTTPStatus.OK, LOGIN, script=script)
        elif not _may_ask(scope, login):
            await answer_sentence(scope, send, HTTPStatus.UNAUTHORIZED, LOGIN)
        elif scope["type"] == "websocket":
            await prefect(scope, _logged_in(receive, send, login), pass_on)
        else:
            await prefect(scope, receive, pass_on)

    return Guard(pages=pages, server=server)


def _may_ask(scope: Scope, login: str) -> bool:
    """Return True if a request needs no login (pages and health checks), has one, or is a WebSocket.

    WebSockets log in with their first message.
    """
    if scope["type"] == "websocket":
        return scope["path"].startswith(API) and "prefect" in scope["subprotocols"]
    if scope["type"] != "http" or not scope["path"].startswith(API):
        return True
    if scope["method"] == "GET" and scope["path"] in OPEN_PATHS:
        return True
    given = headers_of(scope).get("authorization", "")
    return _is_same(given, settings.authorization(login)["Authorization"])


def _logged_in(receive: Receive, send: Send, login: str) -> Receive:
    """Return a replacement of `receive` that closes the WebSocket unless its first message is a login."""
    is_known = False

    async def receive_known() -> Message:
        nonlocal is_known
        message = await receive()
        if message["type"] == "websocket.receive" and not is_known:
            is_known = _is_login(message.get("text") or "", login)
            if not is_known:
                await send({"type": "websocket.close", "code": NOT_LOGGED_IN})
                return {"type": "websocket.disconnect", "code": NOT_LOGGED_IN}
        return message

    return receive_known


def _is_login(text: str, login: str) -> bool:
    """Return True if `text` is the JSON message with which Prefect's programs log in, with our password."""
    if len(text) > MAX_LOGIN:
        return False
    try:
        said = parse_json(text)
    except ValueError:
        return False
    if not isinstance(said, dict) or said.keys() != {"type", "token"} or said["type"] != "auth":
        return False
    return isinstance(said["token"], str) and _is_same(said["token"], login)


def _is_same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())


def drop_analytics(pages: Path) -> None:
    """Insert the script NO_ANALYTICS at the start of each of Prefect's pages in a folder."""
    for page in pages.glob("**/index.html"):
        text = page.read_text(encoding="utf-8")
        if NO_ANALYTICS not in text:
            page.write_text(text.replace("<head>", f"<head>{NO_ANALYTICS}", 1), encoding="utf-8")


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    # Prefect reads its settings when it is imported.
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    with socket.socket(fileno=int(sys.argv[1])) as ear:
        server = f"{settings.HOST}:{ear.getsockname()[1]}"
        prefect = create_app(final=True)
        drop_analytics(Path(str(get_current_settings().server.ui.static_directory)))
        pages = application(prefect, server, settings.server_login())
        serve_socket(pages, ear)


if __name__ == "__main__":
    main()
