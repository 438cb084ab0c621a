"""`curriculum dashboard` logs its owner's browser in, and nobody who reads command lines or sends headers."""

import contextlib
import http.client
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from dashboards.guard import split_login
from flows import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Dashboards whose command opened a browser."""

    process: subprocess.Popen[bytes]
    address: str
    opened: str
    """The argument that the browser was started with."""

    @property
    def page(self) -> Path:
        """The file that the browser was given."""
        return Path(unquote(urlsplit(self.opened).path))


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    """Dashboards of an empty workspace, and a browser that only writes down what it was given."""
    argument, said = tmp_path / "argument", tmp_path / "said"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\nprintf "%s" "$*" > {argument}.new\nmv {argument}.new {argument}\n'
    )
    browser.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-m", "flows.cli", "dashboard", "--home", str(home)]
    with said.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "BROWSER": f"{browser} %s &"},
        )
    try:
        latest = time.monotonic() + PATIENCE_S
        while not argument.exists():
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < latest, said.read_text()
            time.sleep(0.1)
        printed = next(line for line in said.read_text().splitlines() if "token=" in line)
        yield Shown(process=process, address=printed.split()[1], opened=argument.read_text())
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, said.read_text()


def test_the_token_is_on_no_command_line_but_in_a_file_of_its_owner_that_ends_with_the_command(
    shown: Shown,
) -> None:
    server, token = split_login(shown.address)
    assert _asked(server, "/", {}) == (401, []), "the pages are shown"
    assert token
    assert token not in shown.opened
    assert shown.opened.startswith("file://")
    assert shown.address in shown.page.read_text()
    assert stat.S_IMODE(shown.page.stat().st_mode) == 0o600
    assert stat.S_IMODE(shown.page.parent.stat().st_mode) == 0o700
    shown.process.terminate()
    shown.process.wait(PATIENCE_S)
    assert not shown.page.exists()


def test_a_header_doesnt_change_whose_connection_a_request_comes_by(shown: Shown) -> None:
    """Another user who got the owner's cookie would name a connection of the owner's in that header."""
    server, token = split_login(shown.address)
    _, cookies = _asked(server, f"/?token={token}", {})
    strict = {"Cookie": next(cookie for cookie in cookies if "Strict" in cookie)}
    for header in ({}, {"X-Forwarded-For": "127.0.0.1:9"}, {"X-Forwarded-For": "192.0.2.1"}):
        status, _ = _asked(server, "/style.css", {**strict, **header})
        assert status == 200, header


def _asked(server: str, path: str, headers: dict[str, str]) -> tuple[int, list[str]]:
    """The status of an answer, and the cookies that it sets."""
    connection = http.client.HTTPConnection(server.removeprefix("http://"), timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get_all("Set-Cookie", [])


@pytest.mark.browser
def test_the_file_logs_a_browser_in(shown: Shown, browser: "Browser") -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(shown.opened)
        page.wait_for_url(f"{split_login(shown.address)[0]}/overview/")
        page.locator("h1").first.wait_for()
        kept = {cookie["sameSite"] for cookie in context.cookies()}
        assert kept == {"Strict", "Lax"}
        assert settings.HOST in page.url
