"""Hash tables of n-grams.

Their sizes, offsets and multipliers are the same in every framework and version.
"""

import functools
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from schemas.job import EngramSpec

BLANK = -1
"""Placeholder for an id or table row that belongs to an n-gram across the start of a document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Hash table for the n-grams of one order and one head. It has the `size` rows that begin at `offset`."""

    multipliers: tuple[int, ...]
    """Multiplier for each id of the n-gram, beginning with the last id. It is odd and below 2³¹."""
    size: int
    offset: int


@functools.cache
def tables(spec: EngramSpec) -> tuple[Table, ...]:
    """Return the tables by order and head. Every size is a different prime, so that collisions differ.

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
    """Return an odd number below 2³¹. It depends only on `name`, not on the machine or version."""
    digest = hashlib.blake2b(repr(name).encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 1 | 1


def _primes(least: int) -> Iterator[int]:
    for number in itertools.count(max(least, 2)):
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            yield number
