"""Runs compared in a browser: every panel, every figure, and the choice of who is in colour."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dashboards.conftest import Watched
from tests.dashboards.looking import PATIENCE_MS, expect_sql, open_page, panels, shoot, words

PHASES = ("syntax", "file_graph", "structure")
pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def page(watched: Watched, address: str) -> Page:
    open_page(watched.page, address, "runs", "&specialist=templates")
    expect(watched.page.locator("#costs")).to_be_visible(timeout=PATIENCE_MS)
    return watched.page


def test_every_panel_is_there(page: Page) -> None:
    assert panels(page) == ["training", "heatmap", "curves", "losses", "settings", "costs"]


def test_each_cell_says_what_a_phase_won_and_is_coloured_within_its_phase(page: Page) -> None:
    lines = page.locator("#heatmap tbody tr")
    said = {
        line.locator("th").inner_text(): [
            " ".join(each.split()) for each in line.locator("td").all_inner_texts()
        ]
        for line in lines.all()
    }
    assert said == {
        "systems_c/wide": ["−1.100 3.900 → 2.800", "–", "–", "−1.100 4.000 → 2.900"],
        "templates": [
            "−1.000 3.900 → 2.900",
            "−0.500 2.900 → 2.400",
            "−0.300 2.400 → 2.100",
            "−1.800 4.000 → 2.200",
        ],
        "testing": [
            "−0.800 3.900 → 3.100",
            "−0.600 3.100 → 2.500",
            "+0.200 2.500 → 2.700",
            "−1.200 4.000 → 2.800",
        ],
    }
    deep = lines.locator("td:nth-child(3)").evaluate_all(
        "all => all.map((each) => each.style.getPropertyValue('--deep'))"
    )
    assert deep == ["", "38%", "46%"], (
        "the best of a phase is the deepest, the others in proportion"
    )
    assert page.locator("#heatmap td.rose").inner_text().startswith("+0.200")
    interval = lines.nth(1).locator("td").first.get_attribute("title")
    assert interval == "95 % interval: 2.850 to 3.050, 12 documents of 5 lineages"


def test_curves_end_at_their_names_and_figures(page: Page) -> None:
    assert page.locator("#curves canvas").count() == 0
    names = page.locator("#curves .field g.curve").evaluate_all(
        "all => all.map((g) => g.dataset.name)"
    )
    assert sorted(names) == ["systems_c/wide", "templates", "testing"]
    for name, figure, evaluations in (
        ("systems_c/wide", "2.900", 3),
        ("templates", "2.200", 7),
        ("testing", "2.800", 7),
    ):
        curve = page.locator(f'#curves g[data-name="{name}"]')
        ends = page.locator("#curves .right g", has_text=name)
        expect(ends.locator(".figure")).to_have_text(figure)
        points = curve.locator("polyline:not(.raw)").get_attribute("points")
        assert points
        assert len(points.split()) == evaluations
    marks = page.locator("#curves text.mark").all_text_contents()
    assert marks == ["1 syntax", "2 file_graph", "3 structure"]


def test_costs_say_what_a_hundredth_of_a_bit_took(page: Page) -> None:
    heads = page.locator("#costs thead th").all_inner_texts()
    assert "cost per 0.01 bpb" in heads
    lines = [" ".join(each.split()) for each in page.locator("#costs tbody tr").all_inner_texts()]
    assert len(lines) == 7
    syntax = next(each for each in lines if each.startswith("templates"))
    assert syntax == "templates syntax 30k 1 min −1.000 0.05 0.0005 0.6 s"
    rose = next(each for each in lines if "+0.200" in each)
    assert rose.endswith("– –")


def test_the_runs_of_the_highlighted_specialist_are_compared(page: Page) -> None:
    heads = page.locator("#settings thead th").all_inner_texts()
    assert heads == ["setting", *(f"templates/{name}" for name in PHASES)]
    assert "learning rate 0.001 0.001 0.001" in words(page, "#settings")
    curves = page.locator("#losses .field g").evaluate_all("all => all.map((g) => g.dataset.name)")
    assert curves == [f"templates/{name}" for name in PHASES]
    assert words(page, "#settings").count("≠") == 2, "in the explanation, and of mixtures"


def test_the_reader_chooses_the_axis_and_the_smoothing_of_all_curves(page: Page) -> None:
    line = page.locator('#curves g[data-name="templates"] polyline:not(.raw)')
    raw = page.locator('#curves g[data-name="templates"] polyline.raw')
    assert line.get_attribute("points") == raw.get_attribute("points")
    page.locator("#view select").first.select_option(label="training time")
    expect(page.locator("#curves .below")).to_contain_text("training time of all phases")
    expect(page.locator("#curves .below")).to_contain_text("min")
    expect(page.locator("#losses .below")).to_contain_text("training time of the run")
    page.wait_for_url(lambda url: "x=training+time" in url or "x=training%20time" in url)
    slider = page.locator("#view [role=slider]").nth(1)
    slider.focus()
    for _ in range(5):
        page.keyboard.press("PageUp")
    expect(line).not_to_have_attribute("points", str(raw.get_attribute("points")))
    expect(page.locator("#curves .right .chosen .figure")).to_have_text("2.200")
    page.locator("#view select").first.select_option(label="steps")
    expect(page.locator("#curves .below")).to_contain_text("steps of all phases")
    for _ in range(5):
        page.keyboard.press("PageDown")


def test_another_specialist_comes_into_colour(page: Page) -> None:
    expect(page.locator("#curves .field g.chosen")).to_have_attribute("data-name", "templates")
    page.locator("#choice select").select_option(label="testing")
    expect(page.locator("#curves .field g.chosen")).to_have_attribute(
        "data-name", "testing", timeout=PATIENCE_MS
    )
    expect(page.locator("#heatmap tr.on th")).to_have_text("testing")
    page.wait_for_url(lambda url: "specialist=testing" in url)
    expect(page.locator("#settings thead")).to_contain_text("testing/structure")
    assert "learning rate 0.003 0.003 0.003" in words(page, "#settings")


def test_an_address_selects_runs_of_several_specialists(
    watched: Watched, address: str, page: Page
) -> None:
    open_page(page, address, "runs", "&runs=templates/syntax,testing/syntax&smooth_loss=0")
    expect(page.locator("#costs")).to_be_visible(timeout=PATIENCE_MS)
    heads = page.locator("#settings thead th").all_inner_texts()
    assert heads == ["setting", "templates/syntax", "testing/syntax"]
    assert "learning rate ≠ 0.001 0.003" in words(page, "#settings")
    assert page.locator("#losses .field g").count() == 2


def test_the_sql_of_each_panel_is_one_click_away(page: Page) -> None:
    expect_sql(page, "heatmap", "panels/gains")
    expect_sql(page, "curves", "panels/learning")
    expect_sql(page, "losses", "panels/losses")
    expect_sql(page, "costs", "cost_of_bpb")


def test_it_is_legible_in_light_and_dark(page: Page, shots: Path) -> None:
    shoot(page, shots, "runs")
    assert "Lower is better" in words(page, "#curves")


def test_nothing_came_from_elsewhere(watched: Watched, page: Page, address: str) -> None:
    watched.expect_calm(address)
