"""Memoized results equal those computed from scratch, and are computed again only after a change."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph import memo as module
from curriculum.graph.memo import Memo, derived, tracked

Formulas = tuple[tuple[int, int, int], ...]
"""Cells that each cell reads: the second if the first is even, else the third."""


@dataclass(eq=False)
class Spreadsheet:
    """Numbers, and cells over them; cells below zero are numbers, which may be missing."""

    formulas: Formulas
    numbers: Mapping[int, int]
    memo: Memo = field(default_factory=Memo)
    computed: Counter[int] = field(default_factory=Counter)

    def step(self, numbers: Mapping[int, int]) -> None:
        self.numbers = numbers
        self.memo.advance()

    @tracked
    def known(self) -> frozenset[int]:
        return frozenset(self.numbers)

    @tracked
    def number(self, at: int) -> int:
        return self.numbers[at]

    @derived
    def value_at(self, at: int) -> int:
        """Return the cell's value; whether the formula reads a cell depends on another cell."""
        self.computed[at] += 1
        if at < 0:
            return self.number(at) if at in self.known() else 0
        first, second, third = (min(each, at - 1) for each in self.formulas[at])
        return (
            self.value_at(second) + 1
            if self.value_at(first) % 2 == 0
            else self.value_at(third) // 2
        )


CELLS = st.integers(-4, 8)
FORMULAS = st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=8, max_size=8).map(tuple)
NUMBERS = st.dictionaries(st.integers(-4, -1), st.integers(0, 3))


@given(
    formulas=FORMULAS,
    steps=st.lists(st.tuples(NUMBERS, st.lists(st.integers(0, 7), max_size=4)), max_size=8),
)
def test_memoized_results_equal_those_computed_from_scratch(
    formulas: Formulas, steps: list[tuple[dict[int, int], list[int]]]
) -> None:
    sheet = Spreadsheet(formulas, {})
    for numbers, asked in steps:
        sheet.step(numbers)
        for at in asked:
            assert sheet.value_at(at) == Spreadsheet(formulas, numbers).value_at(at)
            assert sheet.value_at(at) == sheet.value_at(at)


CHAIN: Formulas = ((-1, -2, -3), (-4, 0, 0), (1, 1, 1))


def test_a_result_without_a_changed_dependency_is_not_computed_again() -> None:
    sheet = Spreadsheet(CHAIN, {-1: 0, -2: 2, -3: 9, -4: 0})
    assert sheet.value_at(2) == 5
    once = sheet.computed.copy()
    sheet.step({-1: 0, -2: 2, -3: 1, -4: 0})
    assert sheet.value_at(2) == 5
    assert sheet.computed == once


def test_an_unchanged_result_stops_the_propagation_of_a_change() -> None:
    sheet = Spreadsheet(CHAIN, {-1: 0, -2: 2, -3: 9, -4: 0})
    sheet.value_at(2)
    once = sheet.computed.copy()
    sheet.step({-1: 2, -2: 2, -3: 9, -4: 0})
    sheet.value_at(2)
    assert sheet.computed - once == Counter({-1: 1, 0: 1})


def test_a_removed_input_is_not_read() -> None:
    sheet = Spreadsheet(CHAIN, {-1: 0, -2: 2})
    assert sheet.value_at(0) == 3
    sheet.step({-1: 0})
    assert sheet.value_at(0) == 1


def test_an_error_leaves_the_memo_usable() -> None:
    sheet = Spreadsheet(CHAIN, {-1: 0, -2: 2})
    with pytest.raises(IndexError):
        sheet.value_at(3)
    assert sheet.memo.recording is None
    assert sheet.value_at(2) == 5


def test_results_that_are_unused_for_long_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_DROPPED", 8)
    sheet = Spreadsheet((), {at: at for at in range(-100, 0)})
    for at in range(-100, 0):
        sheet.step({at: at})
        assert sheet.value_at(at) == at
        assert len(sheet.memo.entries) <= 4 * 3 + 3
