"""The list of reports: each specialist with its state and the date of its report, without a browser."""

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page

from curriculum.pipeline.context import Resources
from curriculum.pipeline.status import PhaseStatus, State, StatusInputs
from curriculum.pipeline.status_table import write_status
from curriculum.store import Store
from dashboards.report import files, index
from schemas.specialist import SpecialistRef

WRITTEN = "2026-11-21T13:50:17+00:00"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace with reports alone, of which one has a date of its own."""
    Store(tmp_path).open()
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "fmt.html").write_text(f'<p><time datetime="{WRITTEN}">x</time>')
    (tmp_path / "reports" / "odd.html").write_text('<time datetime="9999-99-99T00:00">')
    return tmp_path


def _entries(home: Path) -> dict[str, index.ReportEntry]:
    return {each.name: each for each in index.entries(home, Resources())}


def test_a_report_tells_its_own_date_and_one_without_has_none(home: Path) -> None:
    found = _entries(home)
    assert found["fmt"].written == "21 Nov 2026, 13:50"
    assert (found["odd"].file, found["odd"].written) == ("odd.html", "")
    assert "no specialist" in found["odd"].state


def _write(home: Path, monkeypatch: pytest.MonkeyPatch, *states: tuple[str, State]) -> None:
    """Write a status by hand, and let it pass for the one of now."""
    inputs = StatusInputs.read(Store(home, dry=True), Resources())
    ref = SpecialistRef("fmt", "ux")
    write_status(
        inputs,
        (PhaseStatus(ref=ref, phase=p, state=s, why="") for p, s in states),
    )
    monkeypatch.setattr(index, "current_status", lambda *_: None)


def test_a_specialist_without_a_report_has_the_command_that_writes_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(home, monkeypatch, ("syntax", "done"), ("file_graph", "failed"))
    entry = _entries(home)["fmt/ux"]
    assert (entry.phases, entry.state, entry.look) == ("1 of 2", "file_graph failed", "failed")
    assert (entry.file, entry.cure) == ("", "curriculum report fmt.ux")
    page = index.page(home, Resources(), overview="../overview/")
    assert "not written yet<small><code>curriculum report fmt.ux</code>" in page
    assert 'href="../overview/"' in page


def test_a_report_belongs_to_its_specialist_and_branch(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "reports" / "fmt.html").rename(home / "reports" / "fmt@ux.html")
    _write(home, monkeypatch, ("syntax", "done"))
    found = _entries(home)
    assert sorted(found) == ["fmt/ux", "odd"]
    assert found["fmt/ux"].file == "fmt@ux.html"
    assert found["fmt/ux"].state == "done"
    links = re.findall(r'<th scope="row"><a href="([^"]*)"', index.page(home, Resources()))
    assert links == ["fmt@ux.html", "odd.html"]


def test_a_link_is_no_report(home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (home / "reports" / "link.html").symlink_to(tmp_path / "secret.txt")
    assert "link" not in _entries(home)
    assert files.page(home / "reports", "link.html") is None
    assert files.page(home / "reports", "../secret.txt") is None


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_of_reports_fits_a_phone(
    home: Path,
    tmp_path: Path,
    browser_page: Page,
    scheme: Literal["light", "dark"],
    shots: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _write(home, monkeypatch, ("a_phase_with_a_long_name", "failed"), ("file_graph", "missing"))
    file = tmp_path / "reports.html"
    file.write_text(index.page(home, Resources(), overview="../overview/"), encoding="utf-8")
    browser_page.set_viewport_size({"width": 390, "height": 844})
    browser_page.emulate_media(color_scheme=scheme)
    browser_page.goto(file.as_uri())
    widths = browser_page.locator(".scrolls").evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert widths[0] <= widths[1], "the table scrolls sideways"
    assert browser_page.evaluate("document.documentElement.scrollWidth") == 390
    browser_page.screenshot(path=shots / f"reports-390-{scheme}.png")
