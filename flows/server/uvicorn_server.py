"""Uvicorn on an inherited socket, without an access log and without proxy headers."""

import socket

from dashboards.guard import Application

MAX_MESSAGE_BYTES = 2 << 20
"""Maximum size of a WebSocket message. Prefect's clients send events of up to 1.5 MB."""


def serve_socket(pages: Application, ear: socket.socket, *, linger_s: int | None = None) -> None:
    """Serve an application on a bound socket until SIGINT or SIGTERM.

    At shutdown, connections that are still open get `linger_s` seconds to end; None waits until they have
    ended.
    """
    import uvicorn

    from flows.server.local_protocols import LocalHttp, LocalWebSocket, max_files

    config = uvicorn.Config(
        pages,
        http=LocalHttp,
        ws=LocalWebSocket,
        # A compressed message of 16 KB can unpack to 16 MB before its login is checked.
        ws_per_message_deflate=False,
        ws_max_size=MAX_MESSAGE_BYTES,
        # asyncio accepts that many connections before the protocol can refuse one of them.
        backlog=max_files() // 8,
        # Warnings are about requests.
        log_level="error",
        # The access log would contain the secret path.
        access_log=False,
        server_header=False,
        # By default any local process can claim another client address with X-Forwarded-For.
        proxy_headers=False,
        # By default a server whose startup fails serves anyway.
        lifespan="on",
        timeout_graceful_shutdown=linger_s,
    )
    uvicorn.Server(config).run(sockets=[ear])
