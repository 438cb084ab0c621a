"""The socket that a server inherits, and the wait until it answers there."""

import contextlib
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

from flows import settings
from flows.server.children import ChildProcess, ServeError

PATIENCE_S = 300.0
"""Seconds for a server to start."""
TEAM_PATIENCE_S = 15.0
"""Seconds for a server of others to answer."""
BACKLOG = 1024
"""Connections that wait for a server that is busy, or is started again."""


@contextlib.contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Listen on a port of 127.0.0.1, any for 0, as long as the block lasts.

    The server inherits the socket: while it is started again no other user can take its place.
    """
    with socket.socket() as ear:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            ear.bind((settings.HOST, port))
            ear.listen(BACKLOG)
        except OSError as taken:
            raise ServeError(
                "--port",
                port,
                cause=f"{settings.HOST}:{port} is in use ({taken.strerror})",
                cure="Choose another with --port",
            ) from None
        yield ear


def await_health(url: str, server: ChildProcess | None) -> None:
    """Wait until a server answers; a team's, which isn't our child, for a little while only."""
    patience = PATIENCE_S if server else TEAM_PATIENCE_S
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if server is not None:
            server.require_alive()
        try:
            asked = urllib.request.Request(url, headers=settings.credentials())
            with urllib.request.urlopen(asked, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    found = f"no answer within {patience:.0f} s"
    if server is not None:
        raise server.fault(found)
    raise ServeError(
        "PREFECT_API_URL",
        url.removesuffix("/health"),
        cause=found,
        cure="Start that server, or unset the variable to have one of your own",
    )
