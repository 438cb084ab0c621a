"""Verbatim repeats of earlier tokens in one document: a model that is trained on them learns to copy.

Windows of `run` tokens are compared by a rolling hash and then token by token, so what is found is equal
and nothing equal is missed.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer[Any]]
Int64s = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

RUN = 16
"""Tokens; shorter runs are idiom: `for (size_t i = 0; i < n; i++) {` has as many."""
REPEAT_FREE = ("fim", "doc_to_code", "code_to_doc")
"""Objectives none of whose targets may lie in such a run."""
_FACTOR, _OTHER_FACTOR, _WORD = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, (1 << 64) - 1


def in_repeats(ids: Ids, starts: Int64s | None = None, *, run: int = RUN) -> Bools:
    """[n]: which tokens lie in a run of `run` tokens that begins earlier in their document too.

    `starts` are the first tokens of the documents, from 0; without, there is one. Copies may overlap: of
    seven equal tokens, five lie in a run of three that stands one token earlier. Some 10 Mtok/s.

    >>> in_repeats(np.array([5, 6, 7, 8, 5, 6, 7, 9]), run=3).tolist()
    [False, False, False, False, True, True, True, False]
    >>> in_repeats(np.array([5, 6, 7, 8, 5, 6, 7, 9]), np.array([0, 4]), run=3).any()
    np.False_
    """
    return covered(first_copies(ids, starts, run=run), run)


def covered(copies: Int64s, run: int) -> Bools:
    """[n]: which tokens lie in a window that has an earlier copy.

    >>> covered(np.array([-1, 0, -1, -1, -1]), 2).tolist()
    [False, True, True, False, False]
    """
    places = np.arange(len(copies))
    last = np.maximum.accumulate(np.where(copies >= 0, places, -run))
    found: Bools = places < last + run
    return found


def first_copies(ids: Ids, starts: Int64s | None = None, *, run: int = RUN) -> Int64s:
    """[n]: where in its document the window of `run` tokens from each token on stands first.

    -1 for a window that stands there for the first time, or isn't in one document.

    >>> first_copies(np.array([5, 6, 5, 6, 5]), run=2).tolist()
    [-1, -1, 0, 1, -1]
    """
    copies = np.full(len(ids), -1, dtype=np.int64)
    if len(ids) < run:
        return copies
    document = _documents(len(ids), starts)
    order, hashes = _by_hash(_hashes(ids, document, run))
    within = document[order] == document[order + run - 1]
    order, hashes = order[within], hashes[within]
    while len(order):
        first = _first_of_group(hashes)
        same = _same(ids, document, order, order[first], run)
        later = same & (first != np.arange(len(order)))
        copies[order[later]] = order[first[later]]
        # What has a hash but not the tokens of its group's first is compared among itself.
        order, hashes = order[~same], hashes[~same]
    return copies


def _documents(count: int, starts: Int64s | None) -> Int64s:
    """[n]: the number of each token's document: starts 0, 2 of 3 tokens -> [1 1 2]."""
    number = np.zeros(count, dtype=np.int64)
    number[[0] if starts is None else starts] = 1
    return np.cumsum(number)


def _hashes(ids: Ids, document: Int64s, run: int) -> Hashes:
    """[n - run + 1]: of each window and its document; tokens are shifted by powers of an odd factor.

    Windows of 1, 2, 4, … tokens are made of two of the half; those that are bits of `run` are joined.
    """
    power, factor = ids.astype(np.uint64) + np.uint64(1), _FACTOR
    power *= np.uint64(_FACTOR)
    power ^= power >> np.uint64(29)
    hashes, done, width = np.zeros(len(ids) + 1, dtype=np.uint64), 0, 1
    while True:
        if run & width:
            joined = len(ids) - done - width + 1
            hashes = hashes[:joined] * np.uint64(factor) + power[done : done + joined]
            done += width
        if done == run:
            break
        power = power[:-width] * np.uint64(factor) + power[width:]
        width, factor = width * 2, factor * factor & _WORD
    return hashes + document[: len(hashes)].astype(np.uint64) * np.uint64(_OTHER_FACTOR)


def _by_hash(hashes: Hashes) -> tuple[Int64s, Hashes]:
    """Windows that share a hash with another, in order of hash and place, and their hashes.

    Places stand in the low bits of what is sorted: sorting alone is many times as fast as an argsort.
    """
    places = np.uint64((1 << len(hashes).bit_length()) - 1)
    keys = hashes & ~places | np.arange(len(hashes), dtype=np.uint64)
    keys.sort()
    ordered = keys & ~places
    equal = ordered[1:] == ordered[:-1]
    shared = np.zeros(len(keys), dtype=np.bool_)
    shared[1:] |= equal
    shared[:-1] |= equal
    return (keys[shared] & places).astype(np.int64), ordered[shared]


def _first_of_group(hashes: Hashes) -> Int64s:
    """[n]: the first of the equal hashes beside each: [7 7 9] -> [0 0 2]."""
    begins = np.ones(len(hashes), dtype=np.bool_)
    begins[1:] = hashes[1:] != hashes[:-1]
    first: Int64s = np.maximum.accumulate(np.where(begins, np.arange(len(hashes)), 0))
    return first


def _same(ids: Ids, document: Int64s, one: Int64s, other: Int64s, run: int) -> Bools:
    """Flag the windows with equal tokens, in one document."""
    same: Bools = document[one] == document[other]
    for offset in range(run):
        same &= ids[one + offset] == ids[other + offset]
    return same
