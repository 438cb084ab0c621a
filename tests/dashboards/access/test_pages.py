"""Every page in light and dark, wide and narrow: no serious fault, no text too small, no sideways scroll."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from curriculum.store import Store
from dashboards import document_page, frame, html
from dashboards.ablation_page import write_ablation
from dashboards.report import page as report_page
from dashboards.rows import row_page as rows_page
from dashboards.server import PLAIN_PATHS
from schemas.document import Document
from tests.dashboards.conftest import dashboard_of
from tests.dashboards.looking import GROUND_IS, PATIENCE_MS
from tests.dashboards.test_ablation_page import judged
from tests.flows.cli.inspect.conftest import view_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
WIDTHS, SCHEMES = (1280, 390), ("light", "dark")
SERVED = {
    "overview": ("", ("#data_sets", "#choice select")),
    "mixtures": ("&specialist=templates&phase=file_graph", ("#repositories", "#budget label")),
    "runs": ("", ("#costs", "#choice select")),
    "reports": ("", ("tbody tr",)),
    "ablations": ("", (".why",)),
    "manifest": ("&key=", ("dl",)),
    "sql line": (
        "&chart=line&across=tokens",
        ("#chart .plot", "#ask .cm-content", "#chart select"),
    ),
    "sql link": ("&q=SELECT+1", ("#not_asked", "#ask .cm-content")),
    "sql": ("", ("#chart .bars", "#ask .cm-content", "#chart select")),
}
"""Pages of the server: what their addresses ask, and what is drawn last: controls of marimo's come late."""
EMPTY = ("empty overview", "empty mixtures", "empty runs")
"""Pages of a workspace that holds nothing yet."""
FILES = ("report", "ablation", "rows", "rows#r2", "rows#r1&q=f1", "document", "sentence")
"""Files by their kinds, and where in one; the third row has structure, and one is searched."""
OTHERS = [
    # CodeMirror's editor, in the shadow of marimo's form: it has no name, and scrolls by itself.
    {"fromShadowDom": ["marimo-form", "marimo-code-editor"]},
    # A button and a list of intervals without names.
    {"fromShadowDom": ["marimo-refresh", "button"]},
    {"fromShadowDom": ["marimo-refresh", "select"]},
]
"""Controls of others that can't be mended from outside; all that is around them is ours."""
MIN_PX = 10.0
FAULTS = """async (others) => {
  const found = await axe.run({ exclude: others }, { resultTypes: ["violations"] });
  return found.violations.filter((each) => ["serious", "critical"].includes(each.impact)).map((each) =>
    `${each.id}: ${each.nodes.map((node) => `${node.target} ${node.html}`.slice(0, 200)).join(" | ")}`);
}"""
SMALL_TEXT = """(least) => [...document.querySelectorAll("svg text")].filter((each) => {
  const drawn = each.getBoundingClientRect().width > 0 && each.getScreenCTM();
  return drawn && parseFloat(getComputedStyle(each).fontSize) * Math.abs(drawn.d) < least;
}).map((each) => `${each.closest("svg").getAttribute("class")}: ${each.textContent}`)"""
SIDEWAYS = """() => [document.documentElement, document.querySelector("#App")].filter(
  (each) => each && each.scrollWidth > innerWidth).map((each) => `${each.tagName} ${each.scrollWidth}`)"""
BOXES = """() => [...document.querySelectorAll(".wide")].filter((each) => each.clientWidth).map((each) => [
  each.getAttribute("aria-label"), each.scrollWidth > each.clientWidth,
  getComputedStyle(each, "::after").visibility === "visible"])"""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A page in a window of one width."""

    page: Page
    width: int
    name: str


def _files(rows_home: Any, facts: Any, wide: Document, folder: Path) -> dict[str, str]:
    articles = [*document_page.articles([view_of(wide)])]
    return {
        "report": report_page.page(facts),
        "ablation": write_ablation(folder, judged(folder)).read_text(encoding="utf-8"),
        "rows": rows_page.page("rows", "of <arena>", rows_home.shown(), rows_home.loaded()),
        "document": document_page.page("title", "subtitle" * 20, articles),
        "sentence": html.sentence("Open it from the terminal"),
    }


@pytest.fixture(scope="module", params=[*SERVED, *EMPTY, *FILES])
def name(request: pytest.FixtureRequest) -> str:
    """A page."""
    return str(request.param)


@pytest.fixture(scope="module")
def empty_address(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the pages of an empty workspace."""
    folder = tmp_path_factory.mktemp("empty")
    (folder / "lab").mkdir()
    with dashboard_of(folder / "lab", folder / "said.txt") as shown:
        yield shown


@pytest.fixture(scope="module", params=WIDTHS)
def opened(
    request: pytest.FixtureRequest,
    name: str,
    browser: Browser,
    address: str,
    empty_address: str,
    home: Path,
    rows_home: Any,
    facts: Any,
    wide: Document,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Opened]:
    """The page in a window of one width."""
    with browser.new_context(viewport={"width": request.param, "height": 844}) as context:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        if name in SERVED:
            query, last = SERVED[name]
            if name == "manifest":
                query += next(each.key[:12] for each in Store(home, dry=True).artefacts("mixtures"))
            page.goto(f"{address}{name.split()[0]}/{query.replace('&', '?', 1)}")
            for each in last:
                expect(page.locator(each).first).to_be_visible(timeout=PATIENCE_MS)
        elif name in EMPTY:
            page.goto(f"{empty_address}{name.removeprefix('empty ')}/")
            expect(page.locator("#first")).to_be_visible(timeout=PATIENCE_MS)
        else:
            kind, _, place = name.partition("#")
            file = tmp_path_factory.mktemp("page") / f"{kind}.html"
            pages = _files(rows_home, facts, wide, file.parent / "ws")
            file.write_text(pages[kind], encoding="utf-8")
            page.goto(f"{file.as_uri()}#{place}")
            if "q=" in place:
                page.get_by_role("searchbox").focus()
                expect(page.locator("#found a")).to_have_count(1)
        yield Opened(page=page, width=request.param, name=name)


def test_every_page_of_the_server_is_looked_at() -> None:
    plain = {path.strip("/") for path in PLAIN_PATHS}
    assert {name.split()[0] for name in SERVED} == {each.name for each in frame.PAGES} | plain


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_no_serious_fault(opened: Opened, scheme: Any, shots: Path) -> None:
    page = opened.page
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function(GROUND_IS, arg=scheme)
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    page.evaluate(axe)
    assert page.evaluate(FAULTS, OTHERS) == []
    page.screenshot(path=shots / f"access-{opened.name}-{opened.width}-{scheme}.png")


def test_text_in_pictures_is_large_enough_to_read(opened: Opened) -> None:
    assert opened.page.evaluate(SMALL_TEXT, MIN_PX) == []


def test_the_page_itself_does_not_scroll_sideways(opened: Opened) -> None:
    assert opened.page.evaluate(SIDEWAYS) == []


def test_a_box_says_that_it_scrolls_where_it_does(opened: Opened) -> None:
    boxes = opened.page.evaluate(BOXES)
    if (opened.name, opened.width) in (
        ("report", 390),
        ("ablation", 390),
        ("overview", 390),
        ("runs", 390),
    ):
        assert any(scrolls for _, scrolls, _ in boxes), "nothing to try it on"
    assert [label for label, scrolls, says in boxes if scrolls != says] == []
    assert all(label for label, _, _ in boxes)
