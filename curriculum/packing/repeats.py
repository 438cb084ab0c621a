"""Verbatim repeats of earlier tokens within a document. A model trained on them learns to copy.

Windows of `run` tokens are compared by a rolling hash, and windows with equal hashes token by token. The
result is exact.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer[Any]]
Int64s = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

RUN = 16
"""Minimum number of tokens of a repeat. Shorter runs are idioms: `for (size_t i = 0; i < n; i++) {` has 16
tokens.
"""
REPEAT_FREE = ("fim", "doc_to_code", "code_to_doc")
"""Objectives whose targets must not be in a repeat."""
_FACTOR, _OTHER_FACTOR, _WORD = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, (1 << 64) - 1


def in_repeats(ids: Ids, starts: Int64s | None = None, *, run: int = RUN) -> Bools:
    """Return a flag for each token, [n]: True if it is in a repeat.

    A repeat is a run of `run` tokens that also begins earlier in its document. The two may overlap: of seven
    equal tokens, five lie in a run of three that also occurs one token earlier. Speed: about 10 million
    tokens per second.

    Args:
        ids: tokens of all documents.
        starts: first token of each document, beginning with 0; None means one document.
        run: number of tokens of a run.

    >>> in_repeats(np.array([5, 6, 7, 8, 5, 6, 7, 9]), run=3).tolist()
    [False, False, False, False, True, True, True, False]
    >>> in_repeats(np.array([5, 6, 7, 8, 5, 6, 7, 9]), np.array([0, 4]), run=3).any()
    np.False_
    """
    return in_copied_windows(first_copies(ids, starts, run=run), run)


def in_copied_windows(copies: Int64s, run: int) -> Bools:
    """Return a flag for each token, [n]: True if it is in a window of `run` tokens that has an earlier copy.

    `copies` is the result of `first_copies`.

    >>> in_copied_windows(np.array([-1, 0, -1, -1, -1]), 2).tolist()
    [False, True, True, False, False]
    """
    places = np.arange(len(copies))
    last = np.maximum.accumulate(np.where(copies >= 0, places, -run))
    found: Bools = places < last + run
    return found


def first_copies(ids: Ids, starts: Int64s | None = None, *, run: int = RUN) -> Int64s:
    """Return, for each token, where the window that begins there first occurs in its document, [n].

    It is -1 if the window occurs for the first time or crosses a document boundary.

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
        # Windows whose hash collides with other tokens are compared again among themselves.
        order, hashes = order[~same], hashes[~same]
    return copies


def _documents(count: int, starts: Int64s | None) -> Int64s:
    """Return the number of the document to which each token belongs, [n].

    Documents that start at 0 and 2 of 3 tokens give [1 1 2].
    """
    number = np.zeros(count, dtype=np.int64)
    number[[0] if starts is None else starts] = 1
    return np.cumsum(number)


def _hashes(ids: Ids, document: Int64s, run: int) -> Hashes:
    """Return a hash of each window and its document, [n - run + 1].

    Hashes of windows of 1, 2, 4, … tokens are built by doubling. Those whose width is a set bit of `run` are
    joined to a hash of `run` tokens.
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
    """Return the windows whose hash occurs more than once, sorted by (hash, position), and their hashes.

    The position is stored in the low bits of the sort keys, because sorting is many times faster than an
    argsort.
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
    """Return, for each of the sorted hashes, the index of the first equal one, [n]: [7 7 9] -> [0 0 2]."""
    begins = np.ones(len(hashes), dtype=np.bool_)
    begins[1:] = hashes[1:] != hashes[:-1]
    first: Int64s = np.maximum.accumulate(np.where(begins, np.arange(len(hashes)), 0))
    return first


def _same(ids: Ids, document: Int64s, one: Int64s, other: Int64s, run: int) -> Bools:
    """Return a flag for each pair of windows: True if their tokens are equal and in the same document.

    `one` and `other` are the positions at which the two windows begin.
    """
    same: Bools = document[one] == document[other]
    for offset in range(run):
        same &= ids[one + offset] == ids[other + offset]
    return same
