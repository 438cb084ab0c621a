"""Shares that give way to what there is."""

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from schemas.mixture import cut_to

PARTS = st.lists(st.tuples(st.integers(1, 100), st.floats(0.01, 2.0)), min_size=1, max_size=8)


@given(PARTS)
def test_no_share_is_above_what_there_is_and_together_they_are_the_whole(
    parts: list[tuple[int, float]],
) -> None:
    asked, most = [part for part, _ in parts], [limit for _, limit in parts]
    assume(math.fsum(most) >= 1.001)
    wanted = [part / sum(asked) for part in asked]
    served = cut_to(wanted, most)
    assert math.fsum(served) == 1 or math.isclose(math.fsum(served), 1)
    assert all(share <= limit * (1 + 1e-9) for share, limit in zip(served, most, strict=True))


@given(PARTS)
def test_what_is_not_cut_is_raised_alike(parts: list[tuple[int, float]]) -> None:
    asked, most = [part for part, _ in parts], [limit for _, limit in parts]
    assume(math.fsum(most) >= 1.001)
    wanted = [part / sum(asked) for part in asked]
    served = cut_to(wanted, most)
    raised = [
        share / want
        for share, want, limit in zip(served, wanted, most, strict=True)
        if share < limit
    ]
    assert all(math.isclose(each, raised[0], rel_tol=1e-6) for each in raised)
    assert all(each >= 1 - 1e-9 for each in raised)
