"""Pages of workspaces that hold little: what to do first is said, and nothing fails. Without a browser."""

import shutil
from pathlib import Path

from curriculum.store import Store
from dashboards import workspace
from dashboards.apps import mixtures, overview, runs
from tests.dashboards.conftest import EVIL, said


def test_an_empty_workspace_says_what_to_do_first(shown: Path) -> None:
    assert "Empty workspace" in said(overview.app)
    assert "curriculum demo" in said(overview.app)
    assert "<section" in said(overview.app)
    assert said(overview.app).count("<section") == 1, (
        "panels that have nothing to show aren't there"
    )
    assert "curriculum mix templates" in said(mixtures.app)
    assert "curriculum run templates" in said(runs.app)
    assert not shown.exists(), "looking made something"


def test_a_workspace_without_any_mixture_is_shown_as_far_as_it_goes(
    shown: Path, home: Path
) -> None:
    Store(shown)
    for each in Store(home, dry=True).artefacts("documents"):
        target = shown / each.path.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(each.path, target)
    text = said(overview.app)
    assert "No rows have been packed yet." in text
    assert "No phase has been mixed or trained yet" in text
    assert "Nothing needs attention." in text


def test_an_artefact_that_cant_be_read_is_named_first_and_the_rest_is_shown(
    shown: Path, home: Path
) -> None:
    Store(shown)
    for each in Store(home, dry=True).artefacts():
        target = shown / each.path.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(each.path, target)
    shutil.copytree(home / "current", shown / "current")
    broken = shown / "runs/specialist-x/phase-y/000000000000"
    broken.mkdir(parents=True)
    (broken / "manifest.json").write_text('{"schema_version": "999.0"}')
    text = said(overview.app)
    assert text.index("unreadable") < text.index("the loss isn&#39;t finite")
    assert "000000000000" in text
    assert "2.900" in text


def test_names_of_repositories_are_shown_and_never_obeyed(home: Path) -> None:
    before = workspace.home()
    workspace.show(home)
    text = said(mixtures.app)
    workspace.show(before)
    assert EVIL not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
