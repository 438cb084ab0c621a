from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.blank import may_hold

Truth = Literal["T", "F", "U"]
Judged = tuple[str, Truth]
"""A condition and whether it holds; U where that can't be known."""
ATOMS: list[Judged] = [
    ("1", "T"),
    ("0", "F"),
    ("defined(_WIN32)", "F"),
    ("defined __linux__", "T"),
    ("__cplusplus >= 201703L", "T"),
    ("2 < 1", "F"),
    ("FEATURE", "U"),
    ("HAS(x)", "U"),
    ("defined ( FEATURE )", "U"),
]
ORDER = "FUT"


def negated(one: Judged) -> Judged:
    return f"!({one[0]})", {"T": "F", "F": "T", "U": "U"}[one[1]]  # type: ignore[return-value]


def both(one: Judged, other: Judged) -> Judged:
    least: Truth = min(one[1], other[1], key=ORDER.index)
    return f"({one[0]}) && ({other[0]})", least


def either(one: Judged, other: Judged) -> Judged:
    most: Truth = max(one[1], other[1], key=ORDER.index)
    return f"({one[0]}) || ({other[0]})", most


conditions: st.SearchStrategy[Judged] = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        inner.map(negated),
        st.tuples(inner, inner).map(lambda two: both(*two)),
        st.tuples(inner, inner).map(lambda two: either(*two)),
    ),
    max_leaves=8,
)


@given(conditions)
def test_only_what_is_surely_false_is_left_out(judged: Judged) -> None:
    condition, truth = judged
    assert may_hold("if", condition, "cpp") == (truth != "F" or len(condition) > 500)


@given(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=5), st.data())
def test_and_binds_before_or_without_parentheses(atoms: list[Judged], draw: st.DataObject) -> None:
    signs = [draw.draw(st.sampled_from(["&&", "||"])) for _ in atoms[1:]]
    groups: list[list[Truth]] = [[atoms[0][1]]]
    text = atoms[0][0]
    for sign, (condition, truth) in zip(signs, atoms[1:], strict=True):
        text += f" {sign} {condition}"
        if sign == "||":
            groups.append([])
        groups[-1].append(truth)
    best = max((min(group, key=ORDER.index) for group in groups), key=ORDER.index)
    assert may_hold("if", text, "cpp") == (best != "F")


@given(st.text(max_size=60) | st.text("()!&|TFU01 <>=", max_size=30))
def test_any_text_is_judged(condition: str) -> None:
    assert may_hold("if", condition, "cpp") in (True, False)
    assert may_hold("ifndef", condition, "c") in (True, False)


@pytest.mark.parametrize(
    ("directive", "condition", "holds"),
    [
        ("ifdef", "_MSC_VER", False),
        ("ifndef", "_MSC_VER", True),
        ("ifndef", "__GNUC__", False),
        ("elifndef", "__linux__ // here", False),
        ("ifdef", "", True),
        ("if", "", True),
        ("if", "_MSC_VER >= 1900", False),
        ("if", "0x1F", True),
        ("if", "X == 0", True),
        ("if", "0 == X && 0", True),
        ("if", "!!0", False),
        ("if", "true && !false", True),
        ("if", "false", False),
        ("if", "__has_include(<a/b.h>) || 0", True),
        ("if", "0 && " + "A && " * 100 + "A", True),
        ("if", "!" * 400 + "0", False),
    ],
)
def test_conditions_are_judged_as_on_linux(directive: str, condition: str, holds: bool) -> None:
    assert may_hold(directive, condition, "cpp") == holds


def test_c_has_no_cplusplus() -> None:
    assert not may_hold("if", "__cplusplus > 199711L", "c")
    assert not may_hold("if", "defined(__cplusplus)", "c")
    assert may_hold("ifndef", "__cplusplus", "c")
