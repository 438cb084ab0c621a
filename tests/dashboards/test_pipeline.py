"""Artefacts of a specialist in a browser: the picture, the manifests it opens, and the list of reports."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from curriculum.pipeline import Pipeline
from curriculum.pipeline.run_config import CorpusConfig
from tests.curriculum.pipeline.tiny_diet import NAME, edit, write_tiny_diet
from tests.dashboards.conftest import Watched, dashboard_of
from tests.dashboards.looking import PATIENCE_MS, open_page, words
from tests.flows.cli_runner import curriculum

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

SIZES = (1280, 390)
SCHEMES = ("light", "dark")
CONTRAST = """(svg) => {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colour = (text) => {
    pixel.fillStyle = text;
    pixel.fillRect(0, 0, 1, 1);
    return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((each) => each / 255)
    .map((each) => each <= .03928 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4)
    .reduce((sum, each, at) => sum + each * [.2126, .7152, .0722][at], 0);
  const ground = light(colour(getComputedStyle(svg.closest(".card")).backgroundColor));
  return [...svg.querySelectorAll("text, tspan")].map((each) => {
    const ink = light(colour(getComputedStyle(each).fill));
    const [high, low] = [Math.max(ink, ground), Math.min(ink, ground)];
    return (high + .05) / (low + .05);
  }).reduce((least, each) => Math.min(least, each), 99);
}"""
"""The least contrast of a text of a picture with the card that it is on."""


@pytest.fixture(scope="module")
def home_of_tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose first phase is mixed by an older diet, with its report and one of others."""
    home = tmp_path_factory.mktemp("pipeline") / "lab"
    write_tiny_diet(home)
    Pipeline(home).mix(NAME, phase="syntax", corpus=CorpusConfig(workers=1))
    done = curriculum("report", NAME, home=home)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.copyfile(home / "reports" / "tiny.html", home / "reports" / "theirs.html")
    edit(home, "diets/tiny.yaml", "token_budget: 4K", "token_budget: 6K")
    return home


@pytest.fixture(scope="module")
def tiny_address(
    home_of_tiny: Path, chromium: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the address of its dashboards."""
    with dashboard_of(home_of_tiny, tmp_path_factory.mktemp("said") / "said.txt") as shown:
        yield shown


@pytest.fixture(scope="module")
def looked(browser: Browser, tiny_address: str) -> Iterator[Watched]:
    """A window that is logged in."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    looked = Watched(context)
    open_page(looked.page, tiny_address, "overview")
    yield looked
    context.close()


@pytest.fixture
def page(looked: Watched, tiny_address: str) -> Page:
    """The overview with the picture, in a wide window."""
    looked.page.set_viewport_size({"width": 1280, "height": 900})
    looked.page.emulate_media(color_scheme="light")
    if not looked.page.url.endswith("/overview/"):
        looked.page.goto(f"{tiny_address}overview/")
    expect(looked.page.locator("#pipeline svg.pipeline")).to_be_visible(timeout=PATIENCE_MS)
    return looked.page


def test_every_artefact_has_its_state_in_words(page: Page) -> None:
    found = page.locator("#pipeline .node").evaluate_all(
        "all => all.map(each => [each.dataset.node, each.querySelector('.state').textContent])"
    )
    states = dict(found)
    assert states["corpus"] == "built"
    assert states["syntax/rows/1 v3_simple"] == "built"
    assert states["syntax/mixture"] == "stale"
    assert states["file_graph/run"] == "planned"
    assert "syntax: mixtures of tiny, syntax: tokens: 2000 → 3000" in words(page, "#pipeline")


def test_a_click_on_a_node_opens_its_manifests_and_each_input_leads_on(page: Page) -> None:
    page.locator('#pipeline [data-node="syntax/rows/1 v3_simple"]').click()
    expect(page.locator("h1")).to_have_text(re.compile(r"Manifest of [0-9a-f]{12}"))
    assert "v3_simple" in words(page, ".artefact")
    page.get_by_role("listitem").filter(has_text="documents v3_simple lattice").get_by_role(
        "link"
    ).click()
    expect(page.locator(".artefact > summary code")).to_have_text(
        re.compile(r"^documents/family-v3_simple/repository-lattice/[0-9a-f]{12}$")
    )
    page.get_by_role("link", name="Overview").click()
    expect(page.locator("header.top")).to_be_visible(timeout=PATIENCE_MS)


def test_nodes_are_reached_by_the_keyboard(page: Page) -> None:
    links = page.locator("#pipeline a.node")
    assert links.count() == page.locator("#pipeline .node:not(.is-planned)").count()
    names = links.evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")
    assert all(name.endswith((", built", ", stale")) for name in names)
    links.first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(re.compile("[Mm]anifest"))


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_picture_is_legible(page: Page, shots: Path, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    picture = page.locator("#pipeline svg.pipeline")
    sizes = picture.locator("text").evaluate_all(
        "all => all.map(each => parseFloat(getComputedStyle(each).fontSize)"
        " * each.getScreenCTM().a)"
    )
    assert min(sizes) >= 11, "text isn't scaled with the picture"
    assert picture.evaluate(CONTRAST) >= 4.5
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the card scrolls alone"
    hint = page.locator("#pipeline .wide").evaluate(
        "box => getComputedStyle(box, '::after').visibility"
    )
    assert hint == ("visible" if width < 1240 else "hidden")
    page.locator("#pipeline").screenshot(path=shots / f"pipeline-{width}-{scheme}.png")


def test_the_list_of_reports_has_state_and_date_and_each_report_opens(
    page: Page, shots: Path
) -> None:
    page.locator("header.top").get_by_role("link", name="Reports").click()
    expect(page.locator("h1")).to_have_text("Reports")
    lines = [" ".join(each.split()) for each in page.locator("tbody tr").all_inner_texts()]
    assert re.fullmatch(
        r"tiny syntax is next 0 of 2 phases done \d+ \w+ \d{4}, \d\d:\d\d UTC", lines[0]
    )
    assert lines[1].startswith("theirs no specialist of this workspace")
    for width in SIZES:
        for scheme in SCHEMES:
            page.set_viewport_size({"width": width, "height": 700})
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.screenshot(path=shots / f"reports-{width}-{scheme}.png")
    page.get_by_role("link", name="tiny").click()
    expect(page.locator("body")).to_contain_text("tiny")
    assert page.evaluate("location.origin") != "null"
    assert page.evaluate("self.origin") == "null", "a report has no origin: it is in a sandbox"
    page.go_back()
    expect(page.locator("h1")).to_have_text("Reports")


def test_a_row_that_a_report_leads_to_is_shown_too(page: Page) -> None:
    page.locator("header.top").get_by_role("link", name="Reports").click()
    page.get_by_role("link", name="tiny").click()
    row = page.locator('a[href^="rows/"]').first
    row.evaluate("link => link.removeAttribute('target')")
    row.click()
    expect(page.locator("nav#rows")).to_be_visible(timeout=PATIENCE_MS)


def test_nothing_came_from_elsewhere(looked: Watched, page: Page, tiny_address: str) -> None:
    looked.expect_calm(tiny_address)
