"""`python -m flows.server.report_pages WORKSPACE --port N`: reports for the browser of their owner alone.

It hands out WORKSPACE/reports/<name>.html and the pages of rows below it, lists nothing else and listens on
127.0.0.1 only. The guard of the dashboards comes before it, with the token of `serve`, which is given as
$CURRICULUM_PAGES_TOKEN: who logged in at one of the servers is known to all.

A report may have come with somebody else's workspace; dashboards/report/files.py says what it may do.
"""

import argparse
import asyncio
import contextlib
import functools
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import unquote

from dashboards.guard import Guard, Message, Receive, Scope, Send, answer, secret_of
from dashboards.report import files, index
from flows import settings
from flows.settings.contexts import resources

MOST_CONNECTIONS = 32
PATIENCE_S = 10.0
"""Seconds that a browser may be silent."""
WHOLE_S = 60.0
"""Seconds of one request from its first byte to the last one of the answer."""


Address = Callable[[], str | None]
"""The address of the dashboards of the same workspace; None while they aren't shown."""


class Server(ThreadingHTTPServer):
    """The reports of a folder on 127.0.0.1, for the owner of a token; port 0 takes any that is free."""

    daemon_threads = True

    def __init__(
        self, folder: Path, port: int, token: str, dashboards: Address = lambda: None
    ) -> None:
        self._folder = folder.absolute()
        self._dashboards = dashboards
        self._since: dict[socket.socket, float] = {}
        self._changing = threading.Lock()
        super().__init__((settings.HOST, port), _Handler)
        self.guard = Guard(
            pages=self._show,
            token=token,
            names=frozenset(f"{host}:{self.server_port}" for host in (settings.HOST, "localhost")),
            cure=settings.LOGIN,
            secret=secret_of(token),
            followed_below="/",
        )

    @property
    def address(self) -> str:
        """Address of the server."""
        return f"http://{settings.HOST}:{self.server_port}"

    async def _show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of the owner."""
        path = scope["path"]
        if path == "/":
            shown = self._dashboards()
            overview = f"{shown}/overview/" if shown else ""
            page: str | None = index.page(self._folder.parent, resources(), overview=overview)
        else:
            page = files.page(self._folder, path.removeprefix("/"))
        text = "There is no such report.\n" if page is None else page
        headers = {
            "content-type": f"text/{'plain' if page is None else 'html'}; charset=utf-8",
            "content-security-policy": files.policy(text),
            "x-dns-prefetch-control": "off",
        }
        status = HTTPStatus.NOT_FOUND if page is None else HTTPStatus.OK
        await answer(send, status, headers, text)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a connection while there aren't too many."""
        with self._changing:
            if len(self._since) >= MOST_CONNECTIONS:
                return False
            self._since[request] = time.monotonic()
        return True

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._changing:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End the connections that take too long: one that sends a byte now and then never falls silent."""
        before = time.monotonic() - WHOLE_S
        with self._changing:
            late = [request for request, since in self._since.items() if since < before]
        for request in late:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """A browser that hangs up is no error of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            raise


class _Handler(BaseHTTPRequestHandler):
    """GET and HEAD of one page."""

    timeout = PATIENCE_S
    server_version = "curriculum"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        """Answer as the guard does, which is the same before every server."""
        assert isinstance(self.server, Server)
        asyncio.run(self.server.guard(self._scope(), _receive, self._sending(with_body=with_body)))

    def _scope(self) -> Scope:
        assert isinstance(self.server, Server)
        path, _, query = self.path.partition("?")
        return {
            "type": "http",
            "method": self.command,
            "path": unquote(path),
            "query_string": query.encode("latin-1"),
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1"))
                for name, value in self.headers.items()
            ],
            "client": self.client_address,
            "server": self.server.server_address,
        }

    def _sending(self, *, with_body: bool) -> Send:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.send_response(message["status"])
                for name, value in message["headers"]:
                    self.send_header(name.decode("latin-1"), value.decode("latin-1"))
                self.end_headers()
            elif with_body:
                self.wfile.write(message["body"])

        return send

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: requests are private."""


async def _receive() -> Message:
    """Nothing: no request that is answered has a body."""
    return {"type": "http.request", "body": b""}


def main() -> None:
    """Serve until SIGINT or SIGTERM; meanwhile the workspace says where."""
    arguments = argparse.ArgumentParser(prog="flows.server.report_pages")
    arguments.add_argument("workspace", type=Path)
    arguments.add_argument("--port", type=int, default=0)
    given = arguments.parse_args()

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    with contextlib.suppress(KeyboardInterrupt), _server(given.workspace, given.port) as server:
        place = settings.reports_file(given.workspace)
        place.write_text(server.address)
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        try:
            server.serve_forever()
        finally:
            place.unlink(missing_ok=True)


def _server(workspace: Path, port: int) -> Server:
    """Listen on that port, where links of earlier starts point; on another where it is taken."""
    folder, token = workspace / "reports", settings.pages_token()
    dashboards = functools.partial(settings.dashboard_at, workspace)
    try:
        return Server(folder, port, token, dashboards)
    except OSError:
        return Server(folder, 0, token, dashboards)


if __name__ == "__main__":
    main()
