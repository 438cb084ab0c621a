"""The SQL page: what it offers, what it answers, what it refuses, in a browser."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from curriculum.catalog import macros, open_catalog, relations
from curriculum.sandbox import landlock
from dashboards.questions import recipes
from dashboards.sql_panels import FIRST

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not landlock(), reason="needs Landlock"),
]
PATIENT_MS = 120_000


@pytest.fixture(scope="module")
def page(watched: Any, address: str) -> Iterator[Page]:
    """The page as it is opened first; in the end nothing was complained of."""
    page: Page = watched.page
    page.set_default_timeout(PATIENT_MS)
    page.set_default_navigation_timeout(PATIENT_MS)
    page.goto(f"{address}sql/")
    yield page
    watched.expect_calm(address)


def _answered(page: Page, rows: int) -> None:
    expect(page.locator("#answer tbody tr")).to_have_count(rows, timeout=PATIENT_MS)


def _opened(page: Page, address: str, sql: str, more: str = "") -> None:
    # Panels of the page before may be on their way still: asyncio complains of each that finds it gone.
    page.wait_for_timeout(500)
    page.goto(f"{address}sql/?q={quote(sql)}{more}")
    expect(page.locator("#ask .cm-content")).to_have_text(sql.replace("\n", ""))


def _asked(page: Page, address: str, sql: str) -> None:
    _opened(page, address, sql)
    page.get_by_role("button", name="Run").click()


def _typed(page: Page, sql: str) -> None:
    page.locator("#ask .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)
    expect(page.locator("#ask .cm-content")).to_have_text(sql)
    # The form hears of it a moment later than the eye sees it: by a timer that is over before this one.
    page.evaluate("new Promise((done) => setTimeout(done, 500))")


def _cells(page: Page) -> list[list[str]]:
    rows = page.locator("#answer tbody tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


def test_every_panel_is_there_and_a_first_question_is_answered(page: Page, home: Path) -> None:
    _answered(page, 3)
    assert _cells(page) == [
        [family, "train", "76", f"{_tokens(home, family):,}"]
        for family in ("v3_doxygen", "v3_simple", "v4_context_graph")
    ]
    expect(page.locator("#top [aria-current]")).to_have_text("SQL")
    expect(page.locator("#ask .cm-line")).to_have_text(FIRST.splitlines())
    expect(page.locator("#count")).to_contain_text("3 rows in")
    assert page.locator("#answer th").all_inner_texts()[3] == "tokens\nhugeint"


def _tokens(home: Path, family: str) -> int:
    """Read from the files, not through a catalog."""
    files = home.glob(f"rows/family-{family}/**/*.parquet")
    counts = [pq.read_table(file)["valid_token_count"].to_pylist() for file in files]
    return sum(count for of_file in counts for count in of_file if count)


def test_the_sidebar_names_every_question_view_and_macro(page: Page, home: Path) -> None:
    with open_catalog(home) as catalog:
        views, calls = relations(catalog), macros()
    asked = page.locator("#questions .example")
    expect(asked).to_have_count(len(recipes()), timeout=PATIENT_MS)
    assert asked.count() >= 20
    for group, named in (("views", views), ("macros", calls)):
        found = page.locator(f"#{group} details")
        assert [each.get_attribute("data-name") for each in found.all()] == [
            one.name for one in named
        ]
    rows = page.locator('#views [data-name="rows"]')
    rows.locator("summary").click()
    expect(rows).to_contain_text("packed rows")
    assert {"pack_id", "valid_token_count"} <= set(rows.locator("li").all_inner_texts())


def test_what_is_typed_is_asked_by_the_keyboard_and_by_the_button(page: Page) -> None:
    _answered(page, 3)
    _typed(page, "SELECT 40 + 2 AS it")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer tbody")).to_have_text("42", timeout=PATIENT_MS)
    _typed(page, "SELECT 40 + 3 AS it")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#answer tbody")).to_have_text("43", timeout=PATIENT_MS)
    page.wait_for_url(lambda url: parse_qs(urlsplit(url).query) == {"q": ["SELECT 40 + 3 AS it"]})
    page.reload()
    expect(page.locator("#answer tbody")).to_have_text("43", timeout=PATIENT_MS)
    expect(page.locator("#ask .cm-content")).to_have_text("SELECT 40 + 3 AS it")


def test_the_keys_that_ask_are_said(page: Page) -> None:
    expect(page.locator("#ask h2")).to_have_text("SQL query Ctrl + Enter runs it")


def test_a_link_of_others_fills_the_box_and_asks_nothing(page: Page, address: str) -> None:
    sql = "SELECT 40 + 4 AS it, 'never asked here' AS why"
    _opened(page, address, sql)
    expect(page.locator("#not_asked")).to_contain_text("has not been run yet")
    # A question that was asked would have an answer by now: that of the sidebar's does.
    page.wait_for_timeout(3000)
    expect(page.locator("#not_asked")).to_be_visible()
    expect(page.locator("#answer table, #refused, #chart")).to_have_count(0)
    page.locator("#ask .cm-content").click()
    page.keyboard.press("Control+Enter")
    _answered(page, 1)
    # What its reader asked once isn't a link of others any more.
    _opened(page, address, sql)
    _answered(page, 1)


def test_an_answer_has_a_chart_whose_choice_the_link_keeps(page: Page, address: str) -> None:
    sql = "SELECT range AS n, range * range AS square, 'f' || (range % 2) AS f FROM range(1, 9)"
    _asked(page, address, sql)
    chart = page.locator("#chart")
    expect(chart.get_by_label("Chart")).to_have_value("Line")
    expect(chart.locator(".field g")).to_have_count(1)
    chart.get_by_label("colour by").select_option("f")
    expect(chart.locator(".field g")).to_have_count(2)
    expect(chart.locator(".right text")).to_have_text(["49 f1", "64 f0"])
    chart.get_by_label("Chart").select_option("Bars")
    expect(chart.locator("tbody tr")).to_have_count(8)
    assert chart.locator("tbody tr").last.inner_text().split() == ["8", "f0", "64"]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#files output")).to_have_text("Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert parse_qs(urlsplit(link).query) == {"q": [sql], "by": ["f"], "chart": ["bars"]}
    assert urlsplit(link).path == "/sql/", "the link holds the path that lets its owner in"
    linked = page.context.new_page()
    linked.goto(link)
    expect(linked.locator("#chart tbody tr")).to_have_count(8, timeout=PATIENT_MS)
    expect(linked.locator("#chart").get_by_label("colour by")).to_have_value("f")
    assert linked.url.startswith(address)
    linked.close()
    chart.get_by_label("Chart").select_option("No chart")
    expect(chart.locator("table, .plot")).to_have_count(0)
    # The next question begins with the chart that suits it.
    _typed(page, "SELECT 'a' AS w, 1 AS m UNION ALL SELECT 'b', 2 ORDER BY 1")
    page.keyboard.press("Control+Enter")
    expect(chart.locator("tbody tr")).to_have_count(2)
    assert set(parse_qs(urlsplit(page.url).query)) == {"q"}


def test_what_a_link_says_of_a_chart_is_text(page: Page, address: str) -> None:
    evil = "<img src=x onerror=alert(1)>"
    sql = f"SELECT '{evil}' AS \"{evil}\", 1 AS m UNION ALL SELECT 'b', 2 ORDER BY m"
    _asked(page, address, sql)
    _opened(
        page, address, sql, f"&chart=line&across={quote(evil)}&up={quote(evil)}&by={quote(evil)}"
    )
    expect(page.locator("#chart .field g")).to_have_count(2)
    assert page.locator("#chart img").count() == 0


def test_an_answer_can_be_taken_along(page: Page, address: str) -> None:
    _asked(page, address, "SELECT range AS n, 'a, b' AS t, [range] AS l FROM range(3)")
    _answered(page, 3)
    for name, suffix in (("CSV", "csv"), ("Parquet", "parquet")):
        with page.expect_download(timeout=PATIENT_MS) as waited:
            page.locator("#files").get_by_text(name).click()
        assert waited.value.suggested_filename == f"answer.{suffix}"
        data = Path(waited.value.path()).read_bytes()
        if suffix == "csv":
            assert data.decode() == 'n,t,l\n0,"a, b",[0]\n1,"a, b",[1]\n2,"a, b",[2]\n'
        else:
            lines = [{"n": n, "t": "a, b", "l": [n]} for n in range(3)]
            assert pq.read_table(io.BytesIO(data)).to_pylist() == lines


def test_what_is_wrong_or_hostile_gets_a_sentence_and_writes_nothing(
    page: Page, address: str, home: Path
) -> None:
    _asked(page, address, "SELECT 1\nFORM rows")
    refused = page.locator("#refused")
    expect(refused).to_contain_text("DuckDB refuses it. Parser Error", timeout=PATIENT_MS)
    expect(refused.locator("pre")).to_contain_text("LINE 2: FORM rows")
    before = {file for file in home.rglob("*") if "catalog" not in file.parts}
    _typed(page, "COPY (SELECT 1) TO 'x.csv'")
    page.keyboard.press("Control+Enter")
    expect(refused).to_contain_text("It must be exactly one SELECT", timeout=PATIENT_MS)
    _typed(page, "FROM read_text('workspace.json')")
    page.keyboard.press("Control+Enter")
    expect(refused).to_contain_text("Cannot access file", timeout=PATIENT_MS)
    assert {file for file in home.rglob("*") if "catalog" not in file.parts} == before


def test_text_of_repositories_is_shown_and_never_run(page: Page, address: str) -> None:
    _asked(page, address, "SELECT '<img src=x onerror=alert(1)>' AS \"<b>\"")
    _answered(page, 1)
    assert _cells(page) == [["<img src=x onerror=alert(1)>"]]
    assert page.locator("#answer img, #answer th b").count() == 0


def test_a_long_answer_says_what_it_leaves_out(page: Page, address: str) -> None:
    _asked(page, address, "FROM range(20000)")
    _answered(page, 500)
    expect(page.locator("#count")).to_contain_text("limited to 10,000 rows")
    expect(page.locator("#count")).to_contain_text("curriculum query --out FILE")


def test_a_question_of_the_cookbook_opens_with_its_sql_and_its_answer(
    page: Page, shots: Path
) -> None:
    page.locator("#questions .example", has_text="dominate").click()
    expect(page.locator("#ask .cm-content")).to_contain_text(
        "repositories dominate", timeout=PATIENT_MS
    )
    expect(page.locator("#answer th").first).to_be_visible(timeout=PATIENT_MS)
    expect(page.locator("#refused")).to_have_count(0)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        ground = {"light": "rgb(250, 250, 248)", "dark": "rgb(22, 24, 28)"}[scheme]
        expect(page.locator("body")).to_have_css("background-color", ground)
        page.screenshot(path=shots / f"dashboard-sql-{scheme}.png")
