from collections.abc import Callable
from typing import Any

from curriculum.mixing.diet_files import load_diet, load_phases
from curriculum.mixing.mix import mix, report_of
from curriculum.mixing.resolve import resolve
from curriculum.mixing.tree import Branch, explain_diet, explain_plan, lines
from curriculum.store import Store

Make = Callable[..., Any]


def test_a_tree_is_drawn_a_line_a_branch() -> None:
    servings = (
        Branch(
            title="v3_simple causal at 512",
            tokens=60_000,
            planned=0.6,
            realised=0.601,
            repetition=1.5,
        ),
        Branch(title="v2_simple causal at 512", tokens=40_000, planned=0.4, realised=0.399),
    )
    tree = Branch(title="syntax", tokens=100_000, planned=1.0, branches=servings)
    assert list(lines(tree)) == [
        "syntax                      100.0K",
        "├─ v3_simple causal at 512   60.0K   60.0 % → 60.1 %   seen 1.5 times",
        "└─ v2_simple causal at 512   40.0K   40.0 % → 39.9 %",
    ]


def test_a_diet_is_explained_phase_by_phase() -> None:
    shipped = load_diet("templates.demo")
    graph = shipped.phases[1]
    asked = graph.servings[0].model_copy(update={"objective": "fim"})
    changed = graph.model_copy(update={"servings": (asked, *graph.servings[1:])})
    phases = (shipped.phases[0], changed, *shipped.phases[2:])
    diet = shipped.model_copy(update={"phases": phases})
    tree = explain_diet(diet, resolve(diet, load_phases(diet.phases_file)))
    assert [each.title for each in tree.branches] == [
        "syntax",
        "file_graph",
        "repository_graph",
        "structure",
        "anneal",
    ]
    assert sum(each.tokens for each in tree.branches) == tree.tokens == 400_000
    assert tree.branches[0].note == ""
    assert any("v4_context_graph fim at 1024" in line for line in lines(tree))


def test_a_plan_is_explained_down_to_its_domains(
    store: Store, make_rows: Make, serving: Make, phase: Make
) -> None:
    rows = [[make_rows({"a": [400] * 9, "b": [500] * 9})], [make_rows({"a": [450] * 9}, name="v2")]]
    asked = phase(serving(share=0.75), serving(1, share=0.25, family="v2_simple"), tokens=9000)
    diet = load_diet("templates.demo")
    mixture = mix(store, diet, asked, rows, tokens_per_step=512)
    tree = explain_plan(report_of(mixture), title="syntax", key=mixture.key)
    first, second = tree.branches
    assert [each.title for each in first.branches] == ["a", "b"]
    assert second.branches == ()
    assert (first.planned, second.planned) == (0.75, 0.25)
    assert (first.key, second.key) == (rows[0][0].key, rows[1][0].key)
    assert first.tokens + second.tokens == tree.tokens == report_of(mixture).tokens
    assert sum(each.realised or 0 for each in first.branches) == 1
    assert mixture.key[:12] in next(lines(tree))
