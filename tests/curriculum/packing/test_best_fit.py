import bisect
from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.packing import best_fit, chop
from schemas.errors import PackError
from tests.error_fields import fields

ROW = 128
LENGTHS = st.lists(st.integers(1, ROW), min_size=1, max_size=150)
SEEDS = st.integers(0, 2**64 - 1)
Int64s = npt.NDArray[np.int64]


def distinct_ties(count: int) -> npt.NDArray[np.uint64]:
    """Ties that differ from one another and rise and fall."""
    return np.random.default_rng(count).permutation(count).astype(np.uint64) * np.uint64(977)


def planned(lengths: list[int], seed: int = 17) -> best_fit.PackPlan:
    return best_fit.plan(np.array(lengths, dtype=np.int64), ROW, distinct_ties(len(lengths)), seed)


def rows_of(plan: best_fit.PackPlan) -> list[list[int]]:
    return [row.tolist() for row in np.split(plan.order, plan.row_starts[1:-1])]


def naive_fills(lengths: list[int]) -> list[int]:
    """Tokens of each row by best-fit-decreasing, document by document."""
    residuals: list[int] = []
    for length in sorted(lengths, reverse=True):
        fits = bisect.bisect_left(residuals, length)
        residual = residuals.pop(fits) if fits < len(residuals) else ROW
        bisect.insort(residuals, residual - length)
    return [ROW - residual for residual in residuals]


def test_five_documents_fill_two_rows_exactly() -> None:
    lengths = np.array([3, 5, 2, 4, 1], dtype=np.int64)
    plan = best_fit.plan(lengths, 8, distinct_ties(5), seed=17)
    assert sorted(map(sorted, rows_of(plan))) == [[0, 1], [2, 3, 4]]
    assert plan.row_starts[-1] == 5


@given(LENGTHS)
def test_rows_are_as_full_as_naive_best_fit_decreasing_makes_them(lengths: list[int]) -> None:
    fills = [sum(lengths[document] for document in row) for row in rows_of(planned(lengths))]
    assert Counter(fills) == Counter(naive_fills(lengths))


@given(st.lists(st.sampled_from([1, 2, 3, 31, 32, 33, 63, 64, 65, 128]), min_size=50, max_size=400))
def test_many_documents_of_few_lengths_are_packed_exactly_too(lengths: list[int]) -> None:
    fills = [sum(lengths[document] for document in row) for row in rows_of(planned(lengths))]
    assert Counter(fills) == Counter(naive_fills(lengths))


@given(LENGTHS, SEEDS)
def test_no_document_is_lost_or_packed_twice_and_no_row_overflows(
    lengths: list[int], seed: int
) -> None:
    rows = rows_of(planned(lengths, seed))
    assert sorted(document for row in rows for document in row) == list(range(len(lengths)))
    assert all(0 < sum(lengths[document] for document in row) <= ROW for row in rows)


@given(LENGTHS, SEEDS, st.randoms(use_true_random=False))
def test_permuting_the_input_permutes_the_plan(
    lengths: list[int], seed: int, random: Random
) -> None:
    shuffle = list(range(len(lengths)))
    random.shuffle(shuffle)
    lengths_array, ties = np.array(lengths, dtype=np.int64), distinct_ties(len(lengths))
    before = best_fit.plan(lengths_array, ROW, ties, seed)
    after = best_fit.plan(lengths_array[shuffle], ROW, ties[shuffle], seed)
    assert np.array_equal(np.array(shuffle)[after.order], before.order)
    assert np.array_equal(after.row_starts, before.row_starts)


def test_another_seed_shuffles_the_same_rows_differently() -> None:
    lengths = np.random.default_rng(3).integers(1, ROW, 500)
    first, again, other = (
        best_fit.plan(lengths, ROW, distinct_ties(500), seed) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.order, again.order)
    assert not np.array_equal(first.order, other.order)
    assert sorted(map(tuple, rows_of(first))) == sorted(map(tuple, rows_of(other)))


def test_rows_are_not_left_in_the_order_of_their_lengths() -> None:
    lengths = np.arange(1, ROW + 1).repeat(10)
    longest = lengths[planned(lengths.tolist()).order][planned(lengths.tolist()).row_starts[:-1]]
    assert len(longest) > 100
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


@pytest.mark.parametrize("row_length", [4096, 16384, 65536])
def test_a_thousandth_of_the_positions_at_most_is_padding(row_length: int) -> None:
    lengths = np.random.default_rng(5).lognormal(5.1, 1.1, 300_000).astype(np.int64) + 1
    lengths = lengths[lengths <= row_length]
    plan = best_fit.plan(lengths, row_length, distinct_ties(len(lengths)), seed=17)
    report = best_fit.report(plan, lengths)
    assert report.pack_yield >= 0.999
    assert report.rows - report.fewest_rows <= (10 if row_length == 4096 else 1)


def test_a_document_longer_than_a_row_is_refused_by_number_and_length() -> None:
    with pytest.raises(PackError, check=fields(name="document 1", value="129 tokens")):
        planned([7, ROW + 1])


@given(LENGTHS, SEEDS)
def test_rows_are_counted_as_a_plan_makes_them(lengths: list[int], seed: int) -> None:
    found = best_fit.rows_needed(np.array(lengths, dtype=np.int64), ROW)
    assert found == planned(lengths, seed).num_rows


@given(LENGTHS)
def test_first_fit_in_order_is_that_of_a_loop(lengths: list[int]) -> None:
    room: list[int] = []
    for length in lengths:
        at = next((row for row, left in enumerate(room) if left >= length), len(room))
        room += [ROW] * (at == len(room))
        room[at] -= length
    assert best_fit.first_fit_rows(np.array(lengths), ROW) == len(room)


@pytest.mark.parametrize("packer", ["best_fit", "rows_needed", "chop", "cut"])
def test_a_document_without_a_token_is_an_error_that_names_it(packer: str) -> None:
    lengths, ties = np.array([7, 0, 3]), distinct_ties(3)
    plans: dict[str, Callable[[], object]] = {
        "best_fit": lambda: best_fit.plan(lengths, ROW, ties, 17),
        "rows_needed": lambda: best_fit.rows_needed(lengths, ROW),
        "chop": lambda: chop.plan(lengths, ROW, ties, 17, with_bos=False),
        "cut": lambda: chop.cut(lengths, ROW, with_bos=True),
    }
    with pytest.raises(PackError) as refused:
        plans[packer]()
    assert (refused.value.name, refused.value.value) == ("document 1", "0 tokens")


def test_no_documents_make_no_rows() -> None:
    plan = planned([])
    assert plan.num_rows == 0
    assert best_fit.report(plan, plan.order).pack_yield == 0.0


def test_rows_longer_than_two_bytes_can_say_are_packed() -> None:
    lengths = np.random.default_rng(5).integers(1, 200_000, 1000)
    plan = best_fit.plan(lengths, 200_000, distinct_ties(1000), seed=17)
    fills = np.add.reduceat(lengths[plan.order], plan.row_starts[:-1])
    assert fills.max() <= 200_000
    assert fills.sum() == lengths.sum()
    rows = [lengths[row].tolist() for row in rows_of(plan)]
    assert all(row == sorted(row, reverse=True) for row in rows)


def test_ties_depend_on_the_document_and_the_seed_alone() -> None:
    ids = np.random.default_rng(2).integers(0, 256, (1000, 16), dtype=np.uint8)
    assert np.array_equal(best_fit.tie_breakers(ids, 5)[::-1], best_fit.tie_breakers(ids[::-1], 5))
    assert len(set(best_fit.tie_breakers(ids, 5)) & set(best_fit.tie_breakers(ids, 6))) == 0
    assert len(set(best_fit.tie_breakers(ids, 5))) == 1000


def test_a_plan_over_a_subset_speaks_of_the_whole() -> None:
    plan = planned([5, 5, 100]).reindex(np.array([4, 9, 11], dtype=np.int64))
    assert sorted(plan.order) == [4, 9, 11]
    assert plan.num_rows == 1


def test_the_report_counts_what_one_by_one_counting_finds() -> None:
    lengths = [1, 5, 1024, 1025, 5000, 20000]
    report = best_fit.report(
        best_fit.plan(np.array(lengths), 20480, distinct_ties(6), seed=1), np.array(lengths)
    )
    assert report.attention_pairs == sum(n * (n + 1) // 2 for n in lengths)
    before = [position for length in lengths for position in range(1, length)]
    edges = (1024, 4096, 16384)
    assert report.context_histogram == tuple(np.bincount(np.searchsorted(edges, before, "right")))
    assert report.documents_per_row == len(lengths) / report.rows
    assert report.padded_yield == sum(lengths) / (6 * 20480)


def test_packing_costs_less_than_padding_as_its_rows_are_fewer() -> None:
    lengths = np.full(32, 4, dtype=np.int64)
    report = best_fit.report(best_fit.plan(lengths, ROW, distinct_ties(32), seed=1), lengths)
    rates = {"positions_per_gpu_second": 128.0, "price_per_gpu_hour": 3600.0}
    assert report.cost(**rates) == 1.0
    assert report.padded_cost(**rates) == 32.0
