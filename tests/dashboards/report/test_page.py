"""The report: true to what a workspace holds, escaped, bound to itself, and legible in light and dark."""

import base64
import doctest
import hashlib
import itertools
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect

from curriculum.inspection import formats
from curriculum.inspection.formats import difference, duration
from curriculum.inspection.losses import Exclusions
from dashboards import frame
from dashboards.charts import marks, plots
from dashboards.charts.plots import apart
from dashboards.charts.smoothing import smoothed
from dashboards.palette import family_colours, phase_style
from dashboards.report import curves, files
from dashboards.report.attention import attention_entries
from dashboards.report.curves import plot_of
from dashboards.report.facts import Facts, report_path
from dashboards.report.page import page
from dashboards.report.step_curves import PhaseSteps, axis_data
from dashboards.training_view import AXES
from schemas.diet import AdvanceWhen, StopsImproving
from tests.dashboards.report.conftest import training_points
from tests.flows.html_text import Read

PATIENCE_MS = 120_000
SECTIONS = (
    *("phases", "settings", "documents", "val_bpb", "validation", "loss", "costs", "timeline"),
    "attention",
)
"""Sections in the order of a reader's questions: training, data, quality, cost, attention."""
GATE = AdvanceWhen(
    min_tokens=1_000_000_000, val_bpb=StopsImproving(stops_improving_by=0.002, over_evaluations=3)
)


@pytest.mark.parametrize("module", [formats, marks, curves, frame, plots])
def test_examples_hold(module: ModuleType) -> None:
    done = doctest.testmod(module, extraglobs={"gate": GATE})
    assert (done.failed, done.attempted > 0) == (0, True)


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(facts: Facts) -> None:
    text = page(facts)
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert found
    digests = []
    for tag in ("style", "script"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert inside
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        digests.append(f"{tag}-src 'sha256-{digest}'")
    assert found[1] == (
        f"default-src 'none'; {'; '.join(digests)}; base-uri 'none'; form-action 'none'"
    )
    assert re.findall(r"(?:https?:|url\(|@import|fetch\(|XMLHttp|{{)", text) == []


def test_the_page_is_served_as_it_is_written(facts: Facts, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(page(facts))
    assert files.page(tmp_path, "a.html") == page(facts)


def test_nothing_that_people_wrote_becomes_markup(facts: Facts) -> None:
    calm = Read(page(facts))
    evil = '</script><img src=x onerror="alert(1)">{{data}}'
    approval = facts.phases[1].approval
    assert approval
    phases = (
        replace(facts.phases[0], phase=replace(facts.phases[0].phase, why=evil)),
        replace(facts.phases[1], approval=approval.model_copy(update={"who": evil})),
        *facts.phases[2:],
    )
    read = Read(page(replace(facts, phases=phases, why=evil, workspace=evil, corpus=evil)))
    assert read.tags == calm.tags
    names = {name for name, _ in read.attributes}
    assert "style" not in names, "the policy would drop it"
    assert [name for name in names if name.startswith("on") or name == "src"] == []
    assert read.said.count(evil) == 6


@settings(max_examples=25)
@given(st.text(max_size=30))
def test_any_name_of_a_phase_can_be_shown(facts: Facts, name: str) -> None:
    first = replace(facts.phases[0], phase=replace(facts.phases[0].phase, name=name))
    read = Read(page(replace(facts, phases=(first, *facts.phases[1:]))))
    assert read.tags.count("script") == 2
    assert read.tags.count("article") == len(facts.phases)


def test_every_link_leads_somewhere_on_the_page(facts: Facts) -> None:
    read = Read(page(facts))
    links = [value for name, value in read.attributes if name == "href"]
    places = [value for name, value in read.attributes if name == "id"]
    assert links
    here = {link[1:] for link in links if link.startswith("#")}
    assert here <= set(places)
    elsewhere = {link for link in links if not link.startswith("#")}
    assert elsewhere == {f"rows/{'a' * 12}.html#r{at}" for at in range(3)}
    assert len(places) == len(set(places))


def test_phases_stand_with_states_gates_and_approvals(facts: Facts) -> None:
    text = Read(page(facts)).said
    for said in (
        "1 of 5",
        "opened: val_bpb fell by 0.0011 over 3 evaluations",
        "end of its budget",
        "gate: val_bpb gains less than 0.002 over 3 evaluations, after 1G tokens; "
        "stops when its budget is spent",
        "approved by ann <b>, 12 Nov 2026, 09:30 “looks right & </script>”",
        "needs approval",
        "step 12,000 of 20,000",
        "for structure, which is running",
    ):
        assert said in text, said


def test_held_out_rows_stand_by_objective_with_what_the_same_documents_changed_by(
    facts: Facts,
) -> None:
    drawn = str(page(facts))
    assert drawn.count("Validation by objective") == 3, "once a phase with a run"
    table = drawn.partition("Validation by objective")[2].partition("</table>")[0]
    cells = re.findall(r"<t[dh]\b[^>]*>([^<]*)<", table)
    heads = ["set", "before", "after", "interval", "documents", "lineages", "change"]
    assert cells[:7] == heads
    lines = [dict(zip(heads, cells[at : at + 7], strict=True)) for at in (7, 14)]
    assert [line["set"] for line in lines] == ["phase", "fim"]
    assert {line["change"] for line in lines} == {"−0.250 (−0.300 to −0.200)"}
    assert {(line["documents"], line["lineages"]) for line in lines} == {("12", "5")}
    assert lines[1]["after"] == "0.900"


def test_a_phase_that_was_spoilt_later_is_seen_to_forget(facts: Facts) -> None:
    table = re.search(r'(?s)<table class="validation">.*?</table>', page(facts))
    assert table
    rows = re.findall(r"(?s)<tr.*?</tr>", table[0])
    syntax = next(row for row in rows if "</i>syntax<" in row)
    assert re.search(r'class="n own"[^>]*>0\.912<', syntax)
    assert re.search(r'class="n more1"[^>]*>0\.918<small>\+0\.006<', syntax)
    assert re.search(r'class="n more5"[^>]*>0\.961<small>\+0\.049<', syntax)
    anchor, unseen = (
        next(row for row in rows if f"</i>{name}<" in row) for name in ("anchor", "unseen")
    )
    assert "0.938<small>\N{MINUS SIGN}0.013" in anchor
    assert "1.117<small>\N{MINUS SIGN}0.014" in unseen
    assert "0.4% in training" in unseen
    assert "in training" not in anchor
    assert not any("</i>anneal<" in row for row in rows), "it has no rows of its own"


def test_the_plot_has_a_curve_for_each_evaluation_over_all_steps(facts: Facts) -> None:
    plot = plot_of(facts)
    assert plot
    assert {each.name for each in plot.series} == {
        "anchor", "unseen", "syntax", "file_graph", "repository_graph",
    }  # fmt: skip
    syntax = next(each for each in plot.series if each.name == "syntax")
    assert (syntax.points[0][0], syntax.points[-1][0]) == (0, 120_000)
    assert syntax.points[-1][1] == pytest.approx(0.961)
    assert plot.y.high >= 3.4, "it shows the first fall"
    assert plot.detail is not None
    assert plot.detail.high < 1.5, "the first fall would flatten the rest"
    for each in plot.series:
        assert 0 <= plot.y.share(each.points[-1][1]) <= 1
        assert 0 <= plot.detail.share(each.points[-1][1]) <= 1
    said = Read(str(curves.chart(plot))).said
    assert [f"{number} {name}" in said for number, (name, _, _) in enumerate(plot.phases, 1)] == [
        True
    ] * 3


def test_what_the_script_says_at_a_step_is_what_was_measured(facts: Facts) -> None:
    data = curves.data(plot_of(facts))
    at = data["names"].index("file_graph, step 20,000")
    plot = plot_of(facts)
    assert plot
    assert data["places"][at] == pytest.approx(plots.across(plot.x, 60_000), abs=1e-4)
    for series, figures in zip(plot.series, data["curves"], strict=True):
        measured = dict(series.points)
        assert (figures[at] is None) == (60_000 not in measured)
        if figures[at] is not None:
            assert figures[at] == pytest.approx(measured[60_000], abs=1e-4)


@given(st.lists(st.floats(0, 300), max_size=12).map(sorted))
def test_names_never_overlap_and_keep_their_order(places: list[float]) -> None:
    moved = apart(places, 16, 300)
    assert len(moved) == len(places)
    assert all(later - sooner >= 16 - 1e-6 for sooner, later in itertools.pairwise(moved))


def test_shares_are_drawn_where_they_are(facts: Facts) -> None:
    text = page(facts)
    # 60% planned, on an axis that ends at 75%.
    assert text.count('<circle class="ring" cx="80.00%"') == 5
    assert "planned 60.0%, realised" in text
    assert "The phase has not been mixed yet." in text


def test_each_serving_shows_a_row_that_leads_to_the_page_of_its_rows(facts: Facts) -> None:
    text = page(facts)
    shown = re.findall(r'(?s)<a class="example" href="([^"]*)"[^>]*>(.*?)</a>', text)
    assert len(shown) == 4 * 3, "of each serving but those of the phase that isn't built"
    link, drawn = shown[0]
    assert link == f"rows/{'a' * 12}.html#r0"
    assert drawn.count("<path") == drawn.count("<rect") == 3, "its mask, then its documents"
    assert 'd="M0 0v2048h2048z"' in drawn
    bare = replace(facts.phases[0].packed[0], example=None)
    first = replace(facts.phases[0], packed=(bare,))
    assert 'class="example"' not in page(replace(facts, phases=(first,)))


def test_packed_rows_are_compared_with_other_ways_to_fill_them(facts: Facts) -> None:
    packed = sum(len(phase.packed) for phase in facts.phases)
    assert page(facts).count("yield 98.4%, lower bound 100.0%, padded 41.0%.") == packed > 0


def test_attempts_stand_on_one_axis_of_time(facts: Facts) -> None:
    text = re.search(r'(?s)<section class="card" id="timeline">.*?</section>', page(facts))
    assert text
    said = Read(text[0]).said
    assert "5 attempts over 15 d 7 h, in UTC." in said
    assert "A diamond marks an approval." in said
    lines = re.findall(r'<rect x="([\d.]+)%" y="4" width="([\d.]+)%"', text[0])
    starts = [float(x) for x, _ in lines]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert float(lines[-1][0]) + float(lines[-1][1]) == pytest.approx(100, abs=0.02), "it goes on"
    assert "attempt 1, gate" in said
    assert text[0].count("</title>") == 5
    assert text[0].count('class="approval"') == 1
    assert "6 Nov" in said


def test_a_report_says_nothing_of_when_where_it_isnt_known(facts: Facts) -> None:
    phases = tuple(replace(each, started="", earlier=()) for each in facts.phases)
    assert 'id="timeline"' not in page(replace(facts, phases=phases)).partition("</nav>")[2]


def test_all_that_was_spent_is_counted_also_for_attempts_that_were_replaced(facts: Facts) -> None:
    text = Read(page(facts)).said
    assert "1,792 GPU hours 9 d 8 h of training steps, cost 4,480.00" in text
    assert f"attempt 1 of {'b' * 12}" in text
    assert "Price per GPU hour: 2.50." in text


def test_losses_are_told_by_reason_and_lost_data_comes_first(facts: Facts) -> None:
    said = Read(page(facts)).said
    text = said.partition("Excluded changes and documents")[2].partition("Validation")[0]
    order = [
        "Unreadable changes",
        "encoding",
        "Changes excluded by the corpus",
        "too large",
        "Rejected documents",
        "licence",
    ]
    found = [text.index(each) for each in order]
    assert found == sorted(found)
    assert "1,145,000 of 1,294,000 documents kept, of which 23,000 are held out" in said


def test_licences_are_listed_with_their_kinds_the_most_frequent_first(facts: Facts) -> None:
    text = Read(page(facts)).said
    lines = (
        "BSD-3-Clause permissive 900,000",
        "GPL-3.0-only copyleft 20,000",
        "unknown unknown 400",
    )
    found = [text.index(line) for line in lines]
    assert found == sorted(found)
    many = {f"LicenseRef-{number}": 100 - number for number in range(20)}
    few = page(replace(facts, exclusions=replace(facts.exclusions, licences=many)))
    assert "LicenseRef-11" in few
    assert "LicenseRef-12" not in few
    assert "other unknown licences" in few


def test_a_specialist_that_has_nothing_yet_has_a_page(facts: Facts) -> None:
    bare = replace(facts.phases[4], number=1)
    nothing = Exclusions.of([])
    text = page(replace(facts, phases=(bare,), sources={}, exclusions=nothing, branch=None))
    read = Read(text)
    assert "no phase has been trained yet" in read.said
    assert curves.data(plot_of(replace(facts, phases=(bare,)))) == {}
    assert '<section class="card" id="costs">' not in text


def test_families_have_fixed_colours_on_light_and_dark_pages(facts: Facts) -> None:
    text = page(facts)
    for light, dark in family_colours().values():
        assert light in text
        assert dark in text
    assert phase_style(5).count("color-mix") == 5


def test_a_report_is_named_after_specialist_and_branch(tmp_path: Path) -> None:
    assert report_path(tmp_path, "templates", None) == tmp_path / "reports" / "templates.html"
    assert report_path(tmp_path, "templates", "wide").name == "templates@wide.html"


@given(st.floats(0, 1e9), st.floats(-9, 9))
def test_times_have_two_units_at_most_and_signs_are_never_lost(seconds: float, by: float) -> None:
    assert 2 <= len(duration(seconds).split()) <= 4
    assert difference(by)[0] == ("±" if abs(by) < 0.0005 else "\N{MINUS SIGN}" if by < 0 else "+")


def test_sections_follow_the_order_of_a_readers_questions(facts: Facts) -> None:
    text = page(facts)
    places = [text.index(f'<section class="card" id="{section}">') for section in SECTIONS]
    assert places == sorted(places)
    assert places[-1] < text.index("<article"), "phases in detail come last"


def test_finished_runs_show_model_hyperparameters_and_seed(facts: Facts) -> None:
    said = Read(page(facts)).said
    table = said.partition("Model and hyperparameters")[2].partition("Training data")[0]
    assert "hybrid-60m: blocks MFAF" in table
    assert "setting syntax file_graph repository_graph" in table
    for line in (
        "seed 17 17 17",
        "learning rate 0.0003 0.0003 0.0003",
        "warm-up steps ≠ 200 50 50",
        "torch 2.13.0 2.13.0 2.13.0",
    ):
        assert line in table


def test_finished_runs_show_training_loss_and_learning_rate_over_all_steps(facts: Facts) -> None:
    text = page(facts)
    drawn = text.partition('id="loss"')[2].partition("</section>")[0]
    assert 'aria-label="training loss over 120,000 steps"' in drawn
    assert 'aria-label="learning rate over 120,000 steps"' in drawn
    bare = tuple(replace(phase, points=()) for phase in facts.phases)
    assert 'id="loss"' not in page(replace(facts, phases=bare)).partition("</nav>")[2]


def test_all_axes_have_places_for_the_same_states_of_training(facts: Facts) -> None:
    points = training_points(0)
    phases = [
        PhaseSteps(name=name, first=first, steps=40_000, points=points)
        for name, first in (("syntax", 0), ("file_graph", 40_000))
    ]
    axes = axis_data(phases)
    assert [axis["name"] for axis in axes] == [*AXES]
    assert {len(axis["places"]) for axis in axes} == {801}
    for axis in axes:
        places = axis["places"]
        assert places == sorted(places)
        assert places[400] == pytest.approx(0.5, abs=1e-3)
    without = [replace(phases[0], points=()), phases[1]]
    assert [axis["name"] for axis in axis_data(without)] == ["steps"]


def test_the_largest_files_have_their_shares_of_tokens(facts: Facts) -> None:
    drawn = page(facts).partition("<h3>Largest files</h3>")[2].partition("</table>")[0]
    said = Read(drawn).said
    assert said.index("fmt:include/fmt/format.h") < said.index("leveldb:db/db_impl.cc")
    assert "46.8%" in said


def test_entries_that_need_attention_are_sorted_by_urgency(facts: Facts) -> None:
    found = attention_entries(facts)
    assert [(entry.state, entry.phases) for entry in found[:2]] == [
        ("holds", ("repository_graph",)),
        ("stale", ("file_graph",)),
    ]
    assert {entry.state for entry in found[2:]} == {"warning"}
    calm = replace(facts, phases=(replace(facts.phases[0], mixture=None),))
    assert attention_entries(calm) == []
    assert "No phase needs attention." in page(calm)


@pytest.mark.browser
def test_a_report_in_a_browser(
    facts: Facts, tmp_path: Path, shots: Path, browser_page: Page
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(facts), encoding="utf-8")
    browser_page.goto(file.as_uri())
    for part in (
        "phases",
        "settings",
        "documents",
        "val_bpb",
        "validation",
        "loss",
        "costs",
        "timeline",
        "attention",
    ):
        expect(browser_page.locator(f"#{part}")).to_be_visible()
    expect(browser_page.locator(".example")).to_have_count(12)
    expect(browser_page.locator(".timeline rect")).to_have_count(5)
    wide = browser_page.evaluate("document.documentElement.scrollWidth")
    assert wide == 1280, "it is wider than the window"

    plot = browser_page.locator("#val_bpb .field").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    browser_page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
    expect(browser_page.locator("#at")).to_have_text("file_graph, step 20,000")
    expect(browser_page.locator("#val_bpb .right g.anchor .figure").first).not_to_have_text("0.942")
    browser_page.mouse.move(5, 5)
    expect(browser_page.locator("#val_bpb .right g.anchor .figure").first).to_have_text("0.942")

    browser_page.keyboard.press("j")
    browser_page.keyboard.press("j")
    browser_page.wait_for_url(lambda url: url.endswith("#file_graph"))
    expect(browser_page.locator("article.on")).to_be_in_viewport()
    expect(browser_page.locator(".phases tr.on th")).to_have_text("file_graph")
    browser_page.keyboard.press("o")
    expect(browser_page.locator("article").nth(1).get_by_text("testing").first).to_be_visible()
    browser_page.reload()
    expect(browser_page.locator("article.on h2")).to_contain_text("file_graph")
    for scheme in ("light", "dark"):
        browser_page.emulate_media(color_scheme=scheme)
        browser_page.evaluate("scrollTo(0, 0)")
        browser_page.screenshot(path=shots / f"report-{scheme}.png", full_page=True)


def _coordinates(points: str | None) -> list[tuple[float, float]]:
    assert points
    pairs = (point.split(",") for point in points.split())
    return [(float(x), float(y)) for x, y in pairs]


@pytest.mark.browser
def test_the_reader_chooses_the_axis_and_the_smoothing_of_a_report(
    facts: Facts, tmp_path: Path, shots: Path, browser_page: Page
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(facts), encoding="utf-8")
    browser_page.goto(file.as_uri())
    card = browser_page.locator("#loss")
    curve = card.locator(".field g").first
    line, raw = curve.locator("polyline:not(.raw)"), curve.locator("polyline.raw")
    values = _coordinates(raw.get_attribute("points"))
    rates = card.locator("[data-plain] polyline:not(.raw)").get_attribute("points")
    for weight in (0.9, 0.5, 0.0):
        if weight < 0.9:
            card.locator("input").fill(str(weight))
        drawn = _coordinates(line.get_attribute("points"))
        assert [x for x, _ in drawn] == [x for x, _ in values]
        averages = [y for _, y in smoothed(values, weight)]
        assert [y for _, y in drawn] == pytest.approx(averages, abs=0.11)
    assert card.locator("[data-plain] polyline:not(.raw)").get_attribute("points") == rates
    # The phases took 40,000, 80,000 and 120,000 s.
    card.locator("select").select_option("training time")
    starts = (
        card.locator(".plot")
        .first.locator("line.mark")
        .evaluate_all("all => all.map((mark) => +mark.getAttribute('x1') / 1000)")
    )
    scale = plots.durations(240_000)
    wanted = [plots.across(scale, start) for start in (0, 40_000, 120_000)]
    assert starts == pytest.approx(wanted, abs=1e-3)
    ends = _coordinates(line.get_attribute("points"))
    assert ends[-1][0] == pytest.approx(1000 * wanted[1], abs=1)
    ticks = card.locator(".below").first.locator("text").all_text_contents()
    assert ticks[-2:] == [scale.ticks[-1][1], "training time of all phases"]
    card.screenshot(path=shots / "report-loss-time.png")
    # The other card keeps its own axis.
    expect(browser_page.locator("#val_bpb .across").first).to_have_text("steps of all phases")
    browser_page.locator("#val_bpb select").select_option("tokens")
    browser_page.locator("#val_bpb input").fill("0.6")
    expect(browser_page.locator("#val_bpb .across").first).to_have_text(
        "training tokens of all phases"
    )
    last = browser_page.locator("#val_bpb .right g.anchor .figure").first
    expect(last).to_have_text("0.942")
    browser_page.locator("#val_bpb").screenshot(path=shots / "report-val_bpb-tokens.png")


@pytest.mark.browser
def test_without_its_script_and_on_a_phone_a_report_is_whole(
    facts: Facts, tmp_path: Path, browser: Browser
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(facts), encoding="utf-8")
    with browser.new_context(
        java_script_enabled=False, viewport={"width": 390, "height": 844}
    ) as phone:
        opened = phone.new_page()
        opened.set_default_timeout(PATIENCE_MS)
        opened.goto(file.as_uri())
        expect(opened.locator("#val_bpb .field polyline")).to_have_count(2 * 5)
        expect(opened.locator("article")).to_have_count(5)
        opened.locator("summary", has_text="3 domains").first.click()
        expect(opened.get_by_text("testing").first).to_be_visible()
        expect(opened.locator("footer")).to_be_hidden()
