"""`curriculum dashboard`: the interactive pages, on 127.0.0.1, behind a token.

`serve` starts it too, as `python -m flows.server.dashboard WORKSPACE --port N`; then the token is that of
$CURRICULUM_PAGES_TOKEN, and the address is written to a file beside the logs.
"""

import argparse
import contextlib
import importlib.util
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
from dashboards.guard import login
from flows import settings
from flows.server.owner_http import serve_owner
from flows.settings.contexts import resources
from schemas.cures import install_command
from schemas.errors import CurriculumError

CONFIG = '[display]\ntheme = "system"\n[completion]\ncopilot = false\n'
"""Configuration of marimo, in place of a person's own for notebooks."""
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
    """Return True if marimo is there, which the pages are made with."""
    return importlib.util.find_spec("marimo") is not None


def dashboard(
    workspace: Path, port: int | None, print_line: PrintLine, *, open_it: bool
) -> NoReturn:
    """Show the pages of a workspace until a signal ends it; without a port on the usual one, or any.

    Raises:
        DashboardError: without marimo, and where the port is taken.
    """
    _require_marimo()
    with _until_stopped(), _listening(port) as ear:
        token = secrets.token_urlsafe(24)
        address = login(f"{_address(ear)}/", token)
        print_line(f"workspace    {workspace}")
        print_line(f"dashboards   {address}")
        print_line("Ctrl-C ends it.")
        with _opened(address, print_line) if open_it else contextlib.nullcontext():
            _show(workspace, ear, token, settings.DASHBOARD_LOGIN)
    _leave()


def _require_marimo() -> None:
    if not is_installed():
        raise DashboardError(
            "dashboard",
            cause="marimo isn't installed",
            cure=how_to_install(),
        )


@contextlib.contextmanager
def _listening(port: int | None) -> Iterator[socket.socket]:
    """A socket on a port of 127.0.0.1; where none is asked for, on the usual one or any that is free."""
    with socket.socket() as ear:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            ear.bind((settings.HOST, settings.DASHBOARD_PORT if port is None else port))
        except OSError as taken:
            if port is not None:
                raise DashboardError(
                    "--port",
                    port,
                    cause=f"{settings.HOST}:{port} is in use ({taken.strerror})",
                    cure="Choose another with --port",
                ) from None
            ear.bind((settings.HOST, 0))
        # Browsers that come early wait, and aren't refused.
        ear.listen()
        yield ear


def _address(ear: socket.socket) -> str:
    return f"http://{settings.HOST}:{ear.getsockname()[1]}"


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
    write_secret(page, html.render("login.html", address=address))
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


def _show(workspace: Path, ear: socket.socket, token: str, cure: str) -> None:
    """Serve until we are told to end; marimo keeps its files in a folder that goes with us."""
    with tempfile.TemporaryDirectory(prefix="curriculum-dashboard-") as folder:
        (Path(folder) / ".marimo.toml").write_text(CONFIG)
        settings.apply(settings.shown(workspace, Path(folder)))
        with contextlib.chdir(folder):
            from dashboards import questions
            from dashboards.server import application

            questions.share(settings.state_folder() / "questions")

            port = ear.getsockname()[1]
            names = {f"{settings.HOST}:{port}", f"localhost:{port}"}
            pages = application(
                workspace, token, names, lambda: settings.server_of(workspace), cure, resources()
            )
            serve_owner(pages, ear, linger_s=LINGER_S)


def _leave() -> NoReturn:
    """End at once: threads of open pages may be deep in a question, and an orderly end would crash there."""
    sys.stdout.flush()
    os._exit(0)


def write_secret(file: Path, said: str) -> None:
    """Whole or not at all, and for its owner only."""
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    draft.write_text(said)
    draft.replace(file)


def main() -> None:
    """Serve until SIGINT or SIGTERM; meanwhile a file says where, to its owner only."""
    arguments = argparse.ArgumentParser(prog="flows.server.dashboard")
    arguments.add_argument("workspace", type=Path)
    arguments.add_argument("--port", type=int, required=True)
    given = arguments.parse_args()
    place = settings.dashboard_file(given.workspace)
    with _until_stopped(), _any_if_taken(given.port) as ear:
        write_secret(place, _address(ear))
        sys.stdout.write("the pages are there\n")
        sys.stdout.flush()
        _show(given.workspace, ear, settings.pages_token(), settings.LOGIN)
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


@contextlib.contextmanager
def _any_if_taken(port: int) -> Iterator[socket.socket]:
    """Listen on that port, where links of earlier starts point; on another where it is taken."""
    with contextlib.ExitStack() as stack:
        try:
            ear = stack.enter_context(_listening(port))
        except DashboardError:
            ear = stack.enter_context(_listening(0))
        yield ear


if __name__ == "__main__":
    main()
