import doctest
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.packing import repeats
from curriculum.packing.repeats import first_copies, in_copied_windows, in_repeats

FEW = st.lists(st.integers(0, 2), max_size=60)
CUTS = st.sets(st.integers(1, 59), max_size=5)


def test_examples_in_docstrings_hold() -> None:
    done = doctest.testmod(repeats)
    assert done.attempted
    assert not done.failed


def naive(ids: list[int], starts: list[int], run: int) -> list[int]:
    """Every window against every one before it."""
    copies = [-1] * len(ids)
    for start, end in pairwise([*starts, len(ids)]):
        for at in range(start, end - run + 1):
            window = ids[at : at + run]
            earlier = (i for i in range(start, at) if ids[i : i + run] == window)
            copies[at] = next(earlier, -1)
    return copies


def starts_of(ids: list[int], cuts: set[int]) -> list[int]:
    return [0, *sorted(cut for cut in cuts if cut < len(ids))] if ids else []


@given(FEW, CUTS, st.integers(1, 20))
def test_copies_are_those_of_a_loop_over_all_pairs(
    ids: list[int], cuts: set[int], run: int
) -> None:
    starts = starts_of(ids, cuts)
    given_ids, given_starts = np.array(ids, dtype=np.int32), np.array(starts, dtype=np.int64)
    found = first_copies(given_ids, given_starts, run=run)
    expected = naive(ids, starts, run)
    assert found.tolist() == expected
    inside = {at + k for at, copy in enumerate(expected) if copy >= 0 for k in range(run)}
    repeated = in_repeats(given_ids, given_starts, run=run)
    assert np.flatnonzero(repeated).tolist() == sorted(inside)


@given(FEW, CUTS, st.integers(1, 9))
def test_nothing_is_missed_or_added_where_all_windows_share_a_hash(
    ids: list[int], cuts: set[int], run: int
) -> None:
    starts = starts_of(ids, cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "_FACTOR", 0)
        patch.setattr(repeats, "_OTHER_FACTOR", 0)
        found = first_copies(np.array(ids), np.array(starts, dtype=np.int64), run=run)
    assert found.tolist() == naive(ids, starts, run)


def test_different_windows_are_never_taken_for_copies() -> None:
    ids = np.random.default_rng(5).integers(0, 50_000, 1 << 18).astype(np.int32)
    assert (first_copies(ids) == -1).all()


def test_a_planted_copy_is_found_with_its_place_among_many_tokens() -> None:
    ids = np.random.default_rng(5).integers(0, 50_000, 1 << 18).astype(np.int32)
    ids[200_000:200_020] = ids[70_000:70_020]
    assert np.flatnonzero(in_repeats(ids)).tolist() == list(range(200_000, 200_020))
    copies = first_copies(ids)
    assert copies[200_000:200_006].tolist() == [70_000, 70_001, 70_002, 70_003, 70_004, -1]


def test_a_run_one_token_too_short_is_not_one() -> None:
    ids = np.random.default_rng(5).integers(0, 50_000, 200).astype(np.int32)
    ids[100 : 100 + repeats.RUN - 1] = ids[: repeats.RUN - 1]
    assert not in_repeats(ids).any()


def test_documents_without_tokens_before_or_enough_of_them_have_no_repeats() -> None:
    nothing = np.empty(0, dtype=np.int32)
    assert in_repeats(nothing).tolist() == []
    assert in_repeats(np.zeros(repeats.RUN, dtype=np.int32)).tolist() == [False] * repeats.RUN
    assert in_copied_windows(np.empty(0, dtype=np.int64), 3).tolist() == []


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.uint32, np.int64])
def test_vocabularies_of_any_width_are_read(dtype: type[np.integer[Any]]) -> None:
    ids = np.array([9, 65_535, 7, 9, 65_535]).astype(dtype)
    assert in_repeats(ids, run=2).tolist() == [False, False, False, True, True]
