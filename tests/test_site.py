"""The documents become a site: every link leads somewhere, and nothing is loaded from elsewhere."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[1]
ELSEWHERE = re.compile(
    r'<(?:script|img|link|source|iframe)\b[^>]*(?:src|href|srcset)="?(?:https?:)?//'
)
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="mkdocs-material isn't installed"
)


def build(config: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", site],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_document_is_a_page_and_every_link_and_anchor_leads_somewhere(site: Path) -> None:
    pages = {each.stem for each in site.glob("*.html")} - {"404"}
    assert pages == {each.stem for each in (ROOT / "docs").glob("*.md")}


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert [page for page in pages if ELSEWHERE.search(page.read_text())] == []
    assert ELSEWHERE.search('<script src="https://unpkg.com/mermaid"></script>')


def test_source_files_that_documents_link_to_are_pages_as_they_are(site: Path) -> None:
    page = (site / "source" / "flows" / "run.py.html").read_text()
    shown = re.sub("<[^>]+>", "", page)
    assert "def run_in_process(" in shown
    assert 'href="source/flows/run.py.html"' in (site / "architecture.html").read_text()
    assert (site / "source" / "SECURITY.html").is_file()


@pytest.mark.parametrize("link", ["diets.md#no-such-heading", "../flows/no_such_file.py"])
def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path, link: str) -> None:
    for name in ("docs", "dashboards"):
        (tmp_path / name).mkdir()
    config = (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(config.partition("nav:\n  -")[0])
    (tmp_path / "docs" / "linked_files.py").write_text((ROOT / "docs/linked_files.py").read_text())
    (tmp_path / "docs" / "diets.md").write_text("# Diets\n")
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\n[there]({link})\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert link.partition("#")[0] in done.stderr


@pytest.mark.system
@pytest.mark.browser
@pytest.mark.parametrize("name", ["index", "cookbook", "looking", "source/flows/run.py"])
def test_a_page_opens_from_a_file_without_an_error_or_a_request(
    site: Path, browser_page: "Page", name: str
) -> None:
    browser_page.goto((site / f"{name}.html").as_uri())
    browser_page.locator("h1").wait_for()


@pytest.mark.system
@pytest.mark.browser
def test_a_question_of_the_cookbook_unfolds_to_its_sql(site: Path, browser_page: "Page") -> None:
    browser_page.goto((site / "cookbook.html").as_uri())
    question = browser_page.locator("details").first
    question.locator("summary").click()
    question.locator("code", has_text="SELECT").first.wait_for()
