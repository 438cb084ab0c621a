from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from curriculum.mixing.diet_files import load_phases
from curriculum.mixing.phase_faults import repeated_changes
from curriculum.mixing.resolve import _divide, faults, resolve, structure_faults
from curriculum.pipeline.wanted_rows import wanted_of
from curriculum.stages.row_sources import Beside
from schemas.diet import Diet, Serving
from schemas.errors import DietError


def diet(*phases: dict[str, Any], **changes: Any) -> Diet:
    portion = 1 / len(phases)
    fields = {
        "specialist": "templates",
        "corpus": "sample",
        "model": "tiny",
        "token_budget": "1M",
        "phases": [{"portion": portion} | phase for phase in phases],
    }
    return Diet.model_validate(fields | changes)


def servings(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"family": "v3_simple", "share": 1 / len(lines)} | line for line in lines]


def test_a_serving_takes_its_own_row_length_and_else_the_phases() -> None:
    asked = diet(
        {"phase": "syntax", "servings": servings({"family": "v2_simple"}, {"row_length": 512})}
    )
    (phase,) = resolve(asked, load_phases())
    assert [serving.row_length for serving in phase.servings] == [4096, 512]
    assert (phase.slot_length, phase.rope_base, phase.is_anneal) == (4096, 500_000, False)
    assert [serving.title for serving in phase.servings] == [
        "v2_simple causal at 4096",
        "v3_simple causal at 512",
    ]


def test_the_anneal_is_the_last_job_over_the_servings_of_the_last_phase() -> None:
    asked = diet(
        {"phase": "syntax", "portion": 0.5, "servings": servings({})},
        {
            "phase": "file_graph",
            "portion": 0.3,
            "servings": servings({"domains": {"b": 2, "a": 1}}),
            "require": ["leakcheck"],
            "advance_when": {"min_tokens": 10},
        },
        anneal={"portion": 0.2},
    )
    first, second, anneal = resolve(asked, load_phases())
    assert [job.name for job in (first, second, anneal)] == ["syntax", "file_graph", "anneal"]
    assert [job.tokens for job in (first, second, anneal)] == [500_000, 300_000, 200_000]
    assert anneal.is_anneal
    assert (anneal.rope_base, anneal.slot_length) == (second.rope_base, second.slot_length)
    assert (anneal.advance_when, anneal.require) == (None, ())
    assert second.require == ("leakcheck",)
    assert [(each.family, each.row_length) for each in anneal.servings] == [("v3_simple", 16384)]
    assert anneal.servings[0].domains == (("a", 1.0), ("b", 2.0))


def test_a_serving_names_its_row_length_where_the_phase_has_several() -> None:
    asked = diet({"phase": "structure", "servings": servings({"family": "v6_enriched"})})
    with pytest.raises(DietError, match=r"servings\.0 \(v6_enriched\).*row_length: 4096"):
        resolve(asked, load_phases())


def test_a_phase_that_is_not_there_is_an_error_with_the_likely_one() -> None:
    asked = diet({"phase": "synatx", "servings": servings({})})
    with pytest.raises(DietError, match=r"phases\.0\.phase = 'synatx'.*'syntax'"):
        resolve(asked, load_phases())


def test_row_lengths_divide_the_largest() -> None:
    lines = servings({"row_length": 384}, {"row_length": 512})
    with pytest.raises(DietError, match=r"servings\.0\.row_length = 384.*512"):
        resolve(diet({"phase": "syntax", "servings": lines}), load_phases())


def test_two_servings_never_read_the_same_rows() -> None:
    lines = servings({}, {"row_length": 4096})
    with pytest.raises(DietError, match=r"servings\.1 .*phases\.0\.servings\.0"):
        resolve(diet({"phase": "syntax", "servings": lines}), load_phases())
    apart = servings({}, {"repositories": ["lattice"]})
    (phase,) = resolve(diet({"phase": "syntax", "servings": apart}), load_phases())
    assert phase.servings[1].title == "v3_simple causal at 4096 of lattice"


def test_new_lines_are_scored_unless_a_serving_asks_for_all() -> None:
    lines = servings({}, {"score": "all"})
    (phase,) = resolve(diet({"phase": "syntax", "servings": lines}), load_phases())
    assert [each.score for each in phase.servings] == ["new", "all"]
    assert [each.title for each in phase.servings] == [
        "v3_simple causal at 4096",
        "v3_simple causal score all at 4096",
    ]
    assert [[each.score for each in specs] for specs in wanted_of(phase)] == [["new"], ["all"]]
    with pytest.raises(DietError, match=r"servings\.1 .*phases\.0\.servings\.0"):
        resolve(
            diet({"phase": "syntax", "servings": servings({}, {"score": "new"})}), load_phases()
        )


def test_a_phase_of_both_graphs_leaves_the_frontends_commits_to_its_own() -> None:
    lines = servings(
        {"family": "v4_context_graph", "row_length": 4096},
        {"family": "v6_enriched", "base": "v4_context_graph", "row_length": 4096},
        {"family": "v4_context_graph", "row_length": 4096, "both": True},
        {"family": "v5_clang_graph", "row_length": 4096, "repositories": ["lattice"]},
        {"family": "v2_simple", "row_length": 4096},
    )
    (phase,) = resolve(diet({"phase": "syntax", "servings": lines}), load_phases())
    beside = Beside(family="v5_clang_graph", repositories=("lattice",))
    assert [each.beside for (each,) in wanted_of(phase)] == [beside, beside, None, None, None]
    alone = servings({"family": "v4_context_graph", "row_length": 4096})
    (phase,) = resolve(diet({"phase": "syntax", "servings": alone}), load_phases())
    assert [each.beside for (each,) in wanted_of(phase)] == [None]
    with pytest.raises(ValidationError, match="both"):
        diet({"phase": "syntax", "servings": servings({"family": "v2_simple", "both": True})})


def test_structure_is_added_to_files_in_short_rows_and_to_graphs_in_long_ones() -> None:
    lines = servings(
        {"family": "v6_enriched", "row_length": 4096},
        {"family": "v6_enriched", "row_length": 16384},
        {"family": "v6_enriched", "row_length": 16384, "base": "v5_clang_graph"},
    )
    (phase,) = resolve(diet({"phase": "structure", "servings": lines}), load_phases())
    assert [each.base for each in phase.servings] == [
        "v2_simple",
        "v4_context_graph",
        "v5_clang_graph",
    ]
    assert phase.servings[0].title == "v6_enriched of v2_simple causal at 4096"


def test_the_same_base_named_and_by_default_is_the_same_rows() -> None:
    lines = servings(
        {"family": "v6_enriched", "row_length": 4096},
        {"family": "v6_enriched", "row_length": 4096, "base": "v2_simple"},
    )
    with pytest.raises(DietError, match=r"servings\.1 .*phases\.0\.servings\.0"):
        resolve(diet({"phase": "structure", "servings": lines}), load_phases())


@pytest.mark.parametrize(
    ("family", "base", "said"),
    [("v3_simple", "v2_simple", "has no base"), ("v6_enriched", "v6_enriched", "its own base")],
)
def test_only_structure_has_a_base_and_never_itself(family: str, base: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Serving.model_validate({"family": family, "base": base, "share": 1.0})


@given(st.integers(0, 10**16), st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12))
def test_amounts_are_whole_and_sum_to_the_total(total: int, shares: list[float]) -> None:
    amounts = _divide(total, shares)
    assert sum(amounts) == total
    for amount, share in zip(amounts, shares, strict=True):
        assert abs(amount - total * share / sum(shares)) <= 1 + 1e-12 * total


def test_amounts_of_five_shares() -> None:
    assert _divide(10, [0.45, 0.45, 0.1]) == [4, 5, 1]
    assert _divide(7, [0.2] * 5) == [1, 2, 1, 2, 1]


def test_fim_has_as_many_variants_as_its_repetitions_can_come_to() -> None:
    asked = diet(
        {
            "phase": "syntax",
            "max_repetition": 2.5,
            "servings": servings(
                {"objective": "fim"},
                {"objective": "fim", "family": "v2_simple", "variants": 2},
                {"family": "v2_doxygen"},
            ),
        }
    )
    (phase,) = resolve(asked, load_phases())
    assert [serving.variants for serving in phase.servings] == [3, 2, 1]


GRAPHS = servings({"family": "v4_context_graph", "row_length": 4096})
STRUCTURE = servings({"family": "v6_enriched", "row_length": 4096})
GATE = {"advance_when": {"min_tokens": 10}}


@pytest.mark.parametrize(
    ("phases", "place", "said"),
    [
        ([("file_graph", GRAPHS, {}), ("structure", STRUCTURE, {})], 1, "of file_graph are learnt"),
        ([("syntax", STRUCTURE, GATE), ("file_graph", GRAPHS, GATE)], 0, "no phase of graphs"),
        ([("syntax", servings({}), GATE), ("structure", STRUCTURE, {})], 1, "no phase of graphs"),
        ([("file_graph", GRAPHS, GATE), ("structure", STRUCTURE, {})], None, ""),
        ([("syntax", servings({}), {}), ("file_graph", GRAPHS, {})], None, ""),
    ],
)
def test_structure_before_a_graph_phase_has_a_gate_is_warned_of(
    phases: list[tuple[str, Any, Any]], place: int | None, said: str
) -> None:
    asked = diet(*({"phase": name, "servings": own} | gate for name, own, gate in phases))
    found = [*structure_faults(resolve(asked, load_phases()))]
    assert [each.location for each in found] == (
        [] if place is None else [("phases", place, "servings", 0)]
    )
    assert all(said in each.cause for each in found)


@pytest.mark.parametrize(
    ("lines", "others"),
    [
        ([{"family": "edit"}, {}], "v3_simple"),
        ([{"family": "v3_doxygen"}, {"family": "edit"}, {}], "v3_simple and v3_doxygen"),
        ([{"family": "v6_enriched", "base": "edit"}, {}], "v3_simple"),
        ([{"family": "edit"}, {"family": "v2_simple"}], None),
        ([{}, {"family": "v3_doxygen"}], None),
    ],
)
def test_a_diet_that_serves_the_same_changes_in_two_forms_is_told_once(
    lines: list[dict[str, Any]], others: str | None
) -> None:
    asked = diet({"phase": "syntax", "servings": servings(*lines)})
    listed = [*repeated_changes(resolve(asked, load_phases()))]
    assert [line.partition(" and edit ")[0] for line in listed] == [others] * (others is not None)


def test_rows_of_a_study_are_cut_in_every_phase_and_the_anneal() -> None:
    phases = [
        {"phase": "syntax", "portion": 0.6, "servings": servings({})},
        {"phase": "file_graph", "portion": 0.3, "servings": servings({})},
    ]
    asked = diet(*phases, anneal={"portion": 0.1}, study={"packer": "chop"})
    assert [job.servings[0].packer for job in resolve(asked, load_phases())] == ["chop"] * 3
    usual = diet(*phases, anneal={"portion": 0.1}, study={"document_mask": "off"})
    assert [job.servings[0].packer for job in resolve(usual, load_phases())] == ["best_fit"] * 3


def test_imported_rows_are_not_cut_again() -> None:
    phase = {"phase": "syntax", "servings": [{"imported": "theirs", "share": 1}]}
    (fault,) = faults(diet(phase, study={"packer": "chop"}), load_phases())
    assert fault.location == ("phases", 0, "servings", 0, "imported")
    assert "packed" in fault.cause
    assert [*faults(diet(phase, study={"positions": "continue"}), load_phases())] == []
