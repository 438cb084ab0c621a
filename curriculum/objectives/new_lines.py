"""Lines that no earlier document of a repository contains: with `score: new`, only these lines are scored.

Lines are compared by keys. The key of a line is a hash of the line and of the line before it, both without
white space at their ends. Equal pairs have equal keys; different pairs have the same key with a probability
of about 2^-64. The first line of a stretch of source text has no line before it. Speed: some 20 MB/s.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from curriculum.objectives.causal import overlaps, scored_where
from curriculum.splitmix import mixed_words
from curriculum.tokens.encoding import Encoding, byte_ranges

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]

REVISION = 1
"""Revision of the masks, which is part of cache keys: raise it whenever masks change."""
_FACTOR, _OTHER_FACTOR = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_INVERSE = pow(_FACTOR, -1, 1 << 64)
_NO_LINE = np.uint64(0x632BE59BD9B4E019)
"""Hash that is used for the line before the first line of a stretch."""
_BYTES = mixed_words(np.arange(1, 257, dtype=np.uint64))
_IS_BLANK = np.isin(np.arange(256), [*b" \t\n\v\f\r"])
_MERGED_AT_A_TIME = 1 << 21
"""Minimum number of keys that are merged at a time."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ShownLines:
    """Lines of a document with their keys, in the order of the text."""

    ranges: Int32s
    """Byte range of each line, including its newline, [lines, 2]."""
    keys: UInt64s
    """Key of each line, [lines]."""


def shown_lines(text: bytes, stretches: Int32s) -> ShownLines:
    r"""Return the lines of a text that are inside the `stretches` ([s, 2] bytes, sorted, disjoint).

    A stretch begins at a line start, and ends at a line start or at the end of the text.

    >>> lines = shown_lines(b"a\n  b\n\na\nb \n", np.array([[0, 12]], dtype=np.int32))
    >>> lines.ranges.tolist()
    [[0, 2], [2, 6], [6, 7], [7, 9], [9, 12]]
    >>> [lines.keys.tolist().index(key) for key in lines.keys]  # |a a|b b| |a a|b
    [0, 1, 2, 3, 1]
    """
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(data == ord("\n")) + 1
    if len(data) and not text.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    stretch = np.searchsorted(stretches[:, 0], starts, side="right") - 1
    inside = starts < np.append(stretches[:, 1], -1)[stretch]
    hashes = _line_hashes(data, starts, ends)
    follows = np.zeros(len(starts), dtype=np.bool_)
    follows[1:] = inside[:-1] & (stretch[1:] == stretch[:-1])
    before = np.full(len(starts), _NO_LINE)
    before[follows] = hashes[np.flatnonzero(follows) - 1]
    keys = mixed_words(hashes + before * np.uint64(_OTHER_FACTOR))
    ranges = np.stack((starts, ends), axis=1).astype(np.int32)
    return ShownLines(ranges=ranges[inside], keys=keys[inside])


def _line_hashes(data: npt.NDArray[np.uint8], starts: Int64s, ends: Int64s) -> UInt64s:
    """Return a polynomial hash of each line `[starts, ends)` without white space at its ends, [lines]."""
    solid = np.flatnonzero(~_IS_BLANK[data])
    first, after = np.searchsorted(solid, starts), np.searchsorted(solid, ends)
    count = 1 << len(data).bit_length()
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    np.cumsum(_BYTES[data] * _powers(_FACTOR, count)[: len(data)], out=sums[1:])
    # A blank line has an empty sum.
    padded = np.append(solid, len(data))
    begin = padded[first]
    end = np.where(after > first, padded[after - 1] + 1, begin)
    found: UInt64s = mixed_words((sums[end] - sums[begin]) * _powers(_INVERSE, count)[begin])
    return found


@lru_cache(maxsize=8)
def _powers(factor: int, count: int) -> UInt64s:
    """Return the powers 0 to `count` - 1 of `factor` modulo 2^64, [count]."""
    factors = np.full(count, factor, dtype=np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


class FirstShowings:
    """Index that tells, for each key of a line, the first document that contains it.

    Each document has a number, its turn; the document with the lowest turn is the first one. Documents may be
    added in any order. Memory: 16 bytes per distinct key, twice as much while keys are merged.

    >>> shown = FirstShowings()
    >>> shown.add(7, np.array([1, 2, 2], dtype=np.uint64))
    >>> shown.add(3, np.array([2, 5], dtype=np.uint64))
    >>> shown.are_first(7, np.array([1, 2, 2], dtype=np.uint64)).tolist()
    [True, False, False]
    """

    def __init__(self) -> None:
        self._keys: UInt64s = np.empty(0, dtype=np.uint64)
        self._turns: Int64s = np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[int, UInt64s]] = []
        self._num_waiting = 0

    def add(self, turn: int, keys: UInt64s) -> None:
        """Record that the document with the turn `turn` contains lines with these keys."""
        self._waiting.append((turn, np.unique(keys)))
        self._num_waiting += len(self._waiting[-1][1])
        if self._num_waiting > max(_MERGED_AT_A_TIME, len(self._keys)):
            self._merge()

    def are_first(self, turn: int, keys: UInt64s) -> Bools:
        """Return a flag for each of the `keys` of an added document.

        It is True if no document with a lower turn contains the key.
        """
        if self._waiting:
            self._merge()
        found: Bools = self._turns[np.searchsorted(self._keys, keys)] == turn
        return found

    def _merge(self) -> None:
        keys = np.concatenate([self._keys, *(keys for _, keys in self._waiting)])
        counts = [len(keys) for _, keys in self._waiting]
        turns = np.repeat(np.array([turn for turn, _ in self._waiting], dtype=np.int64), counts)
        turns = np.concatenate((self._turns, turns))
        order = np.lexsort((turns, keys))
        keys, turns = keys[order], turns[order]
        first = np.ones(len(keys), dtype=np.bool_)
        first[1:] = keys[1:] != keys[:-1]
        self._keys, self._turns = keys[first], turns[first]
        self._waiting, self._num_waiting = [], 0


def within_new_lines(
    encoding: Encoding, new: Int32s, headers: Int32s, token_bytes: Int32s
) -> Encoding:
    """Return the encoding with only those targets that overlap a new line or a header.

    A token that spans several lines stays scored if one of them is new. EOS is scored if the last token of
    text before it is in a new line. If no token of a new line is scored, the encoding has no targets at all.

    Args:
        encoding: its text is in document order.
        new: [n, 2] bytes of new lines, sorted and disjoint.
        headers: [h, 2] bytes of headers, sorted and disjoint.
        token_bytes: number of bytes of each token, by id.

    >>> encoding = Encoding(
    ...     document_id="d", ids=np.array([0, 2, 3, 4, 1], dtype=np.int32),
    ...     loss_mask=np.array([1, 1, 1, 1, 0], dtype=np.uint8),
    ...     pieces=np.array([[1, 0, 1, 0, 0], [0, 1, 4, 0, 6], [1, 4, 5, 6, 6]], dtype=np.int32))
    >>> token_bytes = np.array([0, 0, 1, 2, 3], dtype=np.int32)  # text tokens: [0, 1) [1, 3) [3, 6)
    >>> none = np.empty((0, 2), dtype=np.int32)
    >>> new = np.array([[2, 4]], dtype=np.int32)
    >>> within_new_lines(encoding, new, none, token_bytes).loss_mask.tolist()
    [0, 1, 1, 1, 0]
    >>> within_new_lines(encoding, none, new, token_bytes).loss_mask.tolist()
    [0, 0, 0, 0, 0]
    """
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, token_bytes)
    learnt = overlaps(starts, ends, new)
    text = np.flatnonzero(ends > starts)
    scored = learnt | overlaps(starts, ends, headers)
    if len(text) and text[-1] < len(learnt) - 1:
        scored[-1] = learnt[text[-1]]
    done = scored_where(scored, encoding)
    if not (learnt[1:] & (done.loss_mask[:-1] == 1)).any():
        done = replace(done, loss_mask=np.zeros_like(done.loss_mask))
    return done
