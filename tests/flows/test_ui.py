"""The pages of `curriculum serve` as a person uses them: a form, its run, a gate, one phase anew."""

import contextlib
import re
from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, Request, Response, expect, sync_playwright
from playwright.sync_api import TimeoutError as PageTimeout

from curriculum.inspection.runs import report_of
from curriculum.store import Store
from schemas.phase_status import Approval
from tests.flows.prefect_pages import (
    BROWSER_MS,
    FLAGS,
    SHOTS,
    TRIES,
    TRY_MS,
    log_in,
    open_page,
)
from tests.flows.serving import Served, furnish, serving, wait_until

PATIENCE_S = 900.0
"""For a run to end."""
BUSY = 503
ENDS = ("Completed", "Failed", "Crashed", "Cancelled", "Suspended")
DIET = """\
specialist: templates
branch: ours
why: two short phases, the first of which somebody approves
phases_file: short
corpus: small
model: tiny
tokenizer: corpus
vocab_size: 512
token_budget: 12K
phases:
  - phase: first
    portion: 0.5
    servings: [{family: v3_simple, share: 1.0}]
    require: [approval]
  - phase: second
    portion: 0.5
    servings: [{family: v2_simple, share: 1.0}]
"""
pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A workspace with a diet, a corpus and phases of its own, served."""
    home = tmp_path_factory.mktemp("homes") / "home"
    furnish(home, tmp_path_factory.mktemp("samples"), ours=DIET)
    with serving(home) as served:
        yield served


@pytest.fixture
def page(served: Served, chromium: str) -> Iterator[Page]:
    """A page of a browser, which must talk to the server alone."""
    SHOTS.mkdir(exist_ok=True)
    outside: list[str] = []

    def note(request: Request) -> None:
        ours = (served.address, served.places.pages, f"blob:{served.address}", "data:")
        if not request.url.startswith(ours):
            outside.append(request.url)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, headless=True, args=FLAGS, timeout=BROWSER_MS
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(BROWSER_MS)
        page.on("requestfinished", note)
        log_in(page, served)
        yield page
        browser.close()
    assert outside == [], "the pages talked to somebody else"


def test_a_curriculum_is_run_from_a_form_its_gate_approved_and_one_phase_trained_anew(
    served: Served, page: Page
) -> None:
    _open_form(page, served, "run")
    _choose(page, "Specialist", "ours", shot="specialists")
    _shoot(page, "form")
    _submit(page, served)
    assert _ended(page, served) == "Suspended", "the first phase asks for approval"
    _shoot(page, "suspended")
    _resume(page, served, who="Ada", comment="It reads well.")
    assert _ended(page, served) == "Completed"
    assert _approval(served).who == "Ada"
    assert _approval(served).comment == "It reads well."
    _look_at_artifacts(page, served)

    _open_form(page, served, "run")
    _choose(page, "Specialist", "ours")
    _choose(page, "Phase", "second", shot="phases")
    _submit(page, served)
    assert _ended(page, served) == "Completed"
    page.get_by_text("run ours second").first.wait_for()
    _shoot(page, "rerun")
    assert _attempts(served) == {"first": [1], "second": [1, 2]}
    open_page(page, served, f"{served.address}/v2/runs")
    page.get_by_text("run ours second").first.wait_for()
    _shoot(page, "runs")


def test_the_form_of_a_build_refuses_what_cannot_be(served: Served, page: Page) -> None:
    _open_form(page, served, "build")
    _choose(page, "Specialist", "ours")
    before = _runs(served)
    field = page.get_by_label("Maximum commits (Optional)")
    field.fill("0")
    page.get_by_role("button", name="Submit").click()
    assert "1" in field.evaluate("field => field.validationMessage")
    _shoot(page, "refused")
    assert _runs(served) == before
    field.fill("4")
    assert field.evaluate("field => field.validationMessage") == ""


def test_a_wrong_budget_is_refused_in_the_form_by_its_field(served: Served, page: Page) -> None:
    _open_form(page, served, "run")
    _choose(page, "Specialist", "ours")
    before = _runs(served)
    page.get_by_label("Token budget (Optional)").fill("lots")
    page.get_by_role("tab", name="Custom", exact=True).click()
    page.get_by_label("Row length (Optional)").fill("200")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("'lots' does not match").first.wait_for()
    page.get_by_text("200 is not a multiple of 128").first.wait_for()
    _shoot(page, "refused-budget")
    assert _runs(served) == before


def test_a_form_shows_what_is_rarely_set_only_when_asked(served: Served, page: Page) -> None:
    _open_form(page, served, "run")
    page.get_by_role("button", name="Select Specialist", exact=True).wait_for()
    rare = page.get_by_label("Random seed (Optional)")
    assert not rare.is_visible()
    page.get_by_role("tab", name="Custom", exact=True).click()
    rare.wait_for()
    _shoot(page, "advanced")
    page.get_by_role("tab", name="Defaults", exact=True).click()
    rare.wait_for(state="hidden")


def test_a_dry_run_of_a_form_shows_what_it_would_make(served: Served, page: Page) -> None:
    _open_form(page, served, "run")
    _choose(page, "Specialist", "ours")
    page.get_by_label("Dry run (Optional)").click()
    page.get_by_role("tab", name="Custom", exact=True).click()
    page.get_by_label("Random seed (Optional)").fill("7")
    _submit(page, served)
    before = {*served.home.rglob("manifest.json")}
    assert _ended(page, served) == "Completed"
    assert {*served.home.rglob("manifest.json")} == before
    run = served.run(_run(page))
    assert run.name == "run ours all (dry run), seed=7"
    assert {"specialist:templates", "branch:ours", "phase:all"} <= {*run.tags}
    _look_at_artifact(
        page, served, page.url.partition("?")[0], "forecast-templates-ours-all", "artefacts"
    )
    _shoot(page, "forecast")


def _open_form(page: Page, served: Served, flow: str) -> None:
    open_page(page, served, f"{served.address}/v2/deployments")
    page.get_by_role("link", name=flow, exact=True).first.click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("Custom run")).click()


def _choose(page: Page, field: str, name: str, shot: str = "") -> None:
    """Choose from a dropdown; the page may draw itself anew and close it, and a person opens it again."""
    button = page.get_by_role("button", name=f"Select {field}", exact=True)
    option = page.get_by_role("option", name=name, exact=True)
    button.wait_for()
    for _ in range(TRIES):
        if name in button.inner_text():
            return
        with contextlib.suppress(PageTimeout):
            if not option.is_visible():
                button.click(timeout=TRY_MS)
            option.wait_for(timeout=TRY_MS)
            if shot:
                page.screenshot(path=SHOTS / f"{shot}.png")
            option.click(timeout=TRY_MS)
            option.wait_for(state="hidden", timeout=TRY_MS)
    raise AssertionError(f"{name} can't be chosen as {field}")


def _submit(page: Page, served: Served) -> None:
    """Press Submit and look at the run."""
    answer = _pressed(page, page.get_by_role("button", name="Submit"), "/create_flow_run")
    assert answer.ok, answer.text()
    run = answer.json()["id"]
    try:
        page.get_by_role("link", name="View run").first.click(timeout=TRY_MS)
    except PageTimeout:  # The note with the link has faded away.
        page.goto(f"{served.address}/v2/runs/flow-run/{run}")
    page.wait_for_url(f"**/runs/flow-run/{run}*")
    # The page before, which may list runs that have ended, is still there for a moment.
    open_page(page, served, page.url)


def _run(page: Page) -> UUID:
    """The run whose page it is."""
    return UUID(page.url.partition("?")[0].rpartition("/")[2])


def _ended(page: Page, served: Served) -> str:
    """The state in which a run came to rest, as its page says.

    The page itself asks twice a minute, and its animations take a core from the run: it is left meanwhile.
    """
    run, address = _run(page), page.url
    page.goto("about:blank")
    wait_until(lambda: served.state(run) in ENDS, PATIENCE_S, lambda: served.run(run))
    state = str(served.state(run))
    open_page(page, served, address)
    page.get_by_text(state, exact=True).first.wait_for()
    return state


def _resume(page: Page, served: Served, who: str, comment: str) -> None:
    dialog = _resume_dialog(page, served)
    dialog.get_by_label(re.compile("^Who")).fill(who)
    dialog.get_by_label(re.compile("^Comment")).fill(comment)
    _shoot(page, "resume")
    answer = _pressed(page, dialog.get_by_role("button", name="Resume"), "/resume")
    assert answer.ok, answer.text()
    assert answer.json()["status"] == "ACCEPT", answer.text()
    run = _run(page)
    wait_until(lambda: served.state(run) != "Suspended")


def _pressed(page: Page, button: Locator, path: str) -> Response:
    """Press a form's button until the server answers; one that is too busy is asked again, as a person would.

    The page has the form validated first. Where the server is too busy for that, the page says that it
    failed, and sends nothing: the form stays as it was filled in.
    """

    def is_answer(response: Response) -> bool:
        is_refused = response.url.endswith("/schemas/validate") and response.status == BUSY
        return is_refused or response.url.endswith(path)

    for _ in range(TRIES):
        with page.expect_response(is_answer, timeout=BROWSER_MS) as answer:
            button.click()
        if answer.value.status != BUSY:
            break
    return answer.value


def _resume_dialog(page: Page, served: Served) -> Locator:
    """Open the form of what a suspended run asks; one that a busy server left empty is opened again."""
    dialog = page.get_by_role("dialog")
    for _ in range(TRIES):
        with contextlib.suppress(PageTimeout):
            page.get_by_role("button", name="Open menu").first.click(timeout=TRY_MS)
            page.get_by_role("menuitem", name="Resume").click(timeout=TRY_MS)
            dialog.get_by_label(re.compile("^Who")).wait_for(timeout=TRY_MS)
            break
        open_page(page, served, page.url)
    return dialog


def _look_at_artifacts(page: Page, served: Served) -> None:
    """Each table is reached with two clicks from the run, and shows what it promises."""
    run = page.url.partition("?")[0]
    for name, column in (
        ("packing-yield", "yield"),
        ("excluded-documents", "reason"),
        ("mixture", "realised"),
        ("val-bpb", "after"),
    ):
        if name == "packing-yield":
            open_page(page, served, f"{run}?tab=Artifacts")
            page.get_by_text(f"{name}-templates-ours-second").first.wait_for()
            _shoot(page, "artifacts")
        _look_at_artifact(page, served, run, f"{name}-templates-ours-second", column)
        _shoot(page, name)


def _look_at_artifact(page: Page, served: Served, run: str, key: str, column: str) -> None:
    open_page(page, served, f"{run}?tab=Artifacts")
    page.get_by_text(key).first.click()
    page.get_by_role("link", name=re.compile("^[0-9a-f]{8}$")).first.click()
    expect(page.get_by_role("columnheader", name=column, exact=True)).to_be_visible(
        timeout=BROWSER_MS
    )


def _shoot(page: Page, name: str) -> None:
    """A picture of the whole page; the page scrolls inside its window, so that is made tall enough."""
    page.wait_for_timeout(500)
    height = page.evaluate(
        "Math.max(...[...document.querySelectorAll('*')].map(each => each.scrollHeight))"
    )
    page.set_viewport_size({"width": 1280, "height": min(max(1000, height), 4000)})
    page.wait_for_timeout(300)
    page.screenshot(path=SHOTS / f"{name}.png")
    page.set_viewport_size({"width": 1280, "height": 1000})


def _approval(served: Served) -> Approval:
    (file,) = (served.home / "approvals").glob("*.json")
    return Approval.model_validate_json(file.read_text())


def _runs(served: Served) -> int:
    with served.client() as client:
        return len(client.read_flow_runs())


def _attempts(served: Served) -> dict[str, list[int]]:
    """The attempts at each phase."""
    found: dict[str, list[int]] = {}
    for run in Store(served.home).artefacts("runs"):
        report = report_of(run)
        found.setdefault(report.phase, []).append(report.attempt)
    return {phase: sorted(attempts) for phase, attempts in found.items()}
