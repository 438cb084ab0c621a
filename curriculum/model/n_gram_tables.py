"""Hash tables of n-grams: sizes, places and multipliers, the same in every framework and version."""

import functools
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from schemas.job import EngramSpec

BLANK = -1
"""An id or a row of a table where an n-gram would cross the start of a document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Hash table of the n-grams of one order for one head: `size` rows from `offset` on."""

    multipliers: tuple[int, ...]
    """Multipliers of the last id, the one before it, and so on: as many as the order, odd, below 2³¹."""
    size: int
    offset: int


@functools.cache
def tables(spec: EngramSpec) -> tuple[Table, ...]:
    """The tables, order by order; each has a prime size of its own, so that no two collide alike.

    4 slots, order 2, 3 heads -> sizes 5, 7, 11 at offsets 0, 5, 12.
    """
    hashes = list(itertools.product(spec.orders, range(spec.heads)))
    sizes = list(itertools.islice(_primes(spec.slots), len(hashes)))
    return tuple(
        Table(
            multipliers=tuple(_multiplier(order, head, k) for k in range(order)),
            size=size,
            offset=sum(sizes[:number]),
        )
        for number, ((order, head), size) in enumerate(zip(hashes, sizes, strict=True))
    )


def _multiplier(*name: int) -> int:
    """An odd number below 2³¹ that follows from the name alone, on every machine and version."""
    digest = hashlib.blake2b(repr(name).encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 1 | 1


def _primes(least: int) -> Iterator[int]:
    for number in itertools.count(max(least, 2)):
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            yield number
