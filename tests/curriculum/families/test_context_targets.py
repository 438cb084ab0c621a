from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.families.context_graph import Shares, shared_out, touched_functions
from curriculum.graph.facts import FileFacts, Neighbour, NodeId, Range, SourceFile, Symbol
from curriculum.graph.fragments import Costs, Fragment
from schemas.change import Hunk

TEXT = """\
int a;

// About f.
int f() {
  one();
  struct Local {
    int g() {
      two();
    }
  };
  three();
}
int h() {
  four();
}
int declared();
"""
LINES = TEXT.splitlines(keepends=True)
FUNCTIONS = {"f": (2, 12), "g": (6, 9), "h": (12, 15)}


def offset(line: int) -> int:
    return sum(map(len, LINES[:line]))


def facts() -> FileFacts:
    def symbol(name: str, first: int, last: int, *, has_body: bool = True) -> Symbol:
        start, end = offset(first), offset(last)
        return Symbol(
            kind="function",
            name=name,
            scope=(),
            start=start,
            end=end,
            name_start=TEXT.index(f"{name}()"),
            body=Range(TEXT.index("{", start), end - 1) if has_body else None,
        )

    symbols = [symbol(name, *lines) for name, lines in FUNCTIONS.items()]
    symbols.append(symbol("declared", 15, 16, has_body=False))
    return FileFacts(
        symbols=tuple(symbols),
        calls=(),
        includes=(),
        usings=(),
        num_bytes=len(TEXT),
        error_bytes=0,
        is_complete=True,
    )


def touched(first: int, count: int) -> list[str]:
    hunk = Hunk(before_start=first, before_lines=1, after_start=first, after_lines=count)
    return [facts().symbols[number].name for number in touched_functions(facts(), TEXT, [hunk])]


@pytest.mark.parametrize(
    ("first", "count", "names"),
    [
        (0, 1, []),
        (1, 1, []),
        (2, 1, ["f"]),
        (4, 1, ["f"]),
        (7, 1, ["g"]),
        (8, 3, ["f", "g"]),
        (11, 1, ["f"]),
        (11, 2, ["f", "h"]),
        (15, 1, []),
        (0, 16, ["f", "g", "h"]),
    ],
)
def test_a_hunk_touches_the_innermost_function_of_each_of_its_lines(first, count, names):
    assert touched(first, count) == names


@pytest.mark.parametrize(
    ("before", "names"),
    [
        (0, []),
        (2, []),
        (3, ["f"]),
        (5, ["f"]),
        (7, ["g"]),
        (8, ["g"]),
        (9, ["f"]),
        (11, ["f"]),
        (12, []),
        (15, []),
        (16, []),
    ],
)
def test_lines_that_were_only_taken_away_touch_the_function_in_which_they_stood(before, names):
    assert touched(before, 0) == names


COSTS = Costs(lead=lambda _: 10, gap=7)


@dataclass
class Joined:
    """Edges between functions of one file or of two, and nothing else."""

    pairs: list[tuple[NodeId, NodeId]]

    def paths(self) -> list[str]:
        return []

    def source(self, path: str) -> SourceFile:
        raise KeyError(path)

    def neighbours(self, node: NodeId) -> list[Neighbour]:
        others = [b if a == node else a for a, b in self.pairs if node in (a, b)]
        return [Neighbour(other, "calls", True, "syntactic", 1.0) for other in others]


def fragments(path: str, sizes: list[int]) -> list[Fragment]:
    return [
        Fragment(
            node=NodeId(path, number),
            form="whole",
            ranges=(Range(number * 1_000, number * 1_000 + size),),
            hop=0,
            via=None,
        )
        for number, size in enumerate(sizes)
    ]


def numbers(shares: Shares) -> list[list[tuple[str, int]]]:
    return [[(each.node.path, each.node.number) for each in group] for group in shares.groups]


def test_targets_that_fit_are_one_group():
    shares = shared_out(fragments("a", [90]) + fragments("b", [90]), Joined([]), COSTS, 200)
    assert numbers(shares) == [[("a", 0), ("b", 0)]]


def test_targets_over_the_budget_are_divided_by_file():
    targets = fragments("a", [90]) + fragments("b", [40, 40])
    shares = shared_out(targets, Joined([]), COSTS, 196)
    assert numbers(shares) == [[("a", 0)], [("b", 0), ("b", 1)]]


def test_functions_that_call_each_other_stay_together_where_they_fit():
    targets = fragments("a", [40, 40, 40, 40])
    apart = [(NodeId("a", 0), NodeId("a", 3)), (NodeId("a", 1), NodeId("a", 2))]
    shares = shared_out(targets, Joined(apart), COSTS, 100)
    assert numbers(shares) == [[("a", 0), ("a", 3)], [("a", 1), ("a", 2)]]
    chain = [(NodeId("a", n), NodeId("a", n + 1)) for n in range(3)]
    cut = shared_out(targets, Joined(chain), COSTS, 150)
    assert numbers(cut) == [[("a", 0), ("a", 1), ("a", 2)], [("a", 3)]]


def test_a_function_over_the_budget_is_counted_and_left_out():
    shares = shared_out(fragments("a", [40, 500]), Joined([]), COSTS, 100)
    assert (numbers(shares), shares.too_large) == ([[("a", 0)]], 1)
    assert shared_out(fragments("a", [500]), Joined([]), COSTS, 100).groups == ()


@given(
    sizes=st.lists(st.integers(1, 120), min_size=1, max_size=20),
    pairs=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=15),
    room=st.integers(20, 300),
)
def test_every_function_that_fits_is_in_one_group_and_every_group_fits(sizes, pairs, room):
    targets = fragments("a", sizes[::2]) + fragments("b", sizes[1::2])
    graph = Joined([(NodeId("a", first), NodeId("a", last)) for first, last in pairs])
    shares = shared_out(targets, graph, COSTS, room)
    shown = [each.node for group in shares.groups for each in group]
    assert sorted(shown) == [each.node for each in targets if COSTS.of(each) <= room]
    assert len(shown) + shares.too_large == len(targets)
    assert all(0 < COSTS.of_all(group) <= room for group in shares.groups)
