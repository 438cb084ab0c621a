"""Totals of all units, estimated from sampled units, with standard errors."""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def estimate_by_ratio(
    amounts: Floats, sizes: Floats, *, whole: float, population: int
) -> tuple[float, float]:
    """Estimate the total amount of all units, and its standard error.

    The arrays `amounts` and `sizes` [n] describe the sampled units. `whole` is the total size of all
    `population` units. The error is that of a ratio estimator under simple random sampling without
    replacement. It is 0 if all units are sampled. If only one unit of a larger population is sampled, the
    error is set to the estimate.

    >>> estimate_by_ratio(np.array([10.0, 20.0]), np.array([1.0, 2.0]), whole=30.0, population=20)
    (300.0, 0.0)
    >>> estimate_by_ratio(np.array([10.0, 26.0]), np.array([1.0, 2.0]), whole=3.0, population=2)
    (36.0, 0.0)
    """
    assert len(amounts) == len(sizes) <= population
    sampled = float(sizes.sum())
    if not sampled:
        return 0.0, 0.0
    total = float(amounts.sum()) * whole / sampled
    number = len(amounts)
    if number == population:
        return total, 0.0
    if number == 1:
        return total, total
    residuals = amounts - amounts.sum() / sampled * sizes
    variance = float(residuals @ residuals) / (number - 1)
    spread = number * (1 - number / population) * variance
    return total, whole / sampled * math.sqrt(spread)


def product(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return the product of two estimates and its standard error; all are pairs (value, standard error).

    >>> product((10.0, 3.0), (2.0, 0.8))
    (20.0, 10.0)
    """
    return one[0] * other[0], math.hypot(one[1] * other[0], one[0] * other[1])
