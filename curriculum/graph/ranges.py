"""Ranges of bytes that are sorted and disjoint."""

from bisect import bisect_right
from collections.abc import Sequence

from curriculum.graph.facts import Range

_FAR = 1 << 62


def is_in(place: int, ranges: Sequence[Range]) -> bool:
    """Whether a place lies in one of the ranges, by bisection.

    >>> is_in(1, [Range(0, 2), Range(4, 6)]), is_in(2, [Range(0, 2), Range(4, 6)])
    (True, False)
    """
    around = bisect_right(ranges, (place, _FAR)) - 1
    return around >= 0 and place < ranges[around].end
