"""Numbers and times as text: one rule for durations and one for intervals, in whatever place shows them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.inspection.formats import TOO_FEW, duration, interval
from curriculum.train import export
from tests import factories

UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


@given(st.floats(min_value=1e-3, max_value=1e9))
def test_a_duration_has_at_most_two_units_and_is_near_the_time_itself(seconds: float) -> None:
    said = duration(seconds)
    parts = re.fullmatch(r"([\d.]+) (ms|s|min|h|d)(?: (\d+) (s|min|h))?", said)
    assert parts is not None, said
    amounts = [(float(parts[1]), parts[2])] + ([(float(parts[3]), parts[4])] if parts[3] else [])
    assert sum(amount * UNITS[unit] for amount, unit in amounts) <= seconds * 1.5
    smallest = UNITS[amounts[-1][1]] if len(amounts) == 2 else UNITS[amounts[0][1]]
    assert abs(sum(amount * UNITS[unit] for amount, unit in amounts) - seconds) <= max(
        smallest, UNITS[amounts[0][1]] / 60 if len(amounts) == 1 and seconds >= 60 else 0
    )


def test_a_duration_is_never_ten_of_a_second_with_a_fraction() -> None:
    assert [duration(each) for each in (9.94, 9.96, 59.6)] == ["9.9 s", "10 s", "1 min"]


@pytest.mark.parametrize(
    ("documents", "lineages", "is_sure"), [(8, 4, True), (7, 7, False), (300, 3, False)]
)
def test_a_figure_of_fewer_than_8_documents_of_4_lineages_is_too_few_to_tell(
    documents: int, lineages: int, is_sure: bool
) -> None:
    figure = factories.figure(2.0, low=1.9, high=2.1, documents=documents, lineages=lineages)
    assert figure.is_sure == is_sure
    said = interval(figure.low, figure.high, is_sure=figure.is_sure)
    assert (said == TOO_FEW) is not is_sure


def test_an_exported_model_card_has_the_same_intervals() -> None:
    for figure in (
        factories.figure(2.0, low=1.9, high=2.1),
        factories.figure(2.0, low=1.9, high=2.1, documents=7),
    ):
        said = interval(figure.low, figure.high, is_sure=figure.is_sure)
        assert export._interval(figure) == said
