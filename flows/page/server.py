"""`python -m flows.page.server WORKSPACE --port N`: reports for the browsers of this machine, nothing else.

It hands out WORKSPACE/reports/<name>.html and the pages of rows below it, lists nothing and listens on
127.0.0.1 only. Other sites can't read a report through a name of theirs that they let point here: only our
own names are answered.
"""

import argparse
import contextlib
import re
import signal
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType

from flows import settings
from flows.page.index import index

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; sandbox"
"""The policy of a page that has none of its own."""
FOLDER = "rows"
"""Below the reports: the pages that they lead to."""
_NAME = re.compile(rf"/((?:{FOLDER}/)?[A-Za-z0-9][A-Za-z0-9._-]*\.html)")
PATIENCE_S = 10.0
"""How long a browser may take to ask."""


class Server(ThreadingHTTPServer):
    """The reports of a folder on 127.0.0.1; port 0 takes any that is free."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder.absolute()
        super().__init__((settings.HOST, port), _Handler)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://{settings.HOST}:{self.server_port}"

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
        page = self._page() if self._is_ours() else None
        if page is None:
            status, text, policy = HTTPStatus.NOT_FOUND, "There is no such report.\n", _NOTHING
        else:
            status, text, policy = HTTPStatus.OK, page, _policy(page)
        body = text.encode()
        self.send_response(status)
        kind = "html" if page is not None else "plain"
        self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _is_ours(self) -> bool:
        """Whether the browser asks for this machine by its own name."""
        assert isinstance(self.server, Server)
        names = {f"{host}:{self.server.server_port}" for host in (settings.HOST, "localhost")}
        return self.headers.get("Host") in names

    def _page(self) -> str | None:
        assert isinstance(self.server, Server)
        asked = self.path.partition("?")[0]
        if asked == "/":
            reports = sorted(self.server.folder.glob("*.html"))
            return index([each for each in reports if self._inside(f"/{each.name}")])
        file = self._inside(asked)
        try:
            return file.read_text(encoding="utf-8") if file else None
        except (OSError, UnicodeDecodeError):
            return None

    def _inside(self, asked: str) -> Path | None:
        """The file of a report, or of a page below, that a path means."""
        assert isinstance(self.server, Server)
        found = _NAME.fullmatch(asked)
        if found is None:
            return None
        file = self.server.folder / found[1]
        folder = self.server.folder.resolve()
        is_ours = file.resolve().parent in (folder, folder / FOLDER) and file.is_file()
        return file if is_ours else None

    def log_message(self, format: str, *args: object) -> None:
        """Who reads what is nobody's business."""


def _policy(page: str) -> str:
    """What a page says of itself, said by the server too."""
    found = _POLICY.search(page)
    return found[1] if found else _NOTHING


def main() -> None:
    """Serve until SIGINT or SIGTERM; meanwhile the workspace says where."""
    arguments = argparse.ArgumentParser(prog="flows.page.server")
    arguments.add_argument("workspace", type=Path)
    arguments.add_argument("--port", type=int, default=0)
    given = arguments.parse_args()

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    with contextlib.suppress(KeyboardInterrupt), _server(given.workspace, given.port) as server:
        place = settings.reports_file(given.workspace)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(server.address)
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        try:
            server.serve_forever()
        finally:
            place.unlink(missing_ok=True)


def _server(workspace: Path, port: int) -> Server:
    """On that port, where links of earlier starts point; on another where it is taken."""
    folder = workspace / "reports"
    try:
        return Server(folder, port)
    except OSError:
        return Server(folder, 0)


if __name__ == "__main__":
    main()
