from collections.abc import Mapping

from curriculum.packing.held_out_order import MAX_POSITIONS
from curriculum.train.evaluation_sets import (
    MIN_POSITIONS,
    HeldOutSet,
    HeldOutStratum,
    limit_positions,
    positions_read,
)
from schemas.held_out import HeldOutRow
from schemas.job import RowsSource


def a_set(
    rows: Mapping[str, int],
    *,
    name: str = "phase",
    domain: str = "templates",
    row_length: int = 512,
    documents: int = 12,
) -> HeldOutSet:
    """A set with a stratum for each key of rows and its positions; every row has these documents."""
    strata = tuple(
        HeldOutStratum(
            family=f"family-{key[-1]}",
            objective=name,
            domain=domain,
            weight=1 / len(rows),
            rows=RowsSource(key=key, content="", path=key, row_length=row_length),
            order=tuple(
                HeldOutRow(
                    row=row,
                    domain=domain,
                    documents=tuple(f"{row} {at}" for at in range(documents)),
                    lineages=tuple(f"{row} {at}" for at in range(documents)),
                )
                for row in range(positions // row_length)
            ),
        )
        for key, positions in rows.items()
    )
    return HeldOutSet(name=name, phase="syntax", strata=strata, trained_share=None)


def test_the_sets_of_a_phase_read_no_more_than_its_part_of_the_budget() -> None:
    sets = [a_set({"a": 100_352, "b": 30_720}), a_set({"a": 100_352}, name="causal")]
    for most, limit, read in (
        (131_072, 131_072, 131_072),
        (131_071, 65_536, 96_256),
        (65_536, 32_768, 63_488),
        (20_000, 8192, 16_384),
        (4096, 2048, 4096),
    ):
        limited = limit_positions(sets, most)
        assert positions_read(limited) == read
        assert limited == [held_out.limit_positions(limit) for held_out in sets]
    assert limit_positions(sets, 10**9) == limit_positions(sets, 131_072), (
        "a large budget has the largest limit"
    )


def test_budgets_that_are_nearly_the_same_have_the_same_rows() -> None:
    sets = [a_set({"a": 100_352, "b": 30_720})]
    assert limit_positions(sets, 40_000) == limit_positions(sets, 60_000)
    assert limit_positions(sets, 40_000) != limit_positions(sets, 70_000)


def test_a_limit_has_an_end_and_leaves_one_whole_row() -> None:
    (short,) = limit_positions([a_set({"a": 100_352})], 0)
    assert short.strata[0].positions == MIN_POSITIONS
    (long,) = limit_positions([a_set({"a": 131_072}, row_length=65_536)], 0)
    assert long.strata[0].positions == 65_536


def test_a_limit_leaves_documents_enough_to_tell() -> None:
    one_a_row = a_set({"a": 100_352}, documents=1, row_length=1024)
    (found,) = limit_positions([one_a_row], 0)
    assert (found.documents, found.lineages) == (8, 8)
    few = a_set({"a": 6 * 1024}, documents=1, row_length=1024)
    (found,) = limit_positions([few], 0)
    assert found.documents == 2, "where no limit would do, the smallest is taken"
    three = [one_a_row, few, a_set({"c": MAX_POSITIONS})]
    assert [found.documents for found in limit_positions(three, 0)] == [8, 6, 16 * 12]


def test_rows_that_are_longer_than_a_limit_are_documents_enough_to_tell() -> None:
    graphs = a_set({"a": 40 * 65_536}, documents=1, row_length=65_536)
    (found,) = limit_positions([graphs], 0)
    assert (found.documents, found.lineages) == (8, 8)


def test_rows_that_several_sets_ask_for_are_read_once() -> None:
    whole, target = a_set({"targets-4": 8192}), a_set({"targets-4": 8192}, name="target")
    assert positions_read(limit_positions([whole, target], 10**9)) == 8192
    fim = a_set({"fim-4": 8192}, name="fim")
    assert positions_read(limit_positions([whole, fim], 10**9)) == 16_384
