"""Candidate pairs of near copies: signatures that have a band in common.

Memory is 8 bytes a signature for each of the bands that are read at once, as many as MAX_KEY_BYTES has room
for, and 8 bytes a candidate pair.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curriculum.corpus.signatures import BANDS, band_keys, read_slots

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

MAX_KEY_BYTES = 1 << 29
MAX_PAIRED = 10
"""Signatures with one band in common of which all pairs are candidates; of more, each with the first and
with the next, which joins copies too."""


def candidate_pairs(file: Path, count: int, *, max_key_bytes: int = MAX_KEY_BYTES) -> Int64s:
    """[pairs, 2]: numbers of signatures with a band in common, the smaller first, each pair once, sorted."""
    at_once = max(1, min(BANDS, max_key_bytes // max(1, 8 * count)))
    codes = np.empty(0, dtype=np.int64)
    for first in range(0, BANDS, at_once):
        bands = range(first, min(BANDS, first + at_once))
        found = [_alike(keys, count) for keys in _keys(file, count, bands)]
        codes = np.unique(np.concatenate([codes, *found]))
    return np.column_stack(np.divmod(codes, max(1, count)))


def _keys(file: Path, count: int, bands: Sequence[int]) -> UInt64s:
    """Hash the slots of some bands: [bands, signatures]."""
    keys = np.empty((len(bands), count), dtype=np.uint64)
    start = 0
    for slots in read_slots(file):
        for row, band in enumerate(bands):
            keys[row, start : start + len(slots)] = band_keys(slots, band)
        start += len(slots)
    assert start == count
    return keys


def _alike(keys: UInt64s, count: int) -> Int64s:
    """Codes `smaller × count + larger` of signatures with one key."""
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
