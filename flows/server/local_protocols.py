"""Uvicorn's protocols for a server on 127.0.0.1, to which any user of the machine may connect.

Malformed requests must not fill a log with lines or tracebacks, nor use up the process's open files.
"""

import asyncio
import os
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from curriculum.exposure import ROOT_USER
from curriculum.listening import connecting_user

MAX_FILES = 4096
"""Number of open files up to which a higher limit allows more connections; a quarter may be connections."""


def max_files() -> int:
    """Return the number of files that this process may open (`ulimit -n`), at most MAX_FILES."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_FILES if soft == resource.RLIM_INFINITY else min(soft, MAX_FILES)


class LocalHttp(H11Protocol):
    """HTTP protocol that closes connections of other users, except root, and malformed requests.

    A password alone doesn't stop other users from occupying all connections. Connections whose user the
    system doesn't know stay open, because the owner may make them: from Windows beside WSL, or on macOS. A
    limit on all connections therefore keeps files free for the application.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection at once if another user made it or too many are open."""
        super().connection_made(transport)
        if len(self.connections) > max_files() // 4 or not self._is_owners(transport):
            transport.abort()

    def _is_owners(self, transport: asyncio.Transport) -> bool:
        ends = (transport.get_extra_info(name) for name in ("peername", "sockname"))
        return connecting_user(*ends) in (None, ROOT_USER, os.geteuid())

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Refuse a header beyond ASCII, which the websockets library can't refuse."""
        if all(value.isascii() for _, value in event.headers):
            super().handle_websocket_upgrade(event)
        else:
            self.send_400_response("A header of a WebSocket has letters beyond ASCII.")

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request, or close the connection if an earlier part of it is being answered."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self._is_answering():
            super().send_400_response(msg)
            return
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


class LocalWebSocket(WebSocketsSansIOProtocol):
    """WebSocket protocol that closes the connection at invalid text, without a log."""

    def data_received(self, data: bytes) -> None:
        """Process received bytes; close the connection if they can't be processed."""
        try:
            super().data_received(data)
        except (UnicodeDecodeError, InvalidState):
            self.transport.abort()

    def send_receive_event_to_app(self) -> None:
        """Pass a message on; raise a UnicodeDecodeError if it is text but not UTF-8."""
        if self.curr_msg_data_type == "text":
            b"".join(self.frames).decode()
        super().send_receive_event_to_app()
