"""`curriculum dashboard`: reports and interactive pages on 127.0.0.1, under a secret path.

`serve` starts this server too, as `python -m flows.server.dashboard WORKSPACE FD`. FD is the file descriptor
of a socket that `serve` has opened; $CURRICULUM_PAGES_PATH contains the secret path.
"""

import contextlib
import os
import secrets
import signal
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from curriculum.stop_signals import terminating_signals
from dashboards import html
from flows import settings
from flows.server.children import listening
from flows.server.uvicorn_server import serve_socket
from flows.settings.contexts import resources
from schemas.cures import install_command
from schemas.errors import CurriculumError

SETTINGS = {
    ".marimo.toml": '[display]\ntheme = "system"\n[completion]\ncopilot = false\n',
    "pyproject.toml": "[tool.marimo.runtime]\ndotenv = []\n",
}
"""Settings files of marimo by name, which replace the settings that the user has for notebooks.

marimo searches each file from the current folder up to the root and takes the first one. Another user may
have put a pyproject.toml there, whose `pythonpath` would make marimo import that user's modules.
If `dotenv` isn't set, marimo loads the .env file of the project in which curriculum is installed.
"""
LINGER_S = 2
"""Seconds that open pages have to close at shutdown."""
CANT_READ = (
    "If your browser can't read the login file (snap, Flatpak, Windows beside WSL), open the "
    "address above."
)

PrintLine = Callable[[str], None]


class DashboardError(CurriculumError):
    """The pages can't be shown."""


def how_to_install() -> str:
    """Return the command that installs marimo, which the interactive pages need."""
    return install_command("curriculum[dashboards]")


def is_installed() -> bool:
    """Return True if marimo is installed; without it only reports can be shown."""
    from dashboards.server import has_dashboards

    return has_dashboards()


def new_path() -> str:
    """Return a new secret path of 32 random hexadecimal digits."""
    return secrets.token_hex(16)


def login_address(ear: socket.socket, path: str) -> str:
    """Return the address that logs a browser in; its part after # is the secret path.

    Browsers never send that part of an address to a server.
    """
    return f"{pages_address(ear)}/#{path}"


def pages_address(ear: socket.socket) -> str:
    """Return the address of the server that listens on the socket `ear`."""
    return f"http://{settings.HOST}:{ear.getsockname()[1]}"


def dashboard(
    workspace: Path, port: int | None, print_line: PrintLine, *, open_it: bool
) -> NoReturn:
    """Serve the pages of a workspace until a signal ends the process.

    If `port` is None, the server uses the default port, or any free port if that is in use.

    Raises:
        DashboardError: if marimo isn't installed.
        ServeError: if the port is in use.
    """
    if not is_installed():
        raise DashboardError("dashboard", cause="marimo isn't installed", cure=how_to_install())
    wanted = settings.PAGES_PORT if port is None else port
    with _until_stopped(), listening(wanted, or_any=port is None) as ear:
        path = new_path()
        address = login_address(ear, path)
        print_line(f"workspace    {workspace}")
        print_line(f"dashboards   {address}")
        print_line("Press Ctrl-C to stop.")
        with _opened(address, print_line) if open_it else contextlib.nullcontext():
            _show(workspace, ear, path)
    _leave()


@contextlib.contextmanager
def _opened(address: str, print_line: PrintLine) -> Iterator[None]:
    """Open `address` in a graphical browser for the duration of the block.

    No text browser is opened, since it would cover the terminal's output. All users of a machine can read
    command lines, so the browser doesn't get the address. It gets the path of a file that redirects to the
    address. Only its owner can read the file, which is removed at the end.
    """
    browser = _browser()
    if browser is None:
        yield
        return
    folder = settings.own_folder(settings.state_folder() / "logins")
    page = folder / f"{os.getpid()}.html"
    settings.write_secret(page, html.render("login.html", address=address))
    try:
        print_line(CANT_READ)
        with contextlib.suppress(webbrowser.Error):
            browser.open(page.as_uri())
        yield
    finally:
        page.unlink(missing_ok=True)


def _browser() -> webbrowser.BaseBrowser | None:
    """Return the user's graphical browser, or None if there is none."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return None
    has_window = not isinstance(browser, webbrowser.GenericBrowser) or isinstance(
        browser, webbrowser.BackgroundBrowser
    )
    return browser if has_window else None


def _show(workspace: Path, ear: socket.socket, path: str) -> None:
    """Serve until a signal ends the server; marimo's files are in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="curriculum-dashboard-") as folder:
        for name, text in SETTINGS.items():
            (Path(folder) / name).write_text(text)
        settings.apply(settings.pages_variables(workspace, Path(folder)))
        with contextlib.chdir(folder):
            from dashboards import questions
            from dashboards.server import application

            questions.share(settings.own_folder(settings.state_folder() / "questions"))
            pages = application(
                workspace,
                path,
                pages_address(ear).removeprefix("http://"),
                lambda: settings.server_of(workspace),
                resources(),
            )
            serve_socket(pages, ear, linger_s=LINGER_S)


def _leave() -> NoReturn:
    """End this process without Python's cleanup.

    Threads of open pages may be running queries, and the cleanup would crash in them.
    """
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    workspace, ear = sys.argv[1:]
    with _until_stopped(), socket.socket(fileno=int(ear)) as inherited:
        _show(Path(workspace), inherited, settings.pages_path())
    _leave()


@contextlib.contextmanager
def _until_stopped() -> Iterator[None]:
    """Leave the block at SIGINT, even if it was ignored before, or at a signal that terminates processes."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, *terminating_signals())
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    main()
