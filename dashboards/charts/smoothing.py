"""Smoothing of series by an exponential moving average."""

from collections.abc import Sequence
from dataclasses import replace

from dashboards.charts.plots import Point, Series


def smoothed(points: Sequence[Point], weight: float) -> tuple[Point, ...]:
    """Return the exponential moving average of a series, as TensorBoard and W&B compute it.

    With the weight w, 0 ≤ w < 1, and the values x₁, x₂, …, the average at point t is

        yₜ = sₜ / (1 − wᵗ),  where  sₜ = w · sₜ₋₁ + (1 − w) · xₜ  and  s₀ = 0.

    The divisor removes the pull of s₀ towards zero, so that y₁ = x₁. With w = 0, y equals x.

    >>> losses = [(1, 5.0), (2, 3.0), (3, 4.0), (4, 2.0), (5, 1.0)]
    >>> [round(average, 3) for _, average in smoothed(losses, 0.5)]
    [5.0, 3.667, 3.857, 2.867, 1.903]
    """
    averages, total = [], 0.0
    for number, (place, value) in enumerate(points, start=1):
        total = weight * total + (1 - weight) * value
        averages.append((place, total / (1 - weight**number)))
    return tuple(averages)


def smooth(series: Series, weight: float) -> Series:
    """Return a series whose line is smoothed; the line of its values is drawn faintly behind.

    The figure beside its name is still its last value.
    """
    return replace(series, points=smoothed(series.points, weight), behind=series.points)
