"""Yields of rows beside those of other packings of the same documents."""

import pytest

from curriculum.inspection.row_yields import RowYields
from schemas.reports import DomainRows, RowsReport

PACKED: dict[str, float] = {"first_fit_yield": 0.75, "padded_yield": 0.5}


def domain(rows: int, documents: int, tokens: int, **yields: float) -> DomainRows:
    return DomainRows(
        row_length=100,
        rows=rows,
        documents=documents,
        tokens=tokens,
        pack_yield=tokens / (rows * 100),
        **yields,
    )


def yields_of(rows_if_mixed: int = 0, **domains: DomainRows) -> RowYields:
    found = RowYields.of(RowsReport(domains=domains, rows_if_mixed=rows_if_mixed), 100)
    assert found is not None
    return found


def test_yields_of_domains_are_those_of_their_rows_together() -> None:
    found = yields_of(
        rows_if_mixed=10,
        one=domain(8, 12, 600, **PACKED),
        two=domain(4, 4, 300, first_fit_yield=0.6, padded_yield=0.75),
    )
    assert found.packed == pytest.approx(900 / 1200)
    assert found.lower_bound == pytest.approx(1.0)
    assert found.first_fit == pytest.approx(900 / (600 / 0.75 + 300 / 0.6))
    assert found.padded == pytest.approx(900 / 1600)
    assert found.mixed == pytest.approx(0.9)
    assert "25.0%" in found.causes
    assert "15.0%" in found.causes
    assert "10.0%" in found.causes
    assert "(1.3 documents a row)" in found.causes


def test_rows_that_are_full_need_no_reason() -> None:
    assert yields_of(rows_if_mixed=10, one=domain(10, 200, 990, **PACKED)).causes == ""


def test_yields_that_nobody_counted_are_left_out() -> None:
    """Imported rows were packed elsewhere."""
    found = yields_of(one=domain(10, 20, 800))
    assert found.comparison == "yield 80.0%, lower bound 100.0%"


def test_there_is_nothing_to_say_of_no_rows() -> None:
    assert RowYields.of(RowsReport(), 100) is None
