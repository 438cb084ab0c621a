"""`python -m flows.server.api FD`: Prefect's server behind a guard, on a socket that its parent listens on.

Prefect's API asks for $PREFECT_SERVER_API_AUTH_STRING. The guard adds what Prefect doesn't check: that a
request names this server, begins on no page of another site, and is answered in no frame.
"""

import base64
import socket
import sys
from http import HTTPStatus

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

POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    "connect-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""Prefect's pages may request their own server only: their client analytics has no switch."""
LOGIN = "Open the address that `curriculum serve` printed: it logs this browser in."


def application(prefect: Application, server: str) -> Application:
    """Prefect's application with a login page beside it, asked as one host with its port."""

    async def pages(scope: Scope, receive: Receive, send: Send) -> None:
        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = {"content-security-policy": POLICY}
                message["headers"] = with_headers([*message.get("headers", ())], policy)
            await send(message)

        if scope["type"] == "http" and scope["path"] == settings.LOGIN_PATH:
            script = html.asset("login_runs.js")
            await answer_sentence(scope, send, HTTPStatus.OK, LOGIN, script=script)
        elif scope["type"] == "http" and not _is_comparable(scope):
            await answer_sentence(scope, send, HTTPStatus.UNAUTHORIZED, LOGIN)
        else:
            await prefect(scope, receive, pass_on)

    return Guard(pages=pages, server=server)


def _is_comparable(scope: Scope) -> bool:
    """Return False for a password with letters beyond ASCII, at which Prefect ends in an error of its own."""
    password = headers_of(scope).get("authorization", "").rpartition(" ")[2]
    try:
        return base64.b64decode(password).isascii()
    except ValueError:
        return True


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    # Prefect reads its settings when it is imported.
    from prefect.server.api.server import create_app

    with socket.socket(fileno=int(sys.argv[1])) as ear:
        server = f"{settings.HOST}:{ear.getsockname()[1]}"
        serve_socket(application(create_app(final=True), server), ear)


if __name__ == "__main__":
    main()
