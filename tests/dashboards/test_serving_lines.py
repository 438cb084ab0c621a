"""Servings at other shares as YAML: valid lines of a diet that read the rows of the mixture they are of."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from curriculum.mixing.diet_files import diet_files, diet_names, load_diet, load_phases
from curriculum.mixing.resolve import ResolvedServing, resolve
from curriculum.pipeline.wanted_rows import wanted_of
from curriculum.stages.row_sources import Beside
from dashboards import mixture_panels
from dashboards.questions import WorkspaceView
from dashboards.serving_lines import ServingLine, as_yaml, rounded
from schemas.diet import DietPhase

SERVINGS = re.compile(r"^    servings:\n(?:^ {6,}.*\n|^ *\n)*", re.MULTILINE)
"""The servings of a phase in a diet file."""
LINE = ServingLine(
    serving=0,
    family="v3_doxygen",
    objective="causal",
    row_length=4096,
    domains="{}",
    base=None,
    repositories="[]",
    variants=1,
    imported="",
    score=None,
    beside=None,
)


def _phase(text: str) -> DietPhase:
    """The phase whose servings are these lines of YAML."""
    content = yaml.safe_load(text)
    assert list(content) == ["servings"]
    return DietPhase.model_validate({"phase": "syntax", "portion": 1.0, **content})


@given(st.lists(st.floats(0, 100), min_size=1, max_size=12))
def test_shares_sum_to_one_in_four_decimals(asked: list[float]) -> None:
    assume(sum(asked) > 1e-6)
    found = rounded(asked)
    assert math.fsum(found) == pytest.approx(1, abs=1e-9)
    assert all(round(each, 4) == each for each in found)
    for share, one in zip(found, asked, strict=True):
        assert (share > 0) == (one > 0)
        assert share == pytest.approx(one / sum(asked), abs=1.2e-3)


def test_what_nothing_is_asked_of_is_left_out_and_of_nothing_there_is_no_line() -> None:
    lines = [replace(LINE, serving=at, row_length=128 * (at + 1)) for at in range(3)]
    found = _phase(as_yaml(lines, {0: 0.5, 1: 0.0, 2: 1.5}, "phase syntax of templates"))
    assert [(each.row_length, each.share) for each in found.servings] == [(128, 0.25), (384, 0.75)]
    assert as_yaml(lines, dict.fromkeys(range(3), 0.0), "phase syntax of templates") == ""


def test_all_that_a_line_of_a_diet_can_say_is_said() -> None:
    enriched = replace(LINE, family="v6_enriched", base="v2_simple", serving=1)
    split = replace(
        LINE,
        serving=2,
        objective="fim",
        variants=3,
        domains='{"*": 1.0, "templates": 3.0}',
        repositories='["llvm-project", "on"]',
    )
    everything = replace(LINE, serving=4, row_length=512, score="all")
    imported = replace(LINE, serving=3, imported="my rows: [1]", repositories=None, domains=None)
    lines = [LINE, enriched, split, imported, everything]
    found = _phase(as_yaml(lines, dict.fromkeys(range(5), 1.0), "x"))
    assert [each.model_dump(exclude_defaults=True) for each in found.servings] == [
        {"family": "v3_doxygen", "objective": "causal", "row_length": 4096, "share": 0.2},
        {
            "family": "v6_enriched",
            "base": "v2_simple",
            "objective": "causal",
            "row_length": 4096,
            "share": 0.2,
        },
        {
            "family": "v3_doxygen",
            "objective": "fim",
            "row_length": 4096,
            "share": 0.2,
            "domains": {"*": 1.0, "templates": 3.0},
            "variants": 3,
            "repositories": ("llvm-project", "on"),
        },
        {"imported": "my rows: [1]", "share": 0.2},
        {
            "family": "v3_doxygen",
            "objective": "causal",
            "row_length": 512,
            "share": 0.2,
            "score": "all",
        },
    ]


def test_a_line_that_has_the_commits_of_both_graphs_says_so() -> None:
    graphs = replace(LINE, family="v4_context_graph")
    frontend = replace(LINE, family="v5_clang_graph", serving=1)
    lines = [graphs, frontend]
    for beside, both in (("v5_clang_graph", None), (None, True)):
        lines[0] = replace(graphs, beside=beside)
        found = _phase(as_yaml(lines, {0: 1.0, 1: 1.0}, "x"))
        assert [each.both for each in found.servings] == [both, None]


def _line(serving: ResolvedServing, beside: Beside | None) -> ServingLine:
    """The line of a serving as a mixture keeps it."""
    return replace(
        LINE,
        serving=serving.index,
        family=serving.family,
        objective=serving.objective,
        row_length=serving.row_length,
        domains=json.dumps(dict(serving.domains)),
        base=serving.base,
        repositories=json.dumps(serving.repositories),
        variants=serving.variants,
        score="all" if serving.score == "all" else None,
        beside=beside.family if beside else None,
    )


@pytest.mark.parametrize("name", diet_names())
def test_pasted_lines_make_the_same_mixture_at_the_new_shares(name: str, tmp_path: Path) -> None:
    """The file of every diet that comes with this, with the servings of all its phases replaced."""
    diet = load_diet(name)
    phases = load_phases(diet.phases_file)
    before = resolve(diet, phases)[: len(diet.phases)]
    pasted = [
        as_yaml(
            [
                _line(each, specs[0].beside)
                for each, specs in zip(phase.servings, wanted_of(phase), strict=True)
            ],
            {each.index: float(each.index + 1) for each in phase.servings},
            phase.name,
        )
        for phase in before
    ]
    new = iter(pasted)
    text = SERVINGS.sub(lambda _: next(new), diet_files(name)[0].read_text())
    assert all(each in text for each in pasted)
    file = tmp_path / f"{name}.yaml"
    file.write_text(text)
    for old, phase in zip(before, resolve(load_diet(str(file)), phases), strict=False):
        whole = sum(each.index + 1 for each in old.servings)
        for one, other in zip(old.servings, phase.servings, strict=True):
            assert other.share == pytest.approx((one.index + 1) / whole, abs=1e-4)
            assert replace(other, share=0, tokens=0) == replace(one, share=0, tokens=0)


def test_a_mixture_is_read_back_as_its_lines(home: Path) -> None:
    snapshot = WorkspaceView(home)
    which = mixture_panels.choose_mixture(
        mixture_panels.mixed(snapshot), "systems_c/wide", "file_graph"
    )
    lines = mixture_panels.lines(snapshot, which)
    text = as_yaml(lines, {0: 0.6, 1: 0.0, 2: 0.15}, f"phase {which.phase} of {which.specialist}")
    assert text == (
        "    # phase file_graph of systems_c/wide, at other shares\n"
        "    servings:\n"
        "      - {family: v3_simple, row_length: 512, share: 0.8, domains: {templates: 2.0, '*': 1.0}}\n"
        "      - {family: v4_context_graph, row_length: 1024, share: 0.2, "
        "domains: {templates: 2.0, '*': 1.0}}\n"
    )
    assert len(_phase(text).servings) == 2
