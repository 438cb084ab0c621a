"""The pictures of README and docs: taken of the demo's pages, and written anew by `--rewrite`."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboards.conftest import dashboard_of
from tests.dashboards.looking import GROUND_IS, PATIENCE_MS, open_page

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "dashboards" / "pictures"
SHOWN = re.compile(r"dashboards/pictures/([\w-]+\.(?:png|svg))")
SPECIALIST = "&specialist=templates%2Fdemo"
PAGES = {
    "runs": (SPECIALIST, "#costs", 1050),
    "mixtures": (f"{SPECIALIST}&phase=syntax", "#what_if", 760),
}
"""Settings, a slow panel and the picture height of each page."""
WIDTH, HEIGHT = 1240, 800
ROWS = 6
"""Rows of a page."""
MAX_BYTES = 200_000


def test_every_picture_is_shown_somewhere_and_small() -> None:
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {name for text in texts for name in SHOWN.findall(text.read_text(encoding="utf-8"))}
    assert shown == {each.name for each in PICTURES.iterdir()}
    assert [each.name for each in PICTURES.iterdir() if each.stat().st_size > MAX_BYTES] == []


@pytest.mark.browser
@pytest.mark.timeout(600)
def test_the_pages_of_the_pictures_are_whole(
    demo_home: Path,
    browser: Browser,
    shots: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    taken: list[Path] = []
    home = tmp_path / "cpp-lab"
    shutil.copytree(demo_home, home, symlinks=True)
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    with dashboard_of(home, tmp_path / "said.txt") as address:
        for name, (query, last, height) in PAGES.items():
            page.set_viewport_size({"width": WIDTH, "height": height})
            open_page(page, address, name, query)
            expect(page.locator(last)).to_be_visible(timeout=PATIENCE_MS)
            # The place of the workspace is this machine's.
            page.locator("header.top p").evaluate("place => place.textContent = ''")
            taken += _shoot(page, shots, name)
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    page.goto(_rows(home).as_uri())
    for _ in range(ROWS - 1):
        page.keyboard.press("j")
    page.get_by_role("button", name="Structure", exact=True).first.click()
    taken += _shoot(page, shots, "rows")
    page.close()
    assert all(0 < each.stat().st_size <= MAX_BYTES for each in taken)
    if request.config.getoption("--rewrite"):
        for each in taken:
            shutil.copy(each, PICTURES)


def _rows(home: Path) -> Path:
    """The page of rows with structure; its last row holds two documents."""
    pages = sorted((home / "reports" / "rows").glob("*.html"))
    title = "<title>v6_enriched of v2_simple"
    return next(each for each in pages if title in each.read_text(encoding="utf-8"))


def _shoot(page: Page, folder: Path, name: str) -> Iterator[Path]:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.wait_for_function(GROUND_IS, arg=scheme)
        file = folder / f"{name}-{scheme}.png"
        page.screenshot(path=file)
        yield file
