import itertools
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import (
    MAX_GROUP_BYTES,
    MIN_GROUP_BYTES,
    LineRanges,
    group_lines,
    inner_lines,
    line_starts,
    merge_ranges,
    size_of,
    subtract_ranges,
)

RANGES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 6)).map(lambda each: Range(each[0], sum(each))),
    max_size=8,
)


def numbers(ranges) -> set[int]:
    return {at for start, end in ranges for at in range(start, end)}


@given(ranges=RANGES)
def test_joined_ranges_have_the_same_bytes_with_gaps_between_them(ranges):
    found = merge_ranges(ranges)
    assert numbers(found) == numbers(ranges)
    assert size_of(found) == len(numbers(ranges))
    assert all(one.end < later.start for one, later in itertools.pairwise(found))


@given(ranges=RANGES, others=RANGES)
def test_without_takes_away_just_those_bytes(ranges, others):
    left = subtract_ranges(merge_ranges(ranges), merge_ranges(others))
    assert numbers(left) == numbers(ranges) - numbers(others)
    assert subtract_ranges(left, merge_ranges(others)) == left


@given(added=st.lists(RANGES, max_size=5), asked=RANGES)
def test_lines_miss_what_was_never_added(added, asked):
    lines = LineRanges()
    for ranges in added:
        lines.add(ranges)
    whole = [each for ranges in added for each in ranges]
    assert lines.missing(merge_ranges(asked)) == subtract_ranges(
        merge_ranges(asked), merge_ranges(whole)
    )


def test_a_body_on_one_line_has_no_inner_lines():
    data = b"int f() { return 1; }\nint g() {\n}\n"
    assert size_of([inner_lines(data, Range(8, 21))]) == 0
    assert size_of([inner_lines(data, Range(30, 33))]) == 0


TEXTS = st.lists(st.sampled_from([b"", b"", b"x", b"y" * 300, b" "]), max_size=60).map(b"\n".join)


def groups_of(data: bytes) -> list[tuple[int, int]]:
    starts = line_starts(data)
    return list(group_lines(starts, np.diff(starts) == 1, 0, len(starts) - 1))


@given(TEXTS)
def test_groups_tile_the_lines(data: bytes) -> None:
    groups = groups_of(data)
    lines = len(line_starts(data)) - 1
    assert lines == len(data.decode().removesuffix("\n").split("\n")) * bool(data)
    assert [begin for begin, _ in groups] == [0, *(end for _, end in groups)][: len(groups)]
    assert (groups[-1][1] if groups else 0) == lines
    assert all(begin < end for begin, end in groups)


@given(TEXTS)
def test_all_groups_but_the_last_are_large_enough_and_end_with_a_blank_line(data: bytes) -> None:
    starts = line_starts(data)
    for (begin, end), _ in pairwise(groups_of(data)):
        size = starts[end] - starts[begin]
        assert size >= MIN_GROUP_BYTES
        assert data[: starts[end]].endswith(b"\n\n") or size > MAX_GROUP_BYTES - 302


def test_a_table_without_blank_lines_is_cut_at_lines() -> None:
    data = b"0x00, 0x01,\n" * 5_000
    groups = groups_of(data)
    assert len(groups) > 5
    assert all((end - begin) * 12 <= MAX_GROUP_BYTES for begin, end in groups)


def test_a_line_longer_than_a_group_stands_alone() -> None:
    assert groups_of(b"a\n" + b"x" * 20_000 + b"\nb\n") == [(0, 1), (1, 2), (2, 3)]
