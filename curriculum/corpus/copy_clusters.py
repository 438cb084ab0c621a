"""Clusters of files that are near copies: candidate pairs are verified, and joined at two similarities.

    group      files of one repository, each at MIN_WITHIN or more of another
    cluster    groups, each with a file at MIN_ACROSS or more of another repository's; if both are large, with
               one of which it has MIN_LARGE_SHARED, or which has so much of it

The similarity of two files is the largest exact Jaccard similarity of their signed versions' shingles.

Two versions of a library in one file are less alike than other copies are. Of unrelated large files none are
as alike; smaller ones may share as much of what a parser generator writes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from curriculum.corpus.disjoint_sets import DisjointSets

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

MIN_ACROSS = 0.7
MIN_WITHIN = 0.9
LARGE_SHINGLES = 10_000
"""Shingles of a large version; 60 to 80 kB of code."""
MIN_LARGE_SHARED = 0.55
"""Share of the smaller version's shingles that the larger one has."""
MIN_ACROSS_LARGE = 0.2
"""Similarity below which the smaller version may be a small part of the larger one."""


def jaccard(one: UInt64s, other: UInt64s) -> float:
    """Return the share of two sorted sets that is in both.

    >>> jaccard(np.array([1, 2, 3], dtype=np.uint64), np.array([2, 3, 4, 5], dtype=np.uint64))
    0.4
    """
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)


def min_large_similarity(one: Int64s, other: Int64s) -> npt.NDArray[np.float64]:
    """[pairs]: the similarity from which on large versions are copies, by their numbers of shingles.

    >>> sizes = np.array([10_000, 10_000]), np.array([10_000, 30_000])
    >>> min_large_similarity(*sizes).round(3).tolist()
    [0.379, 0.2]
    """
    shared = MIN_LARGE_SHARED * np.minimum(one, other)
    return np.maximum(MIN_ACROSS_LARGE, shared / (one + other - shared))


@dataclass(frozen=True, kw_only=True, slots=True)
class Join:
    """The pair of files that made two parts of a cluster one."""

    first: int
    second: int
    similarity: float
    joined: int
    """Files in the smaller part."""


@dataclass(kw_only=True, slots=True)
class CopyClusters:
    """Files by number, in groups and clusters."""

    repositories: Sequence[int]
    """The repository of each file."""
    groups: DisjointSets = field(init=False)
    clusters: DisjointSets = field(init=False)
    largest_joins: dict[int, Join] = field(default_factory=dict)
    """The join of each cluster, by its root, whose smaller part was the largest."""

    def __post_init__(self) -> None:
        count = len(self.repositories)
        self.groups, self.clusters = DisjointSets(count), DisjointSets(count)

    def join(
        self,
        pairs: Iterable[tuple[int, int]],
        similarity: Callable[[int], float],
        *,
        min_across: Callable[[int], float] = lambda number: MIN_ACROSS,
    ) -> None:
        """Join the files of pairs that are alike enough.

        `similarity` and `min_across`, that from which on files of two repositories are, are asked by the
        number of a pair.

        Pairs that are together already aren't compared.
        """
        for number, (first, second) in enumerate(pairs):
            within = self.repositories[first] == self.repositories[second]
            sets = self.groups if within else self.clusters
            if sets.root(first) == sets.root(second):
                continue
            found = similarity(number)
            if found < (MIN_WITHIN if within else min_across(number)):
                continue
            if within:
                self.groups.join(first, second)
            self._join_clusters(first, second, found)

    def _join_clusters(self, first: int, second: int, similarity: float) -> None:
        roots = self.clusters.root(first), self.clusters.root(second)
        if roots[0] == roots[1]:
            return
        joined = min(self.clusters.size(root) for root in roots)
        join = Join(first=first, second=second, similarity=similarity, joined=joined)
        known = [self.largest_joins.pop(root) for root in roots if root in self.largest_joins]
        root = self.clusters.join(first, second)
        self.largest_joins[root] = max((*known, join), key=lambda each: each.joined)


class ShingleSpool:
    """Shingles of some versions on disk, by the number of their signature, until they are compared."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._ranges: dict[int, tuple[int, int]] = {}

    def add(self, number: int, shingles: UInt64s) -> None:
        """Keep the shingles of a version."""
        self._ranges[number] = self._file.tell(), len(shingles)
        self._file.write(shingles.tobytes())

    def read(self, number: int) -> UInt64s:
        """Return the shingles of a version."""
        start, count = self._ranges[number]
        self._file.seek(start)
        return np.frombuffer(self._file.read(count * 8), dtype=np.uint64)
