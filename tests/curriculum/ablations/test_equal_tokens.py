"""Differences at equally many distinct tokens, on curves whose answer is known."""

from types import SimpleNamespace
from typing import Any

import pytest

from curriculum.ablations.equal_tokens import equal_tokens_difference, val_bpb_at
from schemas.ablation import Claim

CLAIM = Claim(claim="x", arm="a", against="b", set="unseen")


def arm(distinct: tuple[int, ...], *bits: tuple[float, ...]) -> Any:
    """An arm of phases of ten steps, each evaluated at equal distances from its first step to its last."""
    reports = [
        SimpleNamespace(
            steps=10,
            history=[
                SimpleNamespace(set=name, step=10 * at / (len(each) - 1), val_bpb=figure + shift)
                for at, figure in enumerate(each)
                for name, shift in (("unseen", 0.0), ("anchor", 7.0))
            ],
        )
        for each in bits
    ]
    return SimpleNamespace(reports=reports, distinct=distinct)


@pytest.mark.parametrize(
    ("distinct", "bits"), [(0, 4.0), (50, 3.5), (100, 3.0), (200, 2.5), (300, 2.0), (900, 2.0)]
)
def test_a_curve_is_straight_between_evaluations_and_goes_on_over_phases(
    distinct: float, bits: float
) -> None:
    trained = arm((100, 300), (4.0, 3.0), (3.0, 2.0))
    assert val_bpb_at(trained, "unseen", distinct) == bits
    assert val_bpb_at(trained, "anchor", distinct) == bits + 7.0


def test_the_arm_with_more_distinct_tokens_is_looked_at_where_it_had_as_many() -> None:
    more, fewer = arm((400,), (4.0, 2.0)), arm((100,), (4.0, 3.0))
    pairs = [(more, fewer), (fewer, more)]
    found = equal_tokens_difference(CLAIM, pairs)
    assert found is not None
    assert found.distinct == 100
    assert found.found.mean == pytest.approx(0)
    assert found.found.low < 0 < found.found.high
    alone = equal_tokens_difference(CLAIM, [(more, fewer)] * 2)
    assert alone is not None
    assert alone.found.mean == pytest.approx(0.5)


def test_arms_of_nearly_as_many_distinct_tokens_have_no_second_difference() -> None:
    pairs = [(arm((110,), (4.0, 2.0)), arm((100,), (4.0, 3.0)))] * 2
    assert equal_tokens_difference(CLAIM, pairs) is None
    pairs = [(arm((111,), (4.0, 2.0)), arm((100,), (4.0, 3.0)))] * 2
    assert equal_tokens_difference(CLAIM, pairs) is not None
    fim = CLAIM.model_copy(update={"view": "fim"})
    assert equal_tokens_difference(fim, pairs) is None
