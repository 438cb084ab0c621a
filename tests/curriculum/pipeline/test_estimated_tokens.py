"""Tokens of plans over rows that aren't built."""

from dataclasses import replace

import pytest

from curriculum.mixing.repetition import ReadTokens
from curriculum.pipeline.estimated_tokens import EstimatedRows, EstimatedTokens
from curriculum.supply import SupplyLine

LINE = SupplyLine(
    family="v2_simple",
    row_length=100,
    score="all",
    repository="own",
    domain="general",
    tokens=10_000,
    error=0,
    scored=9_000,
    distinct=3_000,
    documents=10,
    shortened=0,
    routed=0,
    held_out=0,
)
NOTHING_BUILT = ReadTokens([], seed=1)


def counted(lines: dict[str, SupplyLine], taken: dict[str, int]) -> tuple[int, int]:
    rows = [EstimatedRows(key=key, row_length=100, lines=(line,)) for key, line in lines.items()]
    drawn = {(key, lines[key].domain): count for key, count in taken.items()}
    found = EstimatedTokens(rows, NOTHING_BUILT).count(drawn)
    return found.scored, found.distinct


@pytest.mark.parametrize(
    ("rows", "scored", "distinct"),
    [(0, 0, 0), (50, 4_500, 1_500), (100, 9_000, 3_000), (400, 36_000, 3_000)],
)
def test_later_passes_over_rows_show_nothing_distinct(
    rows: int, scored: int, distinct: int
) -> None:
    assert counted({"a": LINE}, {"a": rows}) == (scored, distinct)


def test_families_show_the_same_text_of_a_repository_and_domain() -> None:
    other = replace(LINE, family="v3_simple", distinct=2_000)
    assert counted({"a": LINE, "b": other}, {"a": 100, "b": 100}) == (18_000, 3_000)
    half_and_half = 3_000 * (1 - (1 - 0.5) * (1 - 0.5 * 2 / 3))
    assert counted({"a": LINE, "b": other}, {"a": 50, "b": 50}) == (9_000, half_and_half)


def test_domains_show_text_of_their_own() -> None:
    other = replace(LINE, domain="testing", distinct=2_000)
    assert counted({"a": LINE, "b": other}, {"a": 100, "b": 100}) == (18_000, 5_000)
