"""The diets that come with the package, held against what was found for each specialist."""

from collections import Counter

import pytest

from curriculum.mixing.diet_files import (
    diet_names,
    load_diet,
    load_phases,
    phase_names,
    phases_files,
)
from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing, resolve

SPECIALISTS = (
    "algorithms",
    "build_toolchain",
    "compilers",
    "memory_raii",
    "service_orchestration",
    "systems_c",
    "templates",
    "testing",
)
PHASES = ("syntax", "file_graph", "repository_graph", "structure", "fine_tune")
HEAVY, LIGHT = 0.3, 0.12


def jobs(name: str) -> dict[str, ResolvedPhase]:
    diet = load_diet(name)
    return {job.name: job for job in resolve(diet, load_phases(diet.phases_file))}


def tokens(name: str) -> dict[str, float]:
    """Each phase's part of the tokens."""
    found = jobs(name)
    budget = sum(job.tokens for job in found.values())
    return {job.name: job.tokens / budget for job in found.values()}


def largest_family(name: str, phase: str) -> str:
    shares: Counter[str] = Counter()
    for serving in jobs(name)[phase].servings:
        shares[serving.family] += serving.tokens
    (first, most), *others = shares.most_common()
    assert all(most > other for _, other in others)
    return first


def servings(name: str) -> list[ResolvedServing]:
    return [serving for job in jobs(name).values() for serving in job.servings]


def test_eight_specialists_and_the_demo_come_with_the_package() -> None:
    assert diet_names() == tuple(sorted((*SPECIALISTS, "templates.demo")))
    assert phases_files() == ("phases", "phases.demo", "phases.long")
    assert phase_names() == phase_names("phases.demo") == PHASES


@pytest.mark.parametrize("name", SPECIALISTS)
def test_every_phase_and_every_serving_says_why(name: str) -> None:
    diet = load_diet(name)
    assert diet.specialist == name
    assert diet.why
    assert all(phase.why for phase in diet.phases)
    assert all(serving.why for phase in diet.phases for serving in phase.servings)


@pytest.mark.parametrize("name", SPECIALISTS)
def test_syntax_comes_first_and_structure_after_the_file_graph(name: str) -> None:
    order = list(jobs(name))
    assert set(order) == {*PHASES, "anneal"}
    assert order[0] == "syntax"
    assert order.index("file_graph") < order.index("structure")
    assert order[-2:] == ["fine_tune", "anneal"]
    before = jobs(name)["syntax"].servings
    assert "v6_enriched" not in {serving.family for serving in before}


@pytest.mark.parametrize(
    ("name", "heavy", "light"),
    [
        ("algorithms", ["syntax"], ["repository_graph"]),
        ("templates", ["syntax", "structure"], ["repository_graph"]),
        ("memory_raii", ["syntax", "file_graph"], ["repository_graph"]),
        ("build_toolchain", ["file_graph", "repository_graph"], ["syntax"]),
        ("service_orchestration", ["repository_graph", "structure"], ["syntax"]),
        ("testing", ["syntax"], ["repository_graph"]),
        ("systems_c", [], []),
        ("compilers", ["file_graph", "repository_graph"], []),
    ],
)
def test_heavy_phases_have_three_tenths_of_the_tokens_and_light_ones_an_eighth(
    name: str, heavy: list[str], light: list[str]
) -> None:
    found = tokens(name)
    assert all(found[phase] >= HEAVY for phase in heavy), found
    assert all(found[phase] <= LIGHT for phase in light), found
    others = {*PHASES, "anneal"} - {*heavy}
    assert all(found[phase] < HEAVY for phase in others), found
    assert found["repository_graph"] > 0.05


def test_systems_c_is_balanced_over_the_first_three_phases() -> None:
    found = [tokens("systems_c")[name] for name in PHASES[:3]]
    assert max(found) <= 1.1 * min(found)
    assert min(found) > max(tokens("systems_c")[name] for name in ("structure", "fine_tune"))


@pytest.mark.parametrize(
    ("name", "phase", "family"),
    [
        ("algorithms", "syntax", "v3_simple"),
        ("algorithms", "file_graph", "v4_context_graph"),
        ("templates", "syntax", "v3_doxygen"),
        ("templates", "structure", "v6_enriched"),
        ("testing", "syntax", "v3_simple"),
        ("service_orchestration", "structure", "v6_enriched"),
        *((name, "file_graph", "v4_context_graph") for name in SPECIALISTS),
        *((name, "repository_graph", "v4_context_graph") for name in SPECIALISTS),
    ],
)
def test_the_family_that_a_phase_is_about_is_its_largest(
    name: str, phase: str, family: str
) -> None:
    assert largest_family(name, phase) == family


def test_syntax_is_mixed_with_the_file_graph_for_memory() -> None:
    graph = [each for each in jobs("memory_raii")["syntax"].servings if each.row_length == 16384]
    assert [each.family for each in graph] == ["v4_context_graph"]
    assert graph[0].share >= HEAVY


@pytest.mark.parametrize("name", SPECIALISTS)
def test_both_directions_between_comments_and_code_have_as_many_tokens(name: str) -> None:
    found: Counter[str] = Counter()
    for serving in servings(name):
        found[serving.objective] += serving.tokens
    assert found["doc_to_code"] > 0
    assert found["doc_to_code"] == pytest.approx(found["code_to_doc"], rel=0.05)
    assert found["fim"] > 0.05 * sum(found.values())
    assert set(found) == {"causal", "fim", "doc_to_code", "code_to_doc"}


@pytest.mark.parametrize("name", SPECIALISTS)
def test_fine_tuning_sees_the_specialists_domain_four_times_as_often(name: str) -> None:
    """The factor holds for at least the 70–80 % of tokens that aren't about comments."""
    fine_tune = jobs(name)["fine_tune"].servings
    skewed = [each for each in fine_tune if dict(each.domains) == {name: 4, "*": 1}]
    assert sum(each.share for each in skewed) >= 0.7


def test_testing_sees_fixtures_more_often_from_the_first_phase_on() -> None:
    syntax = jobs("testing")["syntax"]
    skewed = [each for each in syntax.servings if dict(each.domains) == {"testing": 4, "*": 1}]
    assert sum(each.share for each in skewed) > 0.5
    assert syntax.max_repetition > 4


def test_compilers_takes_its_graphs_from_compilers_alone() -> None:
    found = jobs("compilers")
    for phase in ("file_graph", "repository_graph"):
        of_one = [each for each in found[phase].servings if each.repositories]
        assert {each.repositories for each in of_one} == {("llvm*|binaryen|spirv-tools|wabt",)}
        assert sum(each.share for each in of_one) >= 0.8


@pytest.mark.parametrize("name", SPECIALISTS)
def test_some_phase_mixes_row_lengths(name: str) -> None:
    lengths = [{each.row_length for each in job.servings} for job in jobs(name).values()]
    assert any(len(each) > 1 for each in lengths)
    assert max(max(each) for each in lengths) == 65536


def test_the_demo_goes_through_all_phases_in_short_rows() -> None:
    found = jobs("templates.demo")
    assert list(found) == [*PHASES[:4], "anneal"]
    assert max(job.slot_length for job in found.values()) <= 2048
