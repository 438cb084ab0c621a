"""Documents and lineages of a weighted mean, and what they are worth: the rule of docs/validation.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.held_out import (
    MIN_DOCUMENTS,
    MIN_LINEAGES,
    HeldOutCount,
    WeightedStratum,
    held_out_count,
)


def stratum(name: str, weight: float, documents: int, lineages: int) -> WeightedStratum:
    """A stratum of so many documents and lineages that no other has."""
    return WeightedStratum(
        weight=weight,
        documents=[f"{name} {at}" for at in range(documents)],
        lineages=[f"{name} {at}" for at in range(lineages)],
    )


def test_the_example_of_the_documentation() -> None:
    found = held_out_count([stratum("v4", 0.7, 2, 2), stratum("v3", 0.3, 19, 10)])
    assert (found.documents, found.lineages) == (21, 12)
    assert found.effective_documents == pytest.approx(4.0, abs=0.05)
    assert found.effective_lineages == pytest.approx(2.1, abs=0.05)
    assert not found.is_sure


def test_a_single_stratum_is_worth_what_it_has() -> None:
    assert held_out_count([stratum("a", 0.2, 8, 4)]) == HeldOutCount(
        documents=8, lineages=4, effective_documents=8, effective_lineages=4
    )
    assert held_out_count([stratum("a", 0.2, 8, 4)]).is_sure
    assert not held_out_count([stratum("a", 0.2, 99, 3)]).is_sure
    assert not held_out_count([]).is_sure


def test_families_of_the_same_files_are_worth_no_more_than_one() -> None:
    files = ("a", "b", "c")
    both = [
        WeightedStratum(weight=0.5, documents=[f"{family} {at}" for at in range(9)], lineages=files)
        for family in ("v2", "v3")
    ]
    assert held_out_count(both).effective_lineages == pytest.approx(3)
    assert not held_out_count(both).is_sure


def test_strata_of_one_lineage_may_hold_a_third_of_the_weight() -> None:
    """The variance of such a stratum is unknown, however many there are."""
    rest = stratum("rest", 1.0, 40, 40)
    for alone, is_sure in ((0.3, True), (0.4, False)):
        several = [stratum(f"{at}", alone / (1 - alone) / 10, 3, 1) for at in range(10)]
        assert held_out_count([rest, *several]).is_sure == is_sure


@given(
    heavy=st.integers(1, MIN_LINEAGES - 1),
    documents=st.integers(1, 50),
    light=st.lists(st.integers(1, 60), min_size=1, max_size=20),
    share=st.floats(0.0, 0.1),
)
def test_strata_of_low_weight_never_carry_a_heavy_one_over_the_threshold(
    heavy: int, documents: int, light: list[int], share: float
) -> None:
    others = [
        stratum(f"{at}", share / (1 - share) / len(light), 2 * count, count)
        for at, count in enumerate(light)
    ]
    found = held_out_count([stratum("heavy", 1.0, documents, heavy), *others])
    assert not found.is_sure


@given(
    documents=st.integers(1, MIN_DOCUMENTS - 2),
    light=st.lists(st.integers(4, 60), min_size=1, max_size=20),
    share=st.floats(0.0, 0.1),
)
def test_documents_of_low_weight_do_not_either(
    documents: int, light: list[int], share: float
) -> None:
    others = [
        stratum(f"{at}", share / (1 - share) / len(light), count, count)
        for at, count in enumerate(light)
    ]
    assert not held_out_count([stratum("heavy", 1.0, documents, documents), *others]).is_sure
