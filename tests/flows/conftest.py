"""What tests of flows share: a Prefect server (ten seconds to start), a browser, a box for what is told."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemas.progress import Event

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 120_000
"""For a browser: by itself it waits for five seconds, or thirty."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A server of its own, with a database that is thrown away."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=300):
        yield


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator["Browser"]:
    """A browser for the tests of one file; an event loop runs in this process until it is closed."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, headless=True, args=FLAGS, timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


@pytest.fixture
def browser_page(browser: "Browser") -> Iterator["Page"]:
    """A page in a context of its own that fails the test on any error and on any request but for a file."""
    wrong: list[str] = []
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        opened = context.new_page()
        opened.set_default_timeout(PATIENCE_MS)
        opened.on("console", lambda message: wrong.append(message.text))
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.on("dialog", lambda dialog: wrong.append(dialog.message))
        opened.on(
            "request",
            lambda request: None if request.url.startswith("file:") else wrong.append(request.url),
        )
        yield opened
    assert wrong == []


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Event]]:
    """The events that a command was given so far."""
    box = tmp_path / "box.jsonl"
    monkeypatch.setenv("CURRICULUM_NOTIFY", f"sh -c 'cat >> {box}'")

    def read() -> list[Event]:
        lines = box.read_text().splitlines() if box.is_file() else []
        return [Event.model_validate_json(line) for line in lines]

    return read
