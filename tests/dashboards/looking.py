"""Helpers of tests that read pages of the dashboards."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import BrowserContext, Page, expect

from dashboards.questions import question

PATIENCE_MS = 120_000
"""A page comes with its own Python, and cores may be shared."""

GROUND_IS = """scheme => {
  const parts = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number);
  return parts.reduce((one, two) => one + two) > 380 === (scheme === "light");
}"""


def log_in(context: BrowserContext, address: str) -> None:
    """Open the address that the command printed, once, in a page that is closed again."""
    server, _, path = address.rstrip("/").rpartition("/")
    page = context.new_page()
    page.goto(f"{server}/#{path}")
    page.wait_for_url(f"{address}**")
    page.close()


def open_page(page: Page, address: str, name: str, query: str = "") -> None:
    """Open one of the pages, and wait for its head."""
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{address}{name}/{query.replace('&', '?', 1)}")
    expect(page.locator("header.top")).to_be_visible(timeout=PATIENCE_MS)


def panels(page: Page) -> list[str]:
    """The ids of the panels that are there, from top to bottom."""
    found = page.locator("section[id]").evaluate_all("all => all.map((each) => each.id)")
    assert all(isinstance(each, str) for each in found)
    return list(found)


def words(page: Page, selector: str) -> str:
    """Return a panel's text with single spaces."""
    return " ".join(page.locator(selector).inner_text().split())


def expect_sql(page: Page, panel: str, name: str, *, whole: bool = True) -> None:
    """The SQL of a panel unfolds; it is the file's, and the link takes it to the SQL page."""
    details = page.locator(f'#{panel} details[data-question="{name}"]')
    expect(details.locator("pre")).to_be_hidden()
    details.locator("summary").click()
    expect(details.locator("pre")).to_be_visible()
    shown = details.locator("pre").inner_text()
    of_file = question(name).sql.strip()
    assert shown.strip() == of_file if whole else of_file in shown
    link = details.locator("a").get_attribute("href")
    assert link
    assert parse_qs(urlsplit(link).query)["q"] == [details.locator("pre").text_content()]
    details.locator("summary").click()


def shoot(page: Page, shots: Path, name: str) -> None:
    """The whole page, in light and in dark, to be looked at."""
    high = page.locator("#App").evaluate("app => app.scrollHeight")
    page.set_viewport_size({"width": 1360, "height": min(int(high), 5000)})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.wait_for_function(GROUND_IS, arg=scheme)
        page.screenshot(path=shots / f"{name}-{scheme}.png")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1360, "height": 900})
