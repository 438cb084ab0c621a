"""`curriculum dashboard` logs its owner's browser in, and nobody who reads command lines."""

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

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Dashboards whose command opened a browser."""

    process: subprocess.Popen[bytes]
    server: str
    path: str
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
        printed = next(line for line in said.read_text().splitlines() if "#" in line)
        server, _, path = printed.split()[1].partition("/#")
        yield Shown(process=process, server=server, path=path, opened=argument.read_text())
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, said.read_text()


def test_the_path_is_on_no_command_line_but_in_a_file_of_its_owner_that_ends_with_the_command(
    shown: Shown,
) -> None:
    assert _status(shown, "/") == _status(shown, "/overview/") == 404
    assert _status(shown, f"/{shown.path}/overview/") == 200, "the pages are shown"
    assert len(shown.path) == 32
    assert shown.path not in shown.opened
    assert shown.opened.startswith("file://")
    assert f"{shown.server}/#{shown.path}" in shown.page.read_text()
    assert stat.S_IMODE(shown.page.stat().st_mode) == 0o600
    assert stat.S_IMODE(shown.page.parent.stat().st_mode) == 0o700
    shown.process.terminate()
    shown.process.wait(PATIENCE_S)
    assert not shown.page.exists()


def _status(shown: Shown, path: str) -> int:
    """The status of an answer, which sets no cookie."""
    connection = http.client.HTTPConnection(shown.server.removeprefix("http://"), timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.headers["Set-Cookie"] is None
    connection.close()
    return answer.status


@pytest.mark.browser
def test_the_file_logs_a_browser_in(shown: Shown, browser: "Browser") -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(shown.opened)
        page.wait_for_url(f"{shown.server}/{shown.path}/overview/")
        page.locator("h1").first.wait_for()
        assert context.cookies() == []
        page.goto(f"{shown.server}/mixtures/?phase=x")
        page.wait_for_url(f"{shown.server}/{shown.path}/mixtures/?phase=x")
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{shown.server}/overview/")
        assert "Open the address" in page.inner_text("body"), "another browser isn't logged in"
