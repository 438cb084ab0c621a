"""Commands that pages of a workspace without runs recommend work there, as printed."""

import re
import shlex
from html import unescape
from pathlib import Path

import pytest

from curriculum.pipeline import Pipeline
from curriculum.pipeline.next_steps import next_steps
from curriculum.pipeline.run_config import CorpusConfig
from dashboards import mixture_panels, overview_panels, run_panels
from dashboards.questions import WorkspaceView
from tests.curriculum.pipeline.tiny_diet import NAME, edit, write_tiny_diet
from tests.flows.cli_runner import curriculum

WITHOUT_A_RUN = {"demo": ["--help"], "init": ["--help"], "run": ["--dry-run"], "mix": ["--explain"]}
"""Options that make a command do everything but its work."""


def _commands(page: str) -> list[list[str]]:
    """The words of each command in a page, as a shell takes them."""
    return [
        shlex.split(unescape(each)) for each in re.findall(r"<code>(curriculum [^<]*)</code>", page)
    ]


def _expect_they_work(page: str, cwd: Path) -> list[list[str]]:
    found = _commands(page)
    assert found
    for program, verb, *words in found:
        assert program == "curriculum"
        done = curriculum(verb, *words, *WITHOUT_A_RUN[verb], cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
    return [words[1:] for words in found]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a blank in its name, which no workspace was made in."""
    return tmp_path / "my lab"


def test_an_empty_workspace_has_the_demo_the_sample_and_ones_own(
    home: Path, tmp_path: Path
) -> None:
    found = _expect_they_work(overview_panels.first(home), tmp_path)
    assert found == [
        ["demo", "--home", str(home)],
        ["run", "templates.demo", "--home", str(home)],
        ["init", "--home", str(home)],
    ]
    assert not home.exists(), "looking made something"


def test_ones_own_diet_comes_before_the_sample(home: Path, tmp_path: Path) -> None:
    write_tiny_diet(home)
    assert _expect_they_work(overview_panels.first(home), tmp_path) == [
        ["run", NAME, "--home", str(home)]
    ]


def test_a_diet_that_would_be_refused_isnt_recommended(home: Path) -> None:
    write_tiny_diet(home)
    edit(home, "diets/tiny.yaml", "corpus: small", "corpus: gone")
    assert [each.command.split()[1] for each in next_steps(home, "run")] == ["demo", "run", "init"]


def test_documents_without_a_run_lead_on_with_the_diet_that_they_are_built_for(
    home: Path, tmp_path: Path
) -> None:
    write_tiny_diet(home)
    (home / "diets" / "another.yaml").write_text(f"extends: {NAME}\nbranch: another\n")
    Pipeline(home).build(NAME, phase="syntax", corpus=CorpusConfig(workers=1))
    snapshot = WorkspaceView(home)
    assert overview_panels.totals(snapshot).artefacts > 0
    for page, verb in (
        (overview_panels.specialists(snapshot), "run"),
        (run_panels.none_yet(home), "run"),
        (mixture_panels.none_yet(home), "mix"),
    ):
        assert _expect_they_work(page, tmp_path) == [[verb, NAME, "--home", str(home)]]
        assert "continues from the built artefacts" in page
