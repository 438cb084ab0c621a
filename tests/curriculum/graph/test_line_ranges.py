import itertools

from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import Lines, inner_lines, joined, size_of, without

RANGES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 6)).map(lambda each: Range(each[0], sum(each))),
    max_size=8,
)


def numbers(ranges) -> set[int]:
    return {at for start, end in ranges for at in range(start, end)}


@given(ranges=RANGES)
def test_joined_ranges_have_the_same_bytes_with_gaps_between_them(ranges):
    found = joined(ranges)
    assert numbers(found) == numbers(ranges)
    assert size_of(found) == len(numbers(ranges))
    assert all(one.end < later.start for one, later in itertools.pairwise(found))


@given(ranges=RANGES, others=RANGES)
def test_without_takes_away_just_those_bytes(ranges, others):
    left = without(joined(ranges), joined(others))
    assert numbers(left) == numbers(ranges) - numbers(others)
    assert without(left, joined(others)) == left


@given(added=st.lists(RANGES, max_size=5), asked=RANGES)
def test_lines_miss_what_was_never_added(added, asked):
    lines = Lines()
    for ranges in added:
        lines.add(ranges)
    whole = [each for ranges in added for each in ranges]
    assert lines.missing(joined(asked)) == without(joined(asked), joined(whole))


def test_a_body_on_one_line_has_no_inner_lines():
    data = b"int f() { return 1; }\nint g() {\n}\n"
    assert size_of([inner_lines(data, Range(8, 21))]) == 0
    assert size_of([inner_lines(data, Range(30, 33))]) == 0
