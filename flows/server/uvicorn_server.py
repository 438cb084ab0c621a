"""Uvicorn on an inherited socket: no log of requests, and no header that changes whose request it is.

Any user of the machine may send requests, so a malformed one leaves no line and no traceback in a log.
"""

import socket

from dashboards.guard import Application


def serve_socket(pages: Application, ear: socket.socket, *, linger_s: int | None = None) -> None:
    """Serve an application on a bound socket until SIGINT or SIGTERM.

    At the end open connections have `linger_s` seconds; None waits for them.
    """
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PlainUpgrades(H11Protocol):
        """HTTP that refuses a WebSocket with headers beyond ASCII: websockets fails as it refuses them."""

        def handle_websocket_upgrade(self, event: h11.Request) -> None:
            if all(value.isascii() for _, value in event.headers):
                super().handle_websocket_upgrade(event)
            else:
                self.send_400_response("A header of a WebSocket has letters beyond ASCII.")

    config = uvicorn.Config(
        pages,
        http=PlainUpgrades,
        # Warnings are of requests.
        log_level="error",
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
