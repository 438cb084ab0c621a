import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.mixing.schedule import (
    GROUP_POSITIONS,
    LOCAL_ABOVE,
    WINDOW,
    RowOrder,
    blocks,
    counts,
    local_order,
    rates,
)
from schemas.mixture import BLOCK_SLOTS


def order_of(rows: int, *, seed: int, name: str, start: int = 0) -> RowOrder:
    """Return the row order of a single variant."""
    return RowOrder([rows], seed=seed, names=[name], seen=[start])


weights = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12)


@given(weights, st.integers(0, 2**40))
def test_each_block_holds_the_exact_count_of_each_stratum_give_or_take_one(
    shares: list[float], seed: int
) -> None:
    exact = BLOCK_SLOTS * np.array(shares) / sum(shares)
    total = np.zeros(len(shares))
    for number, block in enumerate(itertools.islice(blocks(rates(shares), seed=seed), 8), 1):
        found = np.bincount(block, minlength=len(shares))
        assert found.sum() == BLOCK_SLOTS
        assert (np.abs(found - exact) < 1 + 1e-6).all()
        total += found
        assert (np.abs(total - number * exact) < 2).all()


@given(weights, st.integers(0, 2**40), st.integers(1, 3 * BLOCK_SLOTS))
def test_any_prefix_is_mixed_right(shares: list[float], seed: int, length: int) -> None:
    slots = np.concatenate(list(itertools.islice(blocks(rates(shares), seed=seed), 3)))[:length]
    share = np.array(shares) / sum(shares)
    found = np.bincount(slots, minlength=len(shares))
    assert (np.abs(found - length * share) <= 3 + len(shares) * share).all()


def test_what_a_block_rounds_off_is_made_up_for_over_a_long_plan() -> None:
    shares = [1e-4, 0.3333, 0.6666]
    total = np.sum(list(itertools.islice(counts(rates(shares)), 5000)), axis=0)
    assert (np.abs(total - 5000 * BLOCK_SLOTS * np.array(shares)) < 2).all()
    assert total[0] == pytest.approx(512, abs=1)


def test_rates_sum_to_a_whole_block_whatever_the_weights() -> None:
    for shares in ([1.0], [0.1] * 7, [1e-300, 1.0], [3.0, 1e6, 1 / 3]):
        assert rates(shares).sum() == BLOCK_SLOTS << 32
    assert (rates([2.0, 1.0, 1.0]) >> 32).tolist() == [512, 256, 256]


def test_the_order_of_slots_depends_on_the_seed_and_the_block() -> None:
    first, second = itertools.islice(blocks(rates([1.0, 1.0]), seed=1), 2)
    again = next(blocks(rates([1.0, 1.0]), seed=1))
    other = next(blocks(rates([1.0, 1.0]), seed=2))
    assert (first == again).all()
    assert not (first == second).all()
    assert not (first == other).all()


def test_slots_of_a_stratum_do_not_come_in_a_fixed_beat() -> None:
    block = next(blocks(rates([1.0, 3.0]), seed=5))
    gaps = Counter(np.diff(np.flatnonzero(block == 0)).tolist())
    assert len(gaps) > 3


@given(
    st.integers(1, 40),
    st.lists(st.integers(1, 30), min_size=1, max_size=12),
    st.integers(0, 100),
)
def test_no_row_comes_again_before_all_were_seen(rows: int, takes: list[int], start: int) -> None:
    order = order_of(rows, seed=3, name="v3", start=start)
    taken = [order.take(count) for count in takes]
    indices = np.concatenate([drawn.index for drawn in taken])
    repetitions = np.concatenate([drawn.repetition for drawn in taken])
    assert repetitions.tolist() == [(start + at) // rows for at in range(len(indices))]
    for repetition in set(repetitions.tolist()):
        seen = indices[repetitions == repetition]
        assert len(set(seen.tolist())) == len(seen)
    whole = start // rows + 1
    if (repetitions > whole).any():
        assert sorted(indices[repetitions == whole].tolist()) == list(range(rows))


def test_each_repetition_is_shuffled_anew_and_each_stratum_otherwise() -> None:
    order = order_of(100, seed=3, name="v3")
    first, second = order.take(100).index, order.take(100).index
    other = order_of(100, seed=3, name="v2").take(100).index
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(100))
    assert first.tolist() != second.tolist()
    assert first.tolist() != other.tolist()
    assert first.tolist() != sorted(first.tolist())


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(0, 60))
def test_rows_do_not_depend_on_how_they_are_taken(takes: list[int], start: int) -> None:
    order = order_of(13, seed=1, name="v3", start=start)
    pieces = np.concatenate([order.take(count).index for count in takes])
    at_once = order_of(13, seed=1, name="v3", start=start).take(sum(takes)).index
    from_zero = order_of(13, seed=1, name="v3").take(start + sum(takes)).index[start:]
    assert pieces.tolist() == at_once.tolist() == from_zero.tolist()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 90))
def test_a_repetition_reads_the_variant_that_comes_next(sizes: list[int], count: int) -> None:
    """Variants may have other numbers of rows; each pass reads all rows of one."""
    names = [f"variant {at}" for at in range(len(sizes))]
    drawn = RowOrder(sizes, seed=5, names=names, seen=[0] * len(sizes)).take(count)
    assert (drawn.variant == drawn.repetition % len(sizes)).all()
    for repetition in range(int(drawn.repetition[-1])):
        seen = drawn.index[drawn.repetition == repetition]
        assert sorted(seen.tolist()) == list(range(sizes[repetition % len(sizes)]))
    assert (np.diff(drawn.repetition) >= 0).all()


@given(st.lists(st.integers(1, 9), min_size=2, max_size=4), st.integers(0, 60), st.integers(1, 60))
def test_a_plan_goes_on_where_one_of_fewer_variants_ended(
    sizes: list[int], before: int, count: int
) -> None:
    """Rows that the earlier plan didn't read come first: no row repeats before all rows were read."""
    names = [f"variant {at}" for at in range(len(sizes))]
    first = RowOrder(sizes[:1], seed=5, names=names[:1], seen=[0])
    seen = [0] * len(sizes)
    if before:
        seen[0] = len(first.take(before).index)
    later = RowOrder(sizes, seed=5, names=names, seen=seen).take(count)
    whole = seen[0] // sizes[0]
    if whole:
        head = sum(sizes[1:])
        assert set(later.variant[:head].tolist()) <= set(range(1, len(sizes)))
    all_at_once = RowOrder(sizes[:1], seed=5, names=names[:1], seen=[0])
    if not whole and before:
        rest = all_at_once.take(sizes[0]).index[before:]
        assert later.index[: len(rest)].tolist() == rest[:count].tolist()


def test_the_order_is_pinned() -> None:
    """A change of these numbers changes every plan: raise mix.REVISION with it."""
    assert order_of(8, seed=17, name="golden").take(10).index.tolist() == [
        4,
        3,
        0,
        2,
        1,
        6,
        5,
        7,
        1,
        4,
    ]
    assert next(blocks(rates([1.0, 2.0, 5.0]), seed=17))[:16].tolist() == [
        2,
        1,
        2,
        2,
        2,
        1,
        2,
        0,
        2,
        0,
        2,
        1,
        2,
        2,
        1,
        2,
    ]


@given(
    st.lists(st.tuples(st.floats(0.05, 1.0), st.integers(1, 6)), min_size=2, max_size=4),
    st.integers(0, 2**40),
    st.integers(1, 200),
)
def test_a_short_prefix_is_mixed_right_by_group(
    made: list[tuple[float, int]], seed: int, length: int
) -> None:
    """Strata of a group may be too small to have a slot each; the group has its share all the same."""
    groups = [at for at, (_, strata) in enumerate(made) for _ in range(strata)]
    shares = [share / strata for share, strata in made for _ in range(strata)]
    slots = next(blocks(rates(shares), seed=seed, groups=groups))
    assert sorted(slots.tolist()) == sorted(next(blocks(rates(shares), seed=seed)).tolist())
    found = np.bincount(np.array(groups)[slots[:length]], minlength=len(made))
    share = np.array([share for share, _ in made]) / sum(share for share, _ in made)
    assert (np.abs(found - length * share) <= 2 + 1e-6).all()


def test_rows_of_a_window_come_before_any_others() -> None:
    words = np.array([5, 2, 8, 1, 3], dtype=np.uint64)
    assert local_order(words, 2, 1).tolist() == [4, 1, 0, 3, 2]
    assert local_order(words, 2, 9).tolist() == np.argsort(words).tolist()


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**32))
def test_a_local_order_takes_each_row_once_and_few_groups_at_a_time(
    rows: int, group: int, window: int, seed: int
) -> None:
    words = np.random.default_rng(seed).integers(0, 1 << 62, rows).astype(np.uint64)
    order = local_order(words, group, window)
    assert sorted(order.tolist()) == list(range(rows))
    last_seen = {number // group: at for at, number in enumerate(order.tolist())}
    begun: set[int] = set()
    for at, number in enumerate(order.tolist()):
        begun.add(number // group)
        assert sum(last_seen[each] >= at for each in begun) <= window


def test_only_many_rows_have_a_local_order() -> None:
    length = GROUP_POSITIONS // 4
    most = LOCAL_ABOVE // length
    for rows, is_local in ((most, False), (most + 1, True)):
        order = RowOrder([rows], seed=3, names=["a"], seen=[0], row_length=length).take(rows).index
        assert sorted(order.tolist()) == list(range(rows))
        groups = len(set((order[: 4 * WINDOW] // 4).tolist()))
        assert (groups == WINDOW) == is_local
        began = RowOrder([rows], seed=3, names=["a"], seen=[100], row_length=length).take(
            rows - 100
        )
        assert np.array_equal(began.index, order[100:])
