import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.nodes import deepest, follow


@st.composite
def nested(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], int]:
    """Nested ranges (start, end, parent) in preorder, and a size; some are empty."""
    size = draw(st.integers(1, 24))
    ranges: list[tuple[int, int, int]] = []

    def fill(start: int, end: int, parent: int, depth: int) -> None:
        place = start
        while place < end and draw(st.booleans()):
            first = draw(st.integers(place, end))
            last = draw(st.integers(first, end))
            ranges.append((first, last, parent))
            if depth:
                fill(first, last, len(ranges) - 1, depth - 1)
            place = last

    fill(0, size, -1, 4)
    return ranges, size


@given(nested())
def test_the_deepest_is_what_a_painter_leaves_on_top(
    drawn: tuple[list[tuple[int, int, int]], int],
) -> None:
    ranges, size = drawn
    painted = [-1] * size
    for number, (start, end, _) in enumerate(ranges):
        painted[start:end] = [number] * (end - start)
    table = np.array(ranges, dtype=np.int32).reshape(-1, 3)
    assert deepest(table[:, 0], table[:, 1], table[:, 2], size).tolist() == painted


def test_the_painter_s_ranges_are_not_all_trivial() -> None:
    ranges = np.array([[0, 6, -1], [0, 2, 0], [1, 2, 1], [2, 2, 0], [4, 6, 0], [5, 6, 4]])
    table = ranges.astype(np.int32)
    found = deepest(table[:, 0], table[:, 1], table[:, 2], 7)
    assert found.tolist() == [1, 2, 0, 0, 4, 5, -1]


@given(st.lists(st.integers(0, 10_000), max_size=60))
def test_follow_ends_where_walking_does(drawn: list[int]) -> None:
    links = [number % (place + 1) for place, number in enumerate(drawn)]
    wanted = []
    for place in range(len(links)):
        while links[place] != place:
            place = links[place]
        wanted.append(place)
    assert follow(np.array(links, dtype=np.int32)).tolist() == wanted


@pytest.mark.parametrize("length", [1, 2, 3, 100_000])
def test_follow_takes_chains_of_any_length(length: int) -> None:
    links = np.maximum(np.arange(length, dtype=np.int32) - 1, 0)
    assert not follow(links).any()
