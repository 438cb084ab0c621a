"""Exponential moving averages of curves, as TensorBoard and W&B compute them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.charts.plots import Series
from dashboards.charts.smoothing import smooth, smoothed

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=30)
WEIGHTS = st.floats(0, 0.99)


def _points(values: list[float]) -> list[tuple[float, float]]:
    return [*enumerate(values)]


def test_the_average_of_five_values_is_that_of_the_formula() -> None:
    # s: 2.5, 2.75, 3.375, 2.6875, 1.84375; divided by 1 − wᵗ: 0.5, 0.75, 0.875, 0.9375, 0.96875.
    averages = [value for _, value in smoothed(_points([5.0, 3.0, 4.0, 2.0, 1.0]), 0.5)]
    wanted = [2.5 / 0.5, 2.75 / 0.75, 3.375 / 0.875, 2.6875 / 0.9375, 1.84375 / 0.96875]
    assert averages == pytest.approx(wanted)


@given(VALUES)
def test_the_weight_zero_changes_nothing(values: list[float]) -> None:
    assert [value for _, value in smoothed(_points(values), 0.0)] == values


@given(VALUES, WEIGHTS)
def test_the_average_starts_at_the_first_value_and_stays_within_all(
    values: list[float], weight: float
) -> None:
    averages = [value for _, value in smoothed(_points(values), weight)]
    assert averages[0] == pytest.approx(values[0])
    assert min(values) - 1e-6 <= min(averages) <= max(averages) <= max(values) + 1e-6


def test_a_smoothed_series_keeps_its_values_behind_and_its_last_figure() -> None:
    series = Series(points=_points([5.0, 3.0, 4.0]), look="own", name="loss", figure="4.000")
    found = smooth(series, 0.9)
    assert found.behind == series.points
    assert found.figure == "4.000"
    assert found.points[-1][1] != 4.0
