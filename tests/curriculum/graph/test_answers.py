"""Kept answers are those that are computed anew, and are computed only where something changed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph import answers as module
from curriculum.graph.answers import Answers, answered, read

Formulas = tuple[tuple[int, int, int], ...]
"""By number which cells a cell reads: the second if the first is even, else the third."""


@dataclass(eq=False)
class Sheet:
    """Numbers, and cells over them; cells below zero are numbers, which may be missing."""

    formulas: Formulas
    numbers: Mapping[int, int]
    answers: Answers = field(default_factory=Answers)
    computed: Counter[int] = field(default_factory=Counter)

    def step(self, numbers: Mapping[int, int]) -> None:
        self.numbers = numbers
        self.answers.step()

    @read
    def known(self) -> frozenset[int]:
        return frozenset(self.numbers)

    @read
    def number(self, at: int) -> int:
        return self.numbers[at]

    @answered
    def cell(self, at: int) -> int:
        """Whether its formula reads a cell depends on another one."""
        self.computed[at] += 1
        if at < 0:
            return self.number(at) if at in self.known() else 0
        first, second, third = (min(each, at - 1) for each in self.formulas[at])
        return self.cell(second) + 1 if self.cell(first) % 2 == 0 else self.cell(third) // 2


CELLS = st.integers(-4, 8)
FORMULAS = st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=8, max_size=8).map(tuple)
NUMBERS = st.dictionaries(st.integers(-4, -1), st.integers(0, 3))


@given(
    formulas=FORMULAS,
    steps=st.lists(st.tuples(NUMBERS, st.lists(st.integers(0, 7), max_size=4)), max_size=8),
)
def test_kept_answers_equal_those_that_are_computed_anew(
    formulas: Formulas, steps: list[tuple[dict[int, int], list[int]]]
) -> None:
    sheet = Sheet(formulas, {})
    for numbers, asked in steps:
        sheet.step(numbers)
        for at in asked:
            assert sheet.cell(at) == Sheet(formulas, numbers).cell(at)
            assert sheet.cell(at) == sheet.cell(at)


CHAIN: Formulas = ((-1, -2, -3), (-4, 0, 0), (1, 1, 1))


def test_what_reads_nothing_that_changed_is_not_computed_again() -> None:
    sheet = Sheet(CHAIN, {-1: 0, -2: 2, -3: 9, -4: 0})
    assert sheet.cell(2) == 5
    once = sheet.computed.copy()
    sheet.step({-1: 0, -2: 2, -3: 1, -4: 0})
    assert sheet.cell(2) == 5
    assert sheet.computed == once


def test_an_answer_that_stays_the_same_is_the_end_of_a_change() -> None:
    sheet = Sheet(CHAIN, {-1: 0, -2: 2, -3: 9, -4: 0})
    sheet.cell(2)
    once = sheet.computed.copy()
    sheet.step({-1: 2, -2: 2, -3: 9, -4: 0})
    sheet.cell(2)
    assert sheet.computed - once == Counter({-1: 1, 0: 1})


def test_an_input_that_is_gone_is_not_read() -> None:
    sheet = Sheet(CHAIN, {-1: 0, -2: 2})
    assert sheet.cell(0) == 3
    sheet.step({-1: 0})
    assert sheet.cell(0) == 1


def test_a_failure_leaves_no_trace() -> None:
    sheet = Sheet(CHAIN, {-1: 0, -2: 2})
    with pytest.raises(IndexError):
        sheet.cell(3)
    assert sheet.answers.using is None
    assert sheet.cell(2) == 5


def test_answers_that_nobody_asks_for_any_more_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_DROPPED", 8)
    sheet = Sheet((), {at: at for at in range(-100, 0)})
    for at in range(-100, 0):
        sheet.step({at: at})
        assert sheet.cell(at) == at
        assert len(sheet.answers.kept) <= 4 * 3 + 3
