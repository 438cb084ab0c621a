"""The overview in a browser: every panel with what it must say, its question, and what is pressed."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dashboards.conftest import Watched
from tests.dashboards.looking import expect_sql, open_page, panels, shoot, words

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def page(watched: Watched, address: str) -> Page:
    open_page(watched.page, address, "overview")
    expect(watched.page.locator("#data_sets")).to_be_visible(timeout=120_000)
    return watched.page


def test_every_panel_is_there_and_what_fails_comes_before_how_all_stands(page: Page) -> None:
    assert panels(page) == ["totals", "attention", "specialists", "pipeline", "data_sets"]


def test_the_first_figures_count_the_workspace(page: Page) -> None:
    said = words(page, "#totals dl")
    assert "Specialists 3" in said
    assert "Phases done 4 of 8" in said
    assert "Training tokens 210k" in said
    assert "Training time 7 min cost 0.35" in said


def test_what_failed_is_first_then_what_waits_for_somebody_each_with_its_reason_and_its_cure(
    page: Page,
) -> None:
    lines = page.locator("#attention tbody tr").all_inner_texts()
    assert [" ".join(line.split()) for line in lines] == [
        "failed testing/structure the loss isn't finite at step 10 curriculum run testing",
        "waiting for approval systems_c/wide/syntax trained val_bpb 3.900 → 2.800 "
        "curriculum approve systems_c.wide syntax",
        "stopped at its gate templates/structure its budget ended before its gate opened (10 steps; "
        "val_bpb fell by 0.2500) curriculum run templates",
        "next systems_c/wide/file_graph mixed, and not trained yet curriculum run systems_c.wide",
    ]


def test_specialists_stand_by_phases_with_state_figure_tokens_and_yield(page: Page) -> None:
    heads = page.locator("#specialists thead th").all_inner_texts()
    assert heads == ["syntax", "file_graph", "structure"]
    lines = page.locator("#specialists tbody tr")
    assert lines.locator("th").all_inner_texts() == ["systems_c/wide", "templates", "testing"]
    first = lines.nth(1).locator("td").nth(0)
    said = " ".join(first.inner_text().split())
    assert said.startswith("done 2.900 −1.000 30k of 66k · yield ")
    assert said.endswith("%")
    assert first.locator("svg rect").get_attribute("width") == f"{100 * 30_000 / 66_010:.2f}%"
    states = [
        [each.split()[0] for each in line.locator("td").all_inner_texts()] for line in lines.all()
    ]
    assert states == [
        ["waiting", "missing", "–"],
        ["done", "done", "holds"],
        ["done", "done", "failed"],
    ]
    assert lines.nth(0).locator("td").all_inner_texts()[2] == "–"
    assert "+0.200" in lines.nth(2).locator("td").nth(2).inner_text(), "what rose is seen to rise"


def test_data_sets_say_how_much_there_is_and_how_full_it_is(page: Page) -> None:
    lines = page.locator("#data_sets tbody tr").all_inner_texts()
    assert [line.split()[:4] for line in lines] == [
        ["v3_doxygen", "causal", "512", "152"],
        ["v3_simple", "causal", "512", "152"],
        ["v4_context_graph", "causal", "1,024", "152"],
    ]
    assert "29.8k" in lines[0]


def test_the_sql_of_each_panel_is_one_click_away(page: Page) -> None:
    for panel, name in (
        ("totals", "totals"),
        ("attention", "attention"),
        ("specialists", "standing"),
        ("data_sets", "data_sets"),
    ):
        expect_sql(page, panel, f"panels/{name}")


def test_it_is_legible_in_light_and_dark(page: Page, shots: Path) -> None:
    shoot(page, shots, "overview")


def test_the_token_is_gone_from_the_address_and_nothing_came_from_elsewhere(
    watched: Watched, page: Page, address: str
) -> None:
    assert "token" not in page.url
    watched.expect_calm(address)


def test_links_lead_to_the_other_pages(page: Page) -> None:
    page.locator("header.top a", has_text="Runs compared").click()
    expect(page.locator("header.top [aria-current]")).to_have_text("Runs compared", timeout=120_000)
