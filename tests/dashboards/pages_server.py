"""The pages of a workspace on a server of their own, in a thread of the test."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from dashboards import workspace
from dashboards.guard import Application, Guard
from dashboards.server import Pages
from flows import settings

PATH = "0123456789abcdef0123456789abcdef"


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A whole answer."""

    status: int
    headers: http.client.HTTPMessage
    body: str


@dataclass(frozen=True, kw_only=True)
class PagesServer:
    """A server of pages that runs."""

    port: int

    @property
    def origin(self) -> str:
        """Address of the server."""
        return f"http://{settings.HOST}:{self.port}"

    @property
    def login(self) -> str:
        """The address that logs a browser in."""
        return f"{self.origin}/#{PATH}"

    @property
    def reports(self) -> str:
        """The address of the reports, for whoever knows the path."""
        return f"{self.origin}/{PATH}/reports/"

    def ask(
        self, path: str, headers: Mapping[str, str] | None = None, *, method: str = "GET"
    ) -> Answered:
        """Ask for a path as a program does, and read all of the answer."""
        connection = http.client.HTTPConnection(settings.HOST, self.port, timeout=60)
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return Answered(status=answer.status, headers=answer.headers, body=body)

    def report(self, name: str, headers: Mapping[str, str] | None = None) -> Answered:
        """Ask for a report by its name."""
        return self.ask(f"/{PATH}/reports/{name}", headers)


@contextmanager
def pages_server(home: Path, built: Application | None = None) -> Iterator[PagesServer]:
    """Serve the reports of a workspace while the block lasts."""
    before = workspace.home()
    workspace.show(home)
    ear = socket.create_server((settings.HOST, 0))
    served = PagesServer(port=ear.getsockname()[1])
    guard = Guard(pages=Pages(path=PATH, built=built), server=served.origin.partition("//")[2])
    # As `serve` runs it.
    config = uvicorn.Config(guard, log_level="warning", access_log=False, proxy_headers=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [ear]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield served
    finally:
        server.should_exit = True
        thread.join()
        ear.close()
        workspace.show(before)
