"""Uvicorn for the owner of a machine: one socket, no log of requests, and clients by their connections."""

import socket

from dashboards.guard import Application


def serve_owner(pages: Application, ear: socket.socket, *, linger_s: int | None = None) -> None:
    """Serve an application on a bound socket until SIGINT or SIGTERM.

    The guard asks which user holds the client's end of a connection. By itself uvicorn takes the client's
    address from the header X-Forwarded-For, which any local process can send. At the end open connections
    have `linger_s` seconds; None waits for them.
    """
    import uvicorn

    config = uvicorn.Config(
        pages,
        log_level="warning",
        # It would hold the token of a browser that logs in.
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=linger_s,
    )
    uvicorn.Server(config).run(sockets=[ear])
