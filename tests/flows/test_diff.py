"""Output of `curriculum diff` for two mixtures or two data sets, counted by hand."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from curriculum.inspection.token_counts import KINDS, changes
from curriculum.mixing.mix import report_of
from curriculum.store import Store
from flows.cli import diff
from flows.cli.diff import tokens_of
from schemas.errors import StoreError
from tests.flows.cli_runner import curriculum
from tests.flows.tiny_workspace import IDS, TinyWorkspace, figure, job, mixture, run

AMOUNTS = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 1000))


@pytest.fixture(scope="module")
def tiny_workspace(tmp_path_factory: pytest.TempPathFactory) -> TinyWorkspace:
    """The workspace that is counted on fingers."""
    return TinyWorkspace(tmp_path_factory.mktemp("larder"))


def _said(
    tiny_workspace: TinyWorkspace, before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> dict:  # type: ignore[type-arg]
    diff.diff(tiny_workspace.home, before, after, as_json=True)
    said: dict[str, object] = json.loads(capsys.readouterr().out)
    return said


def test_a_row_that_a_plan_takes_twice_counts_twice(tiny_workspace: TinyWorkspace) -> None:
    found = tokens_of(tiny_workspace.home, "fmt/syntax")
    assert found.by("document_id") == {IDS["a"]: 6, IDS["c"]: 8, IDS["b"]: 8}
    assert (found.tokens, found.rows, found.positions) == (22, 3, 24)
    assert found.tokens == report_of(tiny_workspace.syntax).tokens


def test_rows_are_all_counted_once_whatever_shard_they_lie_in(
    tiny_workspace: TinyWorkspace,
) -> None:
    found = tokens_of(tiny_workspace.home, tiny_workspace.one.key[:12])
    assert found.by("document_id") == {IDS["a"]: 3, IDS["c"]: 4, IDS["b"]: 13}
    assert found.by("repository") == {"alpha": 16, "beta": 4}
    assert found.by("licence") == {"MIT": 16, "none": 4}
    assert found.by("domain") == {"general": 7, "templates": 13}


def test_a_folder_of_several_row_sets_is_all_of_them(tiny_workspace: TinyWorkspace) -> None:
    assert tokens_of(tiny_workspace.home, str(tiny_workspace.home / "rows")).tokens == 20 + 6
    assert tokens_of(tiny_workspace.home, "rows").tokens == 20 + 6


def test_a_specialist_is_all_its_phases(tiny_workspace: TinyWorkspace) -> None:
    found = tokens_of(tiny_workspace.home, "fmt")
    assert found.by("phase") == {"syntax": 22, "file_graph": 11}
    assert {each.key for each in found.artefacts} == {
        tiny_workspace.syntax.key,
        tiny_workspace.file_graph.key,
    }


def test_documents_come_go_and_stay(
    tiny_workspace: TinyWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _said(tiny_workspace, "fmt/syntax", "fmt/file_graph", capsys)
    documents = {
        (each["path"], each["licence"], each["tokens_before"], each["tokens_after"])
        for each in said["documents"]
    }
    assert documents == {
        ("lib/[d].c", "none", 0, 6),
        ("src/a.h", "MIT", 6, 0),
        ("lib/c.c", "none", 8, 0),
        ("src/b.cpp", "MIT", 8, 5),
    }
    licences = {each["name"]: each for each in said["by"]["licence"]}
    assert (licences["MIT"]["tokens_before"], licences["MIT"]["tokens_after"]) == (14, 5)
    assert licences["MIT"]["share_before"] == pytest.approx(14 / 22)
    assert licences["none"]["tokens_change"] == 6 - 8
    totals = {each["name"]: (each["before"], each["after"]) for each in said["totals"]}
    assert totals["tokens"] == (22, 11)


def test_the_terminal_names_what_changed_and_hostile_names_stay_text(
    tiny_workspace: TinyWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=140, color_system=None)
    monkeypatch.setattr(diff, "out", console)
    diff.diff(tiny_workspace.home, "fmt/syntax", "fmt/file_graph")
    said = console.export_text()
    assert "lib/[d].c" in said, "a path in brackets is no markup"
    lines = [line.split() for line in said.splitlines()]
    assert ["tokens", "22", "11", "−11"] in lines
    assert ["MIT", "14", "63.6%", "5", "45.5%", "−9", "−18.2%"] in lines
    assert ["1", "document", "added", "6", "tokens"] in lines
    assert [
        "1",
        "document",
        "in",
        "both",
        "0",
        "with",
        "more",
        "tokens,",
        "1",
        "with",
        "fewer",
    ] in lines


def test_the_same_twice_is_no_change(
    tiny_workspace: TinyWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=140, color_system=None)
    monkeypatch.setattr(diff, "out", console)
    diff.diff(tiny_workspace.home, "fmt", "fmt")
    assert "as often" in console.export_text()


def test_the_kind_of_both_sides_decides_what_is_compared(tmp_path: Path) -> None:
    tiny_workspace = TinyWorkspace(tmp_path)
    for plan, key in ((tiny_workspace.syntax, "1" * 64), (tiny_workspace.file_graph, "2" * 64)):
        run(tmp_path, job(plan, tmp_path, run_key=key), [figure(2.0, 0.1)])
    keys = [each.key[:12] for each in Store(tmp_path, dry=True).artefacts("runs")]
    runs = curriculum("diff", *keys, "--json", home=tmp_path)
    assert {"groups"} == json.loads(runs.stdout).keys(), runs.stderr
    mixtures = curriculum("diff", "fmt/syntax", "fmt/file_graph", "--json", home=tmp_path)
    assert json.loads(mixtures.stdout)["totals"][0]["before"] == 22
    diets = curriculum("diff", "templates", "testing", "--json", home=tmp_path)
    assert {"phases", "fields", "servings", "shadows"} == json.loads(diets.stdout).keys()


def test_a_diet_and_rows_are_refused_and_a_diet_with_a_mixture_means_that(tmp_path: Path) -> None:
    tiny_workspace = TinyWorkspace(tmp_path)
    key = tiny_workspace.one.key[:12]
    for sides in (("templates", key), (key, "templates")):
        refused = curriculum("diff", *sides, home=tmp_path)
        assert refused.returncode == 2
        assert "curriculum mix templates" in refused.stderr
    mixture(tmp_path, "syntax", [(tiny_workspace.one, 0, 0, 7)], specialist="templates")
    done = curriculum("diff", "templates", key, "--json", home=tmp_path)
    assert json.loads(done.stdout)["totals"][0]["before"] == 7, done.stderr


@given(before=AMOUNTS, after=AMOUNTS)
def test_changes_add_up_and_turn_around(before: dict[str, int], after: dict[str, int]) -> None:
    there = changes(before, after)
    back = {each.name: each.tokens_change for each in changes(after, before)}
    assert sum(each.tokens_change for each in there) == sum(after.values()) - sum(before.values())
    assert {each.name: -each.tokens_change for each in there} == back
    for shares, amounts in (("share_before", before), ("share_after", after)):
        whole = sum(getattr(each, shares) for each in there)
        assert whole == pytest.approx(1.0 if amounts else 0.0)


@pytest.mark.parametrize("what", ["nowhere", "fmt/anneal", "documents", ""])
def test_what_holds_no_rows_says_what_would(tiny_workspace: TinyWorkspace, what: str) -> None:
    with pytest.raises(StoreError, match=r"or run|these digits"):
        tokens_of(tiny_workspace.home, what)


def test_rows_that_are_gone_are_named(tmp_path: Path) -> None:
    tiny_workspace = TinyWorkspace(tmp_path)
    (tiny_workspace.two.path / "manifest.json").unlink()
    with pytest.raises(StoreError, match=tiny_workspace.two.key[:12]):
        tokens_of(tmp_path, "fmt/file_graph")


def test_documents_that_are_gone_are_counted_as_unknown(tmp_path: Path) -> None:
    tiny_workspace = TinyWorkspace(tmp_path)
    for each in Store(tmp_path, dry=True).artefacts("documents"):
        if each.manifest.labels["repository"] == "beta":
            (each.path / "manifest.json").unlink()
    assert tokens_of(tmp_path, tiny_workspace.one.key).by("repository") == {"alpha": 16, "?": 4}


def test_the_demos_mixtures_hold_what_their_reports_say(demo_home: Path) -> None:
    mixtures = [*Store(demo_home, dry=True).artefacts("mixtures")]
    assert len(mixtures) == 5
    for each in mixtures:
        found, report = tokens_of(demo_home, each.key), report_of(each)
        assert found.tokens == report.tokens
        assert found.rows == report.rows
        by_domain: dict[str, int] = {}
        for stratum in report.strata:
            if stratum.tokens:
                by_domain[stratum.domain] = by_domain.get(stratum.domain, 0) + stratum.tokens
        assert found.by("domain") == by_domain
        assert all(sum(found.by(kind).values()) == report.tokens for kind in KINDS)
        assert "?" not in found.by("repository")


def test_the_demos_rows_hold_what_reading_them_row_by_row_says(demo_home: Path) -> None:
    rows = next(
        each
        for each in Store(demo_home, dry=True).artefacts("rows")
        if each.manifest.labels["split"] == "train"
        and each.manifest.labels["family"] == "v3_simple"
    )
    expected: dict[str, int] = {}
    for file in rows.shards():
        for line in pq.read_table(file).to_pylist():
            for at, name in enumerate(line["document_ids"]):
                tokens = sum(doc == at for doc in line["doc_ids"][: line["valid_token_count"]])
                expected[name] = expected.get(name, 0) + tokens
    assert tokens_of(demo_home, rows.key).by("document_id") == expected
