"""Uvicorn on an inherited socket: no log of requests, and no header that changes whose request it is."""

import socket

from dashboards.guard import Application


def serve_socket(pages: Application, ear: socket.socket, *, linger_s: int | None = None) -> None:
    """Serve an application on a bound socket until SIGINT or SIGTERM.

    At the end open connections have `linger_s` seconds; None waits for them.
    """
    import uvicorn

    config = uvicorn.Config(
        pages,
        log_level="warning",
        # It would hold the path that lets a browser in.
        access_log=False,
        server_header=False,
        # By default any local process names a client of its choice with X-Forwarded-For.
        proxy_headers=False,
        # By default a server whose start fails serves all the same.
        lifespan="on",
        timeout_graceful_shutdown=linger_s,
    )
    uvicorn.Server(config).run(sockets=[ear])
