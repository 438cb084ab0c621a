"""Prefect's pages in the browser of a user who is logged in."""

import contextlib
from pathlib import Path

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PageTimeout

from tests.flows.serving import Served

SHOTS = Path(__file__).parents[2] / "test-output"
"""Folder of screenshots."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BROWSER_MS = 120_000
"""For whatever a browser and a server that share few cores with runs do."""
TRIES, TRY_MS = 10, 10_000


def log_in(page: Page, served: Served) -> None:
    """Open the address that `curriculum serve` prints, which stores the password and leads to the runs."""
    page.goto(served.places.login)
    page.wait_for_url(f"{served.address}/v2/runs**")


def open_page(page: Page, served: Served, address: str) -> None:
    """Open one of Prefect's pages and wait for its menu.

    Such a page forgets the password when its first request fails: because the server is too busy for an
    answer, or the page is left before. The user logs in again then.
    """
    menu = page.get_by_text("Deployments", exact=True).first
    login = page.get_by_role("button", name="Login").first
    for _ in range(TRIES):
        page.goto(address)
        with contextlib.suppress(PageTimeout):
            menu.or_(login).first.wait_for(timeout=TRY_MS)
        if menu.is_visible():
            return
        if login.is_visible():
            log_in(page, served)
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / "not-opened.png")
    raise AssertionError(f"{page.url}: {page.inner_text('body')}")
