"""Lines that `inspect` selects by label, by document and by SQL."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from curriculum.catalog import CatalogError
from curriculum.catalog.answer import matching
from curriculum.inspection.line_selection import (
    FILTERS,
    InspectOptions,
    LineFilter,
    chosen_lines,
    regex,
    select_lines,
    slots_of,
    steps,
)
from curriculum.store import Artefact, Store
from flows.cli.inspect import command
from schemas.errors import StoreError
from tests import factories
from tests.flows.tiny_workspace import IDS, TinyWorkspace, mixture, published


@pytest.fixture(scope="module")
def tiny_workspace(tmp_path_factory: pytest.TempPathFactory) -> TinyWorkspace:
    """The workspace that is counted on fingers."""
    return TinyWorkspace(tmp_path_factory.mktemp("larder"))


def _lines(tiny_workspace: TinyWorkspace, artefact: Artefact, **only: Any) -> list[dict[str, Any]]:
    store, options = (
        Store(tiny_workspace.home, dry=True),
        InspectOptions(only=LineFilter(**only)),
    )
    return [line for _, line in chosen_lines(store, artefact, options)]


def _rows(tiny_workspace: TinyWorkspace, **only: Any) -> list[str]:
    return [line["pack_id"] for line in _lines(tiny_workspace, tiny_workspace.one, **only)]


@pytest.mark.parametrize(
    ("only", "found"),
    [
        ({"domain": "templates"}, ["one-1", "one-2"]),
        ({"repository": "beta"}, ["one-0"]),
        ({"repository": "alpha"}, ["one-0", "one-1", "one-2"]),
        ({"path": "src/a.h"}, ["one-0"]),
        ({"path": "src"}, ["one-0", "one-1", "one-2"]),
        ({"path": "*.cpp"}, ["one-1", "one-2"]),
        ({"commit": "BBB"}, ["one-1", "one-2"]),
        ({"licence": "none"}, ["one-0"]),
        ({"licence": "MIT", "domain": "general"}, ["one-0"]),
        ({"commit": "ccc", "repository": "alpha"}, []),
        ({"where": "num_docs > 1 OR valid_token_count = 5"}, ["one-0", "one-2"]),
        ({"where": "num_docs > 1", "domain": "templates"}, []),
        ({"family": "v2_simple"}, ["one-0", "one-1", "one-2"]),
        ({"family": "v3_simple"}, []),
    ],
)
def test_rows_are_chosen_by_what_stands_in_them(
    tiny_workspace: TinyWorkspace, only: dict[str, str], found: list[str]
) -> None:
    assert _rows(tiny_workspace, **only) == found


def test_a_lines_number_is_its_place_whatever_was_left_out(tiny_workspace: TinyWorkspace) -> None:
    store, options = (
        Store(tiny_workspace.home, dry=True),
        InspectOptions(only=LineFilter(domain="templates")),
    )
    assert [number for number, _ in chosen_lines(store, tiny_workspace.one, options)] == [1, 2]


@pytest.mark.parametrize(
    ("only", "positions"),
    [
        ({"step": (1, 1)}, [0, 1]),
        ({"step": (2, 2)}, [2]),
        ({"step": (1, 9)}, [0, 1, 2]),
        ({"repository": "beta"}, [0, 2]),
        ({"path": "src/b.cpp"}, [1]),
        ({"path": "src/b.cpp", "step": (2, 2)}, []),
        ({"domain": "general"}, [0, 1, 2]),
        ({"where": "valid_tokens = 8"}, [1]),
    ],
)
def test_a_plan_is_chosen_by_step_and_by_what_stands_in_its_rows(
    tiny_workspace: TinyWorkspace, only: dict[str, Any], positions: list[int]
) -> None:
    assert [
        each["position"] for each in _lines(tiny_workspace, tiny_workspace.syntax, **only)
    ] == positions


def test_documents_are_chosen_by_their_own_sources(tiny_workspace: TinyWorkspace) -> None:
    beta = next(
        each
        for each in Store(tiny_workspace.home, dry=True).artefacts("documents")
        if each.manifest.labels["repository"] == "beta"
    )
    found = _lines(tiny_workspace, beta, path="lib/[d].c")
    assert [each["document_id"] for each in found] == [IDS["d"]], "brackets are no pattern"
    assert len(_lines(tiny_workspace, beta, path="lib/?.c", licence="none")) == 1
    assert len(_lines(tiny_workspace, beta, path="lib")) == 2


def test_the_licence_of_one_file_is_enough_to_choose_a_document(tmp_path: Path) -> None:
    sources = [
        factories.provenance(path=path, licence=licence, end=7)
        for path, licence in (("a.cc", "BSL-1.0"), ("b.cc", "MIT"))
    ]
    document = factories.document("int a;\n", licence="joined", provenance=tuple(sources))
    labels = {"family": "v4_context_graph", "repository": "r"}

    def fill(folder: Path) -> None:
        factories.write_documents([document], folder)

    artefact = published(tmp_path, "documents", labels, fill)
    store = Store(tmp_path, dry=True)
    for licence, number in (("BSL-1.0", 1), ("MIT", 1), ("ISC", 0)):
        options = InspectOptions(only=LineFilter(licence=licence))
        assert len(list(chosen_lines(store, artefact, options))) == number


def test_a_domain_that_nothing_decided_is_no_choice(tiny_workspace: TinyWorkspace) -> None:
    documents = next(Store(tiny_workspace.home, dry=True).artefacts("documents"))
    with pytest.raises(StoreError, match="selection"):
        _lines(tiny_workspace, documents, domain="templates")


def test_the_demos_documents_know_their_domains(demo_home: Path) -> None:
    store = Store(demo_home, dry=True)
    selection = pq.read_table(
        next(each.path for each in store.artefacts("selections") if len(each.manifest.labels) == 1)
        / "selection.parquet"
    ).to_pylist()
    decided = {each["document_id"] for each in selection if each["domain"] == "testing"}
    some = [
        each
        for each in store.artefacts("documents")
        if each.manifest.labels["family"] == "v3_simple"
    ]
    assert len(some) == 3
    for each in some:
        ids = {
            line["document_id"]
            for file in each.shards()
            for line in pq.read_table(file).to_pylist()
        }
        masks = select_lines(store, each, InspectOptions(only=LineFilter(domain="testing")))
        assert masks is not None
        assert sum(int(mask.sum()) for mask in masks) == len(ids & decided)


@pytest.mark.parametrize("stage", sorted(FILTERS))
def test_what_a_stage_does_not_know_is_refused_never_passed_over(stage: str) -> None:
    values: dict[str, Any] = {"step": (1, 2)}
    for name in {name for can in FILTERS.values() for name in can}:
        only = LineFilter(**{name: values.get(name, "x")})
        if name in FILTERS[stage]:
            only.refuse(stage, "it")
        else:
            with pytest.raises(StoreError, match=f"--{name}: (x|1-2); .* {stage}"):
                only.refuse(stage, "it")


@pytest.mark.parametrize(
    "condition",
    [
        "no_such_column = 1",
        "true); COPY (SELECT 1) TO '{file}' --",
        "true) UNION SELECT filename, 1 FROM read_csv('/etc/passwd') WHERE (true",
        "num_docs > (SELECT count(*) FROM read_text('/etc/passwd'))",
        "(",
        "",
    ],
)
def test_a_condition_reads_its_lines_and_nothing_else(
    tiny_workspace: TinyWorkspace, tmp_path: Path, condition: str
) -> None:
    file = tmp_path / "written.csv"
    with pytest.raises(CatalogError, match="--where"):
        matching(tiny_workspace.one.shards(), condition.format(file=file))
    assert not file.exists()


def test_a_wrong_condition_names_the_columns(tiny_workspace: TinyWorkspace) -> None:
    with pytest.raises(CatalogError, match=r"Columns: pack_id, .*num_docs"):
        matching(tiny_workspace.one.shards(), "no_such_column = 1")
    assert matching([], "true") == []


def test_nothing_that_fits_is_said_not_shown_as_emptiness(tiny_workspace: TinyWorkspace) -> None:
    with pytest.raises(StoreError, match=r"--path nowhere: .*2 artefacts"):
        command.show(tiny_workspace.home, "rows", InspectOptions(only=LineFilter(path="nowhere")))


def test_a_choice_of_one_line_looks_through_all_artefacts(
    tiny_workspace: TinyWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    options = InspectOptions(rows=5, only=LineFilter(repository="beta"))
    command.show(tiny_workspace.home, "rows", options, as_json=True)
    artefacts = json.loads(capsys.readouterr().out)["artefacts"]
    lines = [line for artefact in artefacts for line in artefact["lines"]]
    assert {each["pack_id"] for each in lines} == {"one-0", "two-0"}
    (both,) = [each["documents"] for each in lines if each["pack_id"] == "one-0"]
    assert [(each["path"], each["start"], each["tokens"]) for each in both] == [
        ("src/a.h", 0, 3),
        ("lib/c.c", 3, 4),
    ]
    assert [each["licence"] for each in both] == ["MIT", None]


@pytest.mark.parametrize(("number", "keys", "more"), [(1, 1, 1), (9, 2, 0)])
def test_json_has_the_artefacts_that_the_terminal_shows(
    tiny_workspace: TinyWorkspace,
    capsys: pytest.CaptureFixture[str],
    number: int,
    keys: int,
    more: int,
) -> None:
    command.show(tiny_workspace.home, "rows", InspectOptions(rows=number), as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert (len(said["artefacts"]), said["more"]) == (keys, more)
    lines = [line for artefact in said["artefacts"] for line in artefact["lines"]]
    assert lines[0]["input_ids"]
    assert all(line["documents"][0]["start"] == 0 for line in lines)


def test_the_rows_of_a_step_are_shown_with_their_documents(
    tiny_workspace: TinyWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=160, color_system=None)
    monkeypatch.setattr(command, "out", console)
    command.show(tiny_workspace.home, "fmt/syntax", InspectOptions(only=LineFilter(step=(1, 1))))
    said = console.export_text()
    assert "beta cccccccccc lib/c.c" in said
    assert "2 rows of 3 match" in said
    assert "realised" not in said, "the shares of the whole mixture weren't asked for"


@pytest.mark.parametrize(("tokens", "first"), [((9, 6), "one"), ((5, 6), "two")])
def test_rows_of_a_phase_begin_with_those_that_give_most_of_its_tokens(
    tokens: tuple[int, int], first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_workspace = TinyWorkspace(tmp_path)
    taken = [(tiny_workspace.one, 1, 0, tokens[0]), (tiny_workspace.two, 0, 0, tokens[1])]
    mixture(tiny_workspace.home, "syntax", taken, specialist="mine")
    command.show(tiny_workspace.home, "rows", InspectOptions(), owner="mine/syntax", as_json=True)
    shown = json.loads(capsys.readouterr().out)
    wanted = {"one": tiny_workspace.one, "two": tiny_workspace.two}[first]
    assert Path(shown["artefacts"][0]["path"]) == wanted.path


def test_a_list_names_each_artefact_by_its_key(
    tiny_workspace: TinyWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=160, color_system=None)
    monkeypatch.setattr(command, "out", console)
    command.show(tiny_workspace.home, "rows", InspectOptions(), listed=True)
    said = console.export_text()
    assert {tiny_workspace.one.key[:12], tiny_workspace.two.key[:12]} <= set(said.split())
    assert "2 artefacts" in said


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("src", "src/a.h", True),
        ("src/", "src/a.h", True),
        ("src", "srcs/a.h", False),
        ("*.h", "src/a.h", True),
        ("*.h", "src/a.hpp", False),
        ("a+b.c", "a+b.c", True),
        ("a.c", "abc", False),
    ],
)
def test_a_path_is_a_file_a_folder_or_a_pattern(pattern: str, path: str, fits: bool) -> None:
    assert bool(re.search(regex(pattern), path)) is fits


@pytest.mark.parametrize(("said", "meant"), [("12", (12, 12)), ("10-20", (10, 20)), (None, None)])
def test_steps_are_one_or_a_range(said: str | None, meant: tuple[int, int] | None) -> None:
    assert steps(said) == meant


@pytest.mark.parametrize("said", ["0", "5-3", "x", "1-", "-1", "1.5", "²"])
def test_what_is_no_step_is_refused(said: str) -> None:
    with pytest.raises(StoreError, match="--step"):
        steps(said)


def test_the_slots_of_a_step_are_the_loaders() -> None:
    assert [*slots_of((2, 2), 3)] == [3, 4, 5]
