"""Mixtures in a browser: every panel, other choices, other shares, and the state in the address."""

import math
import re
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect

from schemas.diet import DietPhase
from tests.dashboards.conftest import EVIL, Watched
from tests.dashboards.looking import PATIENCE_MS, expect_sql, open_page, panels, shoot, words

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
SERVINGS = ["v3_simple", "v3_doxygen", "v4_context_graph"]


@pytest.fixture(scope="module")
def page(watched: Watched, address: str) -> Page:
    open_page(watched.page, address, "mixtures", "&specialist=templates&phase=file_graph")
    expect(watched.page.locator("#repositories")).to_be_visible(timeout=PATIENCE_MS)
    return watched.page


def test_every_panel_is_there_for_the_phase_that_the_address_names(page: Page) -> None:
    assert panels(page) == ["shares", "what_if", "epochs", "repositories"]
    chosen = page.locator("#choice select").evaluate_all(
        "all => all.map((each) => each.selectedOptions[0].text)"
    )
    assert chosen == ["templates", "file_graph"]


def test_rings_say_what_was_planned_and_dots_what_was_realised(page: Page) -> None:
    lines = page.locator("#shares .lanes > .lane-line:not(.heads)")
    said = [line.split() for line in lines.all_inner_texts()]
    assert [line[0] for line in said] == SERVINGS
    assert [line[4] for line in said] == ["60.0%", "25.0%", "15.0%"]
    label = lines.first.locator("svg").get_attribute("aria-label")
    assert label
    realised = re.fullmatch(r"planned 60.0%, realised (\d\d.\d)%", label)
    assert realised
    # The axis ends at the tenth that the largest share reaches.
    end = 10 * math.ceil(max(60.0, float(realised[1])) / 10)
    ring = lines.first.locator("circle.ring").get_attribute("cx")
    assert ring == f"{100 * 60 / end:.2f}%"
    domains = page.locator("#shares details:not(.sql)").first
    domains.locator("summary").click()
    expect(domains.locator(".lane-line b").nth(1)).to_have_text("general")
    assert domains.locator("circle.dot").count() == 3
    domains.locator("summary").click()


def test_epochs_stand_against_what_the_diet_allows(page: Page) -> None:
    said = [line.split() for line in page.locator("#epochs tbody tr").all_inner_texts()]
    assert [line[0] for line in said] == SERVINGS
    # 60 % of 70,000 tokens out of 29,784, the domain templates twice as often as the rest.
    assert 1.3 < float(said[0][4]) < 1.6
    assert "the limit in the diet, 4" in words(page, "#epochs")
    assert page.locator("#epochs line.limit").count() == 3


def test_repositories_are_named_as_they_are_and_never_as_markup(page: Page) -> None:
    first = page.locator("#repositories tbody tr").first
    expect(first.locator("th")).to_have_text(EVIL)
    assert page.locator("img[src=x]").count() == 0
    shares = [line.split()[-4] for line in page.locator("#repositories tbody tr").all_inner_texts()]
    assert len(shares) == 3
    assert "1 of 3 repositories has half of the tokens" in words(page, "#repositories")


def test_the_sql_of_each_panel_is_narrowed_to_what_is_chosen(page: Page) -> None:
    expect_sql(page, "shares", "panels/servings", whole=False)
    expect_sql(page, "repositories", "panels/repositories", whole=False)
    expect_sql(page, "epochs", "panels/servings", whole=False)
    shown = page.locator("#shares pre").text_content()
    assert shown
    assert "phase IS NOT DISTINCT FROM 'file_graph'" in shown


def test_other_shares_are_reckoned_at_once_and_kept_in_the_address(page: Page) -> None:
    panel = page.locator("#what_if")
    expect(panel.locator(".verdict")).to_have_text("`mix` would use these shares unchanged.")
    slider = panel.locator('tr[data-serving="1"]').get_by_role("slider")
    slider.focus()
    slider.press("End")
    share = panel.locator('tr[data-serving="0"] td.n b').first
    expect(share).to_have_text("34.3%", timeout=PATIENCE_MS)
    expect(panel.locator('tr[data-serving="1"] td.n b').first).to_have_text("57.1%")
    page.wait_for_url(lambda url: "shares=60%2C100%2C15" in url)


def test_sliders_are_named_by_what_they_move(page: Page) -> None:
    panel = page.locator("#what_if")
    for name in ("v3_simple causal at 512", "v3_doxygen causal at 512", "Budget ×"):
        expect(panel.get_by_role("slider", name=name, exact=True)).to_have_count(1)
    expect(panel.get_by_role("slider")).to_have_count(4)
    for name in ("Specialist", "Phase"):
        expect(page.get_by_role("combobox", name=name, exact=True)).to_have_count(1)


def test_other_shares_are_copied_as_lines_of_a_diet(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as YAML").click()
    expect(page.locator(".copied output")).to_have_text("Copied")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == page.locator("#yaml").text_content()
    served = DietPhase.model_validate({"phase": "file_graph", "portion": 1, **yaml.safe_load(text)})
    shown = page.locator("#what_if td.n:nth-child(3) b").all_inner_texts()
    assert [f"{100 * each.share:.1f}%" for each in served.servings] == shown
    assert [each.family for each in served.servings] == SERVINGS
    assert text.startswith("    # phase file_graph of templates, at other shares\n    servings:\n")


def test_the_address_alone_brings_the_shares_back(page: Page, address: str) -> None:
    query = "&specialist=templates&phase=file_graph&shares=0,100,0&budget=4"
    open_page(page, address, "mixtures", query)
    verdict = page.locator("#what_if .verdict")
    expect(verdict).to_contain_text("`mix` would stop with an error.", timeout=PATIENCE_MS)
    expect(verdict).to_contain_text("max_repetition is 4")
    assert page.locator("#what_if tr.short").count() == 1
    assert page.locator("#what_if svg.over").count() == 1
    assert "280k tokens; the diet plans 70k" in words(page, "#what_if")


def test_it_is_legible_in_light_and_dark(page: Page, shots: Path) -> None:
    shoot(page, shots, "mixtures")


def test_another_specialist_is_one_choice_away(page: Page) -> None:
    page.locator("#choice select").first.select_option(label="systems_c/wide")
    expect(page.locator("#shares")).to_contain_text(
        "the share in the steps trained so far", timeout=PATIENCE_MS
    )
    page.locator("#choice select").nth(1).select_option(label="file_graph")
    expect(page.locator("#shares")).to_contain_text("has not been trained yet", timeout=PATIENCE_MS)
    page.wait_for_url(lambda url: "specialist=systems_c" in url)
    page.wait_for_url(lambda url: "phase=file_graph" in url)
    assert "shares" not in page.url


def test_nothing_came_from_elsewhere(watched: Watched, page: Page, address: str) -> None:
    watched.expect_calm(address)
