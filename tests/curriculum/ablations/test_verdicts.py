"""Verdicts against SciPy's own tests, and on differences whose answer is plain."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from curriculum.ablations.verdicts import (
    LEVEL,
    difference_of,
    holm,
    is_confirmed,
    seeds_needed,
    verdict_of,
)
from schemas.ablation import MIN_SEEDS, Direction, Verdict

DIFFERENCES = st.lists(st.floats(-1, 1), min_size=3, max_size=12).filter(
    lambda drawn: np.std(drawn) > 1e-6
)
DELTA = 0.01


@given(differences=DIFFERENCES)
def test_the_test_of_a_difference_is_students(differences: list[float]) -> None:
    found = difference_of(differences, DELTA)
    expected = stats.ttest_1samp(differences, 0)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-9)
    low, high = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


@given(differences=DIFFERENCES, delta=st.floats(0.001, 1))
def test_the_tests_within_delta_are_two_one_sided_ones(
    differences: list[float], delta: float
) -> None:
    above = stats.ttest_1samp(differences, -delta, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, delta, alternative="less").pvalue
    assert difference_of(differences, delta).p_within == pytest.approx(max(above, below), abs=1e-9)


@given(probabilities=st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_a_corrected_p_value_is_the_level_at_which_holms_procedure_rejects(
    probabilities: list[float],
) -> None:
    corrected = holm(probabilities)
    for level in (0.01, 0.05, 0.2, *corrected):
        rejected = set[int]()
        for rank, at in enumerate(sorted(range(len(probabilities)), key=probabilities.__getitem__)):
            if probabilities[at] * (len(probabilities) - rank) > level:
                break
            rejected.add(at)
        for at, p in enumerate(corrected):
            if not math.isclose(p, level):
                assert (p < level) == (at in rejected)


def verdict(
    differences: Sequence[float], *, claims: int = 1, direction: Direction = "lower"
) -> Verdict:
    found = difference_of(differences, DELTA)
    corrected = min(1.0, found.p * claims)
    return verdict_of(found, corrected, direction=direction, delta=DELTA)


SURE = [-0.030, -0.031, -0.029, -0.030, -0.032]
SMALL = [0.0005, -0.0004, 0.0002, 0.0001, -0.0003]
WILD = [-0.2, 0.15, -0.05, 0.3, -0.1]


@pytest.mark.parametrize(
    ("differences", "direction", "expected"),
    [
        (SURE, "lower", "confirmed"),
        (SURE, "higher", "contradicted"),
        (SMALL, "lower", "not seen"),
        (SMALL, "higher", "not seen"),
        (WILD, "lower", "too small to tell"),
        (SURE[: MIN_SEEDS - 1], "lower", "none"),
    ],
)
def test_a_claim_has_the_verdict_of_its_differences(
    differences: list[float], direction: Direction, expected: Verdict
) -> None:
    assert verdict(differences, direction=direction) == expected


def test_a_sure_difference_below_delta_is_not_confirmed() -> None:
    assert verdict([-0.005, -0.0051, -0.0049, -0.005, -0.005]) == "not seen"


def test_what_one_claim_confirms_many_claims_may_not() -> None:
    found = [-0.03, -0.01, -0.02, -0.03, -0.01]
    assert verdict(found) == "confirmed"
    assert verdict(found, claims=10) == "too small to tell"


def test_a_control_is_judged_with_few_seeds_too() -> None:
    assert is_confirmed(difference_of(SURE[:3], DELTA), direction="lower", delta=DELTA)


@given(differences=DIFFERENCES, claims=st.integers(1, 6))
def test_so_many_seeds_as_are_needed_decide_and_one_fewer_doesnt(
    differences: list[float], claims: int
) -> None:
    found = difference_of(differences, DELTA)
    needed = seeds_needed(found, delta=DELTA, claims=claims)

    def p_with(count: int) -> float:
        error = found.deviation / math.sqrt(count)
        if abs(found.mean) >= DELTA:
            return 2 * claims * float(stats.t.sf(abs(found.mean) / error, count - 1))
        return float(stats.t.sf((DELTA - abs(found.mean)) / error, count - 1))

    if needed is not None:
        assert p_with(needed) < LEVEL
        assert needed == max(found.seeds, MIN_SEEDS) or p_with(needed - 1) >= LEVEL


def test_equal_differences_have_no_width() -> None:
    found = difference_of([-0.02] * 5, DELTA)
    assert (found.low, found.high, found.p) == (-0.02, -0.02, 0.0)
    assert verdict([-0.02] * 5) == "confirmed"
    assert verdict([0.0] * 5) == "not seen"
