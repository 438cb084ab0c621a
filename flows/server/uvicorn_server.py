"""Uvicorn on an inherited socket, without an access log and without proxy headers.

Any user of the machine may send requests. Malformed requests must therefore not fill a log with lines or
tracebacks.
"""

import socket

from dashboards.guard import Application


def serve_socket(pages: Application, ear: socket.socket, *, linger_s: int | None = None) -> None:
    """Serve an application on a bound socket until SIGINT or SIGTERM.

    At shutdown, connections that are still open get `linger_s` seconds to end; None waits until they have
    ended.
    """
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PlainUpgrades(H11Protocol):
        """HTTP protocol that refuses WebSockets with non-ASCII headers.

        The websockets library, which handles all others, can't refuse them.
        """

        def handle_websocket_upgrade(self, event: h11.Request) -> None:
            if all(value.isascii() for _, value in event.headers):
                super().handle_websocket_upgrade(event)
            else:
                self.send_400_response("A header of a WebSocket has letters beyond ASCII.")

    config = uvicorn.Config(
        pages,
        http=PlainUpgrades,
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
