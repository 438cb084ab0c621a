"""Verdicts on claims, from paired differences over seeds.

Student's t test and Holm's correction show that there is a difference. Two one-sided tests show that there
is none.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from schemas.ablation import MIN_SEEDS, Direction, Verdict

LEVEL = 0.05
"""Maximum probability that at least one of an ablation's claims is decided wrongly."""
MAX_NEEDED = 1000
"""Largest number of needed seeds that is reported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Mean of the differences between two arms with equal seeds, and its statistics."""

    mean: float
    low: float
    high: float
    """Upper end of the uncorrected 95 % interval; `low` is the lower end."""
    p: float
    """Two-sided p-value: the probability of a mean at least this far from 0 if the true mean is 0."""
    p_within: float
    """Probability of a mean this close to 0 if the true mean is +delta or -delta; the larger of both."""
    seeds: int
    deviation: float
    """Standard deviation of the differences."""


def difference_of(differences: Sequence[float], delta: float) -> Difference:
    """Return the mean of `differences`, with Student's t tests against 0 and against ±delta.

    Source of the tests within ±delta: D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987), 657.

    >>> found = difference_of([-0.03, -0.01, -0.02, -0.03, -0.01], 0.01)
    >>> round(found.mean, 3), round(found.low, 4), round(found.high, 4), round(found.p, 4)
    (-0.02, -0.0324, -0.0076, 0.0111)
    """
    count = len(differences)
    mean = math.fsum(differences) / count
    deviation = float(np.std(np.asarray(differences), ddof=1))
    error = deviation / math.sqrt(count)
    half = float(stats.t.ppf(0.975, count - 1)) * error
    return Difference(
        mean=mean,
        low=mean - half,
        high=mean + half,
        p=2 * _beyond(abs(mean), error, count),
        p_within=_beyond(delta - abs(mean), error, count),
        seeds=count,
        deviation=deviation,
    )


def _beyond(distance: float, error: float, count: int) -> float:
    """Return the probability that Student's t is greater than distance / error, for `count` differences."""
    if error == 0:
        return 0.0 if distance > 0 else 0.5 if distance == 0 else 1.0
    return float(stats.t.sf(distance / error, count - 1))


def holm(probabilities: Sequence[float]) -> list[float]:
    """Return p-values with Holm's correction, which limits the probability of any wrong claim.

    Source: S. Holm, Scand. J. Stat. 6 (1979), 65.

    >>> holm([0.01, 0.04, 0.03, 0.9, 0.005])
    [0.04, 0.09, 0.09, 0.9, 0.025]
    """
    corrected, highest = [0.0] * len(probabilities), 0.0
    for rank, at in enumerate(sorted(range(len(probabilities)), key=probabilities.__getitem__)):
        highest = max(highest, min(1.0, (len(probabilities) - rank) * probabilities[at]))
        corrected[at] = highest
    return corrected


def verdict_of(
    found: Difference, corrected: float, *, direction: Direction, delta: float
) -> Verdict:
    """Decide on a claim from its difference and its corrected p-value.

    At least MIN_SEEDS seeds are needed.
    """
    if found.seeds < MIN_SEEDS:
        return "none"
    return _judged(found, corrected, direction=direction, delta=delta)


def is_confirmed(found: Difference, *, direction: Direction, delta: float) -> bool:
    """Return True if the difference of a control is as expected. Any number of seeds is enough."""
    return _judged(found, found.p, direction=direction, delta=delta) == "confirmed"


def _judged(found: Difference, p: float, *, direction: Direction, delta: float) -> Verdict:
    claimed = -found.mean if direction == "lower" else found.mean
    if p < LEVEL and claimed >= delta:
        return "confirmed"
    if p < LEVEL and claimed <= -delta:
        return "contradicted"
    return "not seen" if found.p_within < LEVEL else "too small to tell"


def seeds_needed(found: Difference, *, delta: float, claims: int) -> int | None:
    """Estimate how many seeds would decide a claim if more seeds gave the same mean and deviation.

    A mean of at least delta is decided once its corrected p-value, for `claims` claims, is below LEVEL. A
    smaller mean is decided once both one-sided tests against ±delta are significant. A mean of exactly delta
    is never decided. The result is None if more than MAX_NEEDED seeds are needed.
    """
    for count in range(max(found.seeds, MIN_SEEDS), MAX_NEEDED + 1):
        error = found.deviation / math.sqrt(count)
        distance = abs(found.mean) if abs(found.mean) >= delta else delta - abs(found.mean)
        tail = _beyond(distance, error, count)
        p = 2 * tail * claims if abs(found.mean) >= delta else tail
        if p < LEVEL:
            return count
    return None
