from collections.abc import Mapping

from curriculum.train.evaluation_sets import (
    LEAST_POSITIONS,
    MOST_POSITIONS,
    positions_read,
    within,
)
from schemas.job import Evaluation, EvaluationStratum, RowsSource


def a_set(
    rows: Mapping[str, int],
    *,
    name: str = "phase",
    objective: str = "causal",
    domain: str = "templates",
    row_length: int = 512,
) -> Evaluation:
    """A set with a stratum for each key of rows and its positions."""
    strata = tuple(
        EvaluationStratum(
            family=f"family-{key[-1]}",
            objective=objective,
            domain=domain,
            weight=1 / len(rows),
            rows=RowsSource(key=key, content="", path=key, row_length=row_length),
            positions=positions,
        )
        for key, positions in rows.items()
    )
    return Evaluation(set=name, phase="syntax", max_positions=MOST_POSITIONS, strata=strata)


def test_the_sets_of_a_phase_read_no_more_than_its_part_of_the_budget() -> None:
    sets = [a_set({"a": 100_352, "b": 30_720}), a_set({"a": 100_352}, name="causal")]
    for most, limit, read in (
        (131_072, 131_072, 131_072),
        (131_071, 65_536, 96_256),
        (65_536, 32_768, 63_488),
        (20_000, 8192, 16_384),
        (4096, 2048, 4096),
    ):
        limited = within(sets, most)
        assert {each.max_positions for each in limited} == {limit}
        assert positions_read(limited) == read
    assert within(sets, 10**9) == sets, "a large budget has the largest limit"


def test_budgets_that_are_nearly_the_same_have_the_same_rows() -> None:
    sets = [a_set({"a": 100_352, "b": 30_720})]
    assert within(sets, 40_000) == within(sets, 60_000)
    assert within(sets, 40_000) != within(sets, 70_000)


def test_a_limit_has_an_end_and_leaves_one_whole_row() -> None:
    (short,) = within([a_set({"a": 100_352})], 0)
    assert (short.max_positions, short.strata[0].positions) == (LEAST_POSITIONS, LEAST_POSITIONS)
    (long,) = within([a_set({"a": 131_072}, row_length=65_536)], 0)
    assert long.strata[0].positions == 65_536


def test_rows_that_several_sets_ask_for_are_read_once() -> None:
    whole = a_set({"targets-4": 8192}, objective="target")
    target = a_set({"targets-4": 8192}, name="target", objective="target")
    assert positions_read([whole, target]) == positions_read([whole]) == 8192
    elsewhere = a_set({"targets-4": 8192}, name="target", objective="target", domain="math")
    assert positions_read([whole, elsewhere]) == 16_384
    fim = a_set({"fim-4": 8192}, name="fim", objective="fim")
    assert positions_read([whole, fim]) == 16_384
