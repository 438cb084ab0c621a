import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.supply.scaling import estimate_by_ratio


def test_what_is_known_of_all_scales_what_is_known_of_some() -> None:
    amounts, sizes = np.array([10.0, 20.0]), np.array([1.0, 2.0])
    assert estimate_by_ratio(amounts, sizes, whole=30.0, population=20) == (300.0, 0.0)


def test_nothing_is_in_doubt_where_all_is_read() -> None:
    amounts, sizes = np.array([10.0, 26.0]), np.array([1.0, 2.0])
    assert estimate_by_ratio(amounts, sizes, whole=3.0, population=2) == (36.0, 0.0)


def test_one_unit_says_nothing_of_the_others() -> None:
    total, error = estimate_by_ratio(np.array([5.0]), np.array([1.0]), whole=10.0, population=10)
    assert (total, error) == (50.0, 50.0)


def test_units_without_a_size_give_nothing() -> None:
    assert estimate_by_ratio(np.zeros(3), np.zeros(3), whole=10.0, population=30) == (0.0, 0.0)


@given(st.integers(0, 2**31), st.integers(30, 60))
def test_the_error_is_as_large_as_estimates_differ(seed: int, sampled: int) -> None:
    """Most of many samples of one population lie within three standard errors."""
    random = np.random.default_rng(seed)
    sizes = random.lognormal(0, 1, 400)
    amounts = sizes * random.uniform(0.5, 1.5, 400)
    hits = 0
    for _ in range(40):
        some = random.choice(400, sampled, replace=False)
        total, error = estimate_by_ratio(
            amounts[some], sizes[some], whole=float(sizes.sum()), population=400
        )
        hits += abs(total - amounts.sum()) <= 3 * error
    assert hits >= 34


def test_more_units_leave_less_doubt() -> None:
    random = np.random.default_rng(3)
    sizes = random.uniform(1, 2, 1000)
    amounts = sizes * random.uniform(0, 2, 1000)
    errors = [
        estimate_by_ratio(amounts[:n], sizes[:n], whole=float(sizes.sum()), population=1000)[1]
        for n in (25, 100, 400)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.3)
    assert not math.isnan(errors[2])
