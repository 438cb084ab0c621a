"""Tables and commands at the widths of terminals: names and keys stay whole, other columns are left out."""

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from curriculum.pipeline.execute import FinishedStep
from curriculum.store import Store
from flows.cli import demo, phases
from flows.cli.console import table
from schemas.job import Figure
from tests import factories
from tests.factories import write_documents
from tests.flows import tiny_workspace as tiny
from tests.flows.cli_runner import curriculum
from tests.flows.serving import furnish
from tests.flows.terminal import lines_on_terminal

SPECIALIST = "a_specialist_whose_name_has_40_letters__"
KEY = "0123456789ab"
LINE = {
    "specialist": SPECIALIST,
    "phase": "fine_tune",
    "state": "done",
    "attempt": "1",
    "val_bpb": "2.3456 → 1.2345",
    "anchor": "2.1000 → 1.3000",
    "cost": "",
    "key": KEY,
    "why": "the rows of its mixture have changed since it was trained",
}
ORDER = ("anchor", "attempt", "cost")


def _printed(lines: list[dict[str, str]], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(table(lines, dropped_first=ORDER))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_name_of_40_characters_and_a_key_stand_whole_on_one_line(width: int) -> None:
    drawn = _printed([LINE], width)
    assert any(all(each in line for each in (SPECIALIST, "fine_tune", KEY)) for line in drawn)
    assert all(len(line) <= width for line in drawn)


def test_what_is_left_out_is_named_and_nothing_else_is() -> None:
    drawn = _printed([LINE], 100)
    (named,) = (line for line in drawn if line.startswith("not shown"))
    missing = set(named.partition(": ")[2].split(", "))
    assert "anchor" in missing, "it is the first to go"
    shown = set(drawn[0].split())
    assert LINE["why"] in drawn[2], "it stands below its row"
    assert shown | missing == set(LINE) - {"why", "cost"}, "cost has no value"
    assert not shown & missing


def test_a_wide_terminal_is_shown_every_column_with_a_value() -> None:
    drawn = _printed([LINE], 200)
    assert drawn[0].split() == [name for name, value in LINE.items() if value]
    assert not any("not shown" in line for line in drawn)


@given(
    names=st.lists(st.text("abcdefgh_", min_size=1, max_size=40), min_size=1, max_size=5),
    others=st.lists(st.text("xyz ", max_size=60), max_size=8),
    width=st.sampled_from([80, 100, 140]),
)
def test_no_name_is_ever_broken(names: list[str], others: list[str], width: int) -> None:
    cells = {f"column{index}": text for index, text in enumerate(others)}
    drawn = _printed([{**cells, "name": name, "key": KEY} for name in names], width)
    for name in names:
        assert any(name in line and KEY in line for line in drawn)
    assert all(len(line) <= width for line in drawn)


PATH = "src/include/components/template_library/details/deep_files.h"
PLANNED = "another_specialist_that_has_a_diet_only_"
DIET = f"""\
specialist: {PLANNED}
why: one short phase
phases_file: short
corpus: small
model: tiny
tokenizer: corpus
vocab_size: 512
token_budget: 12K
phases:
  - phase: first
    portion: 1.0
    servings: [{{family: v3_simple, share: 1.0}}]
"""


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A workspace of long names, with two runs of one specialist."""

    home: Path
    keys: tuple[str, str]
    """Keys of the runs of syntax and repository_graph."""
    mixture: str
    document: str


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A specialist's name of 40 characters, a path of 60 in its corpus, and one to the workspace."""
    assert (len(SPECIALIST), len(PLANNED), len(PATH)) == (40, 40, 60)
    folder = tmp_path_factory.mktemp("widths")
    home = folder / ("w" * max(1, 60 - len(f"{folder}/")))
    home.mkdir()
    furnish(home, folder / "samples", **{PLANNED: DIET})
    larder = tiny.TinyWorkspace(home)
    source = factories.provenance(
        repository="gamma", commit="d" * 40, path=PATH, blob="0" * 40, end=7
    )
    document = factories.document("int e;\n", licence="MIT", provenance=(source,))
    made = tiny.published(
        home,
        "documents",
        {"family": "v2_simple", "repository": "gamma"},
        lambda draft: write_documents([document], draft),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tiny.IDS, "e", document.document_id)
        rows = tiny.rows(home, "three", [[("general", [("e", 6)])]], [made])
    runs = []
    plans = {"syntax": (rows, 0, 0, 6), "repository_graph": (larder.one, 0, 1, 8)}
    for phase, taken in plans.items():
        plan = tiny.mixture(home, phase, [taken, taken], specialist=SPECIALIST)
        # A run's key is the digest of its labels and of this one.
        job = tiny.job(plan, home, specialist=SPECIALIST, run_key=phase, seed=len(phase))
        tiny.run(home, job, FIGURES)
        runs.append(next(each for each in Store(home).artefacts("runs") if phase in str(each.path)))
    return Workspace(
        home=home,
        keys=(runs[0].key[:12], runs[1].key[:12]),
        mixture=plan.key[:12],
        document=document.document_id[:12],
    )


FIGURES: tuple[Figure, ...] = (
    tiny.figure(2.0, 0.1),
    tiny.figure(1.5, 0.1, "v2_simple", "general"),
)
SYNTAX, GRAPH = f"{SPECIALIST}/syntax", f"{SPECIALIST}/repository_graph"


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize(
    "words",
    [
        "status",
        "ls",
        "compare",
        "lineage step",
        "lineage file",
        "query",
        "diff",
        "diet check",
        "demo",
    ],
)
def test_ids_stand_whole_on_one_line_of_a_terminal(
    workspace: Workspace, words: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    syntax, graph = workspace.keys
    calls: dict[str, tuple[tuple[str, ...], set[str]]] = {
        "status": (("status", "--all"), {SPECIALIST, syntax, graph, "repository_graph"}),
        "ls": (("ls",), {PLANNED, SYNTAX, GRAPH, syntax, graph}),
        "compare": (("compare", SYNTAX, GRAPH), {SPECIALIST, "repository_graph", syntax, graph}),
        "lineage step": (
            ("lineage", SYNTAX, "--step", "1"),
            {SYNTAX, syntax, workspace.document, "d" * 12, PATH},
        ),
        "lineage file": (("lineage", "d" * 40), {SYNTAX, syntax, "d" * 12}),
        "query": (("query", "FROM runs"), {SPECIALIST, "repository_graph", syntax, graph}),
        "diff": (("diff", SYNTAX, GRAPH), {SYNTAX, GRAPH, workspace.document, PATH}),
        "diet check": (
            ("diet", "check", PLANNED, "--commit-fraction", "1"),
            {"first", "v3_simple"},
        ),
        "demo": (("demo", "--home", str(workspace.home)), {str(workspace.home), "syntax"}),
    }
    monkeypatch.setattr(phases, "flow", lambda *_: _trained(workspace))
    given, expected = calls[words]
    lines = lines_on_terminal(*given, width=width, home=workspace.home)
    for name in expected:
        assert any(name in line and len(line.rstrip()) <= width for line in lines), (name, lines)
    whole = {"d" * 13, workspace.document + "0"}
    assert not any(each in line for each in whole for line in lines), "full ids are for --json"


def test_what_is_piped_is_as_wide_as_a_wide_terminal(workspace: Workspace) -> None:
    piped = curriculum("compare", SYNTAX, GRAPH, home=workspace.home).stdout.splitlines()
    assert piped[0].split()[:4] == ["specialist", "phase", "key", "val_bpb"]
    assert max(map(len, piped)) > 100
    assert "not shown at 80" not in "".join(piped)


def test_full_keys_are_in_json(workspace: Workspace) -> None:
    told = curriculum("status", "--all", "--json", home=workspace.home)
    keys = {each["key"] for each in json.loads(told.stdout)["phases"] if each["key"]}
    assert {key[:12] for key in keys} == {*workspace.keys}
    assert {len(key) for key in keys} == {64}
    told = curriculum("lineage", SYNTAX, "--step", "1", "--json", home=workspace.home)
    assert "d" * 40 in told.stdout


def test_a_wide_answer_leaves_columns_out_and_stays_a_line_a_row(workspace: Workspace) -> None:
    lines = lines_on_terminal("query", "FROM runs", width=80, home=workspace.home)
    shown = [line for line in lines if SPECIALIST in line]
    assert len(shown) == 2
    (left_out,) = (line for line in lines if line.startswith("not shown at 80 columns"))
    assert "more" in "".join(lines[lines.index(left_out) :])


def _trained(workspace: Workspace) -> tuple[FinishedStep, ...]:
    """The events of a flow that trained the runs of a workspace."""
    runs = Store(workspace.home).artefacts("runs")
    return tuple(
        FinishedStep(verb="train", phase=run.manifest.labels["phase"], run=run) for run in runs
    )


def test_what_the_demo_prints_can_be_pasted_at_80_columns(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "flow", lambda *_: _trained(workspace))
    elsewhere = str(workspace.home)
    lines = lines_on_terminal("demo", "--home", elsewhere, width=80, home=workspace.home / "other")
    assert f"  export CURRICULUM_HOME={elsewhere}" in lines
    rows = demo._some_rows(Store(workspace.home)).key[:12]
    assert f"  curriculum inspect {rows}" in lines
