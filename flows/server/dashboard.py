"""`curriculum dashboard`: reports and interactive pages on 127.0.0.1, below a path that nobody can guess.

`serve` starts it too, as `python -m flows.server.dashboard WORKSPACE FD`, on a socket on which `serve`
listens; then the path is that of $CURRICULUM_PAGES_PATH.
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
"""Settings files of marimo, in place of a person's own for notebooks.

marimo takes the nearest file of a name, from the current folder up to the root, where another user may have
put a file: `pythonpath` in a pyproject.toml makes marimo import that user's modules. Without `dotenv` marimo
loads the .env file of the project that curriculum is installed in.
"""
LINGER_S = 2
"""Seconds for open pages to close at the end."""
CANT_READ = (
    "A browser that can't read the file that logs it in (a snap, a Flatpak, Windows beside WSL) "
    "gets in by the address above."
)

PrintLine = Callable[[str], None]


class DashboardError(CurriculumError):
    """The pages can't be shown."""


def how_to_install() -> str:
    """Return the command that installs what the pages are made with."""
    return install_command("curriculum[dashboards]")


def is_installed() -> bool:
    """Return True if dashboards can be shown, and not only reports."""
    from dashboards.server import has_dashboards

    return has_dashboards()


def new_path() -> str:
    """Return a path that nobody can guess: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def login_address(ear: socket.socket, path: str) -> str:
    """Return the address that logs a browser in: its fragment, which no server gets to see, is the path."""
    return f"{pages_address(ear)}/#{path}"


def pages_address(ear: socket.socket) -> str:
    """Return the address of the server on a socket."""
    return f"http://{settings.HOST}:{ear.getsockname()[1]}"


def dashboard(
    workspace: Path, port: int | None, print_line: PrintLine, *, open_it: bool
) -> NoReturn:
    """Show the pages of a workspace until a signal ends it; without a port on the usual one, or any.

    Raises:
        DashboardError: without marimo.
        ServeError: where the port is taken.
    """
    if not is_installed():
        raise DashboardError("dashboard", cause="marimo isn't installed", cure=how_to_install())
    wanted = settings.PAGES_PORT if port is None else port
    with _until_stopped(), listening(wanted, or_any=port is None) as ear:
        path = new_path()
        address = login_address(ear, path)
        print_line(f"workspace    {workspace}")
        print_line(f"dashboards   {address}")
        print_line("Ctrl-C ends it.")
        with _opened(address, print_line) if open_it else contextlib.nullcontext():
            _show(workspace, ear, path)
    _leave()


@contextlib.contextmanager
def _opened(address: str, print_line: PrintLine) -> Iterator[None]:
    """Open a browser that has a window; one that draws in the terminal would hide what we print.

    All users of a machine can read the command lines of its processes. So the browser is given a file that
    leads to the address and that only its owner can read; the file is removed at the end.
    """
    browser = _browser()
    if browser is None:
        yield
        return
    folder = settings.state_folder() / "logins"
    folder.mkdir(mode=0o700, exist_ok=True)
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
    """Return the user's browser, unless there is none or it has no window."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return None
    has_window = not isinstance(browser, webbrowser.GenericBrowser) or isinstance(
        browser, webbrowser.BackgroundBrowser
    )
    return browser if has_window else None


def _show(workspace: Path, ear: socket.socket, path: str) -> None:
    """Serve until a signal ends it; marimo keeps its files in a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="curriculum-dashboard-") as folder:
        for name, text in SETTINGS.items():
            (Path(folder) / name).write_text(text)
        settings.apply(settings.shown(workspace, Path(folder)))
        with contextlib.chdir(folder):
            from dashboards import questions
            from dashboards.server import application

            questions.share(settings.state_folder() / "questions")
            pages = application(
                workspace,
                path,
                pages_address(ear).removeprefix("http://"),
                lambda: settings.server_of(workspace),
                resources(),
            )
            serve_socket(pages, ear, linger_s=LINGER_S)


def _leave() -> NoReturn:
    """End at once: threads of open pages may be deep in a question, and an orderly end would crash there."""
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
    """End the block, and nothing but the block, at a signal that asks for it, also an ignored SIGINT."""

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
