from hypothesis import given
from hypothesis import strategies as st

from curriculum.families.v6_enriched import levels

Graph = tuple[int, list[tuple[int, int]]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 8))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node), max_size=16))


def slow_levels(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """By closure: nodes that reach each other are one; then breadth first from the leaves."""
    reach = [[a == b or (a, b) in edges for b in range(count)] for a in range(count)]
    for middle in range(count):
        for a in range(count):
            for b in range(count):
                reach[a][b] |= reach[a][middle] and reach[middle][b]
    group = [
        frozenset(b for b in range(count) if reach[a][b] and reach[b][a]) for a in range(count)
    ]
    found: dict[frozenset[int], int] = {}
    level = 0
    while len(found) < len(set(group)):
        for each in set(group) - found.keys():
            out = {group[b] for a, b in edges if a in each} - {each}
            if not out if level == 0 else any(found.get(other) == level - 1 for other in out):
                found[each] = level
        level += 1
    return [found[each] for each in group]


@given(graphs())
def test_levels_are_the_shortest_ways_to_a_leaf(graph: Graph) -> None:
    assert levels(*graph) == slow_levels(*graph)


def test_functions_that_call_each_other_count_as_one() -> None:
    assert levels(5, [(0, 1), (1, 2), (2, 1), (2, 3), (4, 4)]) == [2, 1, 1, 0, 0]


def test_of_two_ways_the_shorter_counts() -> None:
    assert levels(4, [(0, 1), (1, 2), (2, 3), (0, 3)]) == [1, 2, 1, 0]


def test_a_chain_of_any_length_has_levels() -> None:
    count = 100_000
    assert levels(count, ((i, i + 1) for i in range(count - 1))) == list(range(count))[::-1]
