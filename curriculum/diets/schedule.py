"""Slots and rows in training order: exact quotas, shuffled by a seed, the same on every machine.

Random numbers are Philox's raw 64-bit words, which no release of numpy may change.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from schemas.mixture import BLOCK_SLOTS

_ONE = 1 << 32
"""Quotas count in units of 2⁻³² slot, so that no rounding adds up over a plan."""


def rates(weights: Sequence[float]) -> npt.NDArray[np.int64]:
    """Slots per block in proportion to weights, in units of 2⁻³² slot; they sum to a whole block.

    >>> (rates([2.0, 1.0, 1.0]) >> 32).tolist()
    [512, 256, 256]
    """
    whole = BLOCK_SLOTS * _ONE
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact)
    floors = [math.floor(whole * weight / total) for weight in exact]
    left = whole - sum(floors)
    by_rest = sorted(range(len(floors)), key=lambda at: floors[at] - whole * exact[at] / total)
    for at in by_rest[:left]:
        floors[at] += 1
    return np.array(floors, dtype=np.int64)


def counts(block_rates: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Slots of each stratum in block after block, without end.

    Each block gives a stratum its exact count rounded down or up; what a block rounds off is owed to
    the next ones, so that over many blocks the counts stay within one slot of exact (seen, not proved).
    """
    base, rest = np.divmod(block_rates, _ONE)
    extras = int(BLOCK_SLOTS - base.sum())
    owed = np.zeros_like(rest)
    while True:
        owed += rest
        chosen = np.argsort(-owed, kind="stable")[:extras]
        owed[chosen] -= _ONE
        count = base.copy()
        count[chosen] += 1
        yield count


def blocks(block_rates: npt.NDArray[np.int64], *, seed: int) -> Iterator[npt.NDArray[np.int32]]:
    """The stratum of each slot, block after block, without end.

    Within a block the slots of a stratum are spread: one at random in each of as many equal stretches
    as it has slots, so that any prefix is mixed right too.
    """
    for number, count in enumerate(counts(block_rates)):
        strata = np.repeat(np.arange(len(count), dtype=np.int32), count)
        stretch = np.arange(BLOCK_SLOTS) - np.repeat(np.cumsum(count) - count, count)
        jitter = (_words(BLOCK_SLOTS, seed, "block", number) >> np.uint64(11)) * 2.0**-53
        place = (stretch + jitter) / np.repeat(count, count)
        yield strata[np.argsort(place, kind="stable")]


class RowOrder:
    """The rows of a stratum in training order, without end: all once, then all again, shuffled anew.

    A plan that starts after `start` rows goes on where an earlier plan over the same rows ended.
    """

    def __init__(self, rows: int, *, seed: int, name: str, start: int = 0) -> None:
        assert rows > 0
        self.rows = rows
        self.cursor = start
        self._seed = seed
        self._name = name
        self._repetition = -1
        self._order: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def take(self, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The next rows, as indices in [0, rows), and how often each was seen before."""
        orders: list[npt.NDArray[np.int64]] = []
        repetitions: list[int] = []
        end = self.cursor + count
        while self.cursor < end:
            repetition, offset = divmod(self.cursor, self.rows)
            part = self._permutation(repetition)[offset : offset + end - self.cursor]
            orders.append(part)
            repetitions.append(repetition)
            self.cursor += len(part)
        sizes = [len(part) for part in orders]
        return np.concatenate(orders), np.repeat(np.array(repetitions, dtype=np.int32), sizes)

    def _permutation(self, repetition: int) -> npt.NDArray[np.int64]:
        if repetition != self._repetition:
            words = _words(self.rows, self._seed, self._name, repetition)
            self._order = np.argsort(words, kind="stable")
            self._repetition = repetition
        return self._order


def _words(count: int, seed: int, name: str, number: int) -> npt.NDArray[np.uint64]:
    """Random 64-bit words that depend on seed, name and number alone."""
    said = json.dumps([seed, name, number]).encode()
    key = int.from_bytes(hashlib.sha256(said).digest()[:16], "little")
    return np.random.Philox(key=key).random_raw(count)
