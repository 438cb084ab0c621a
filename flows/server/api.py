"""`python -m flows.server.api FD`: Prefect's server behind a guard, on a socket that its parent listens on.

`prefect server start` asks nobody who they are. Here a browser or a program must prove that it is the
owner's before Prefect sees its request, and no page of another site can start a run.
"""

import socket
import sys

from dashboards.guard import (
    ALWAYS,
    Application,
    Guard,
    Message,
    Receive,
    Scope,
    Send,
    secret_of,
    with_headers,
)
from flows import settings
from flows.server.owner_http import serve_owner

POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    "connect-src 'self' ws://{server} data: blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""Prefect's pages may request their own server only: their client analytics has no switch."""


def application(pages: Application, token: str, server: str) -> Application:
    """Prefect's application for whoever has the token, asked as one host with its port."""
    policy = {**ALWAYS, "content-security-policy": POLICY.format(server=server)}

    async def with_policy(scope: Scope, receive: Receive, send: Send) -> None:
        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = with_headers([*message.get("headers", ())], policy)
            await send(message)

        await pages(scope, receive, pass_on)

    return Guard(
        pages=with_policy,
        token=token,
        names=frozenset({server}),
        cure=settings.LOGIN,
        secret=secret_of(token),
    )


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    # Prefect reads its settings when it is imported.
    from prefect.server.api.server import create_app

    with socket.socket(fileno=int(sys.argv[1])) as ear:
        server = f"{settings.HOST}:{ear.getsockname()[1]}"
        serve_owner(application(create_app(final=True), settings.token(), server), ear)


if __name__ == "__main__":
    main()
