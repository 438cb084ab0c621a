"""Candidate pairs of near copies, which are pairs of signatures with a band in common.

Memory is 8 bytes per signature and band, for as many bands at a time as fit into MAX_KEY_BYTES, plus 8 bytes
per candidate pair and 250 bytes per signature of a large file.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curriculum.corpus.signatures import (
    BAND_SLOTS,
    LARGE_BAND_SLOTS,
    SLOTS,
    Slots,
    band_keys,
    read_slots,
)

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

MAX_KEY_BYTES = 1 << 29
MAX_PAIRED = 10
"""Size of the largest group of signatures with a common band in which all pairs are candidates.

In a larger group, each signature is paired with the first one and with the next one, which still joins all
copies.
"""
MIN_LARGE_SHARE = 0.1
"""Minimum share of equal slots in a candidate pair of large files.

It is three standard deviations below 0.2, the minimum similarity of large copies.
"""
PAIRS_AT_ONCE = 1 << 15


def candidate_pairs(file: Path, count: int, *, max_key_bytes: int = MAX_KEY_BYTES) -> Int64s:
    """Return pairs of signatures with a band in common, by their numbers, [pairs, 2].

    `file` contains `count` signatures. In a pair, the smaller number is first. Pairs are sorted and distinct.
    """
    every = SLOTS // BAND_SLOTS
    at_once = max(1, min(every, max_key_bytes // max(1, 8 * count)))
    codes = np.empty(0, dtype=np.int64)
    for first in range(0, every, at_once):
        bands = range(first, min(every, first + at_once))
        found = [_alike(keys, count) for keys in _keys(file, count, bands)]
        codes = np.unique(np.concatenate([codes, *found]))
    return np.column_stack(np.divmod(codes, max(1, count)))


def large_pairs(file: Path, is_large: npt.NDArray[np.bool_]) -> Int64s:
    """Return candidate pairs of large files, [pairs, 2].

    They may be less similar than those of `candidate_pairs`.
    """
    numbers = np.flatnonzero(is_large)
    slots = _chosen_slots(file, is_large)
    codes = np.empty(0, dtype=np.int64)
    for band in range(SLOTS // LARGE_BAND_SLOTS):
        keys = band_keys(slots, band, size=LARGE_BAND_SLOTS)
        new = np.setdiff1d(_alike(keys, len(numbers)), codes)
        pairs = np.column_stack(np.divmod(new, max(1, len(numbers))))
        codes = np.union1d(codes, new[_share(slots, pairs) >= MIN_LARGE_SHARE])
    found: Int64s = numbers[np.column_stack(np.divmod(codes, max(1, len(numbers))))]
    return found


def _chosen_slots(file: Path, is_chosen: npt.NDArray[np.bool_]) -> Slots:
    chosen, start = [np.empty((0, SLOTS), dtype=np.uint16)], 0
    for slots in read_slots(file):
        chosen.append(slots[is_chosen[start : start + len(slots)]])
        start += len(slots)
    return np.concatenate(chosen)


def _share(slots: Slots, pairs: Int64s) -> npt.NDArray[np.float64]:
    """Return the share of slots that are equal in both signatures of each pair, [pairs]."""
    shares = np.empty(len(pairs))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        one, other = pairs[start : start + PAIRS_AT_ONCE].T
        shares[start : start + PAIRS_AT_ONCE] = (slots[one] == slots[other]).mean(axis=1)
    return shares


def _keys(file: Path, count: int, bands: Sequence[int]) -> UInt64s:
    """Return the hash of each of `bands` in each signature, [bands, signatures]."""
    keys = np.empty((len(bands), count), dtype=np.uint64)
    start = 0
    for slots in read_slots(file):
        for row, band in enumerate(bands):
            keys[row, start : start + len(slots)] = band_keys(slots, band)
        start += len(slots)
    assert start == count
    return keys


def _alike(keys: UInt64s, count: int) -> Int64s:
    """Return pairs of signatures with equal keys, each encoded as smaller number × count + larger number.

    In large groups of equal keys, not all pairs are returned; see MAX_PAIRED.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(is_first)
    group = np.cumsum(is_first) - 1
    sizes = np.diff(starts, append=len(keys))[group]
    large = sizes > MAX_PAIRED
    firsts = order[starts[group]]
    codes = [firsts[large & ~is_first] * count + order[large & ~is_first]]
    for distance in range(1, MAX_PAIRED):
        same = group[distance:] == group[:-distance]
        if distance > 1:
            same &= ~large[distance:]
        codes.append(order[:-distance][same] * count + order[distance:][same])
    return np.concatenate(codes).astype(np.int64)
