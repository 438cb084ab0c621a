"""Clusters of near-duplicate files, built from candidate pairs whose similarity is checked.

    group      files of one repository that are linked by pairs with a similarity of at least MIN_WITHIN
    cluster    groups that are linked by pairs of files from two repositories, with a similarity of at least
               MIN_ACROSS; if both files are large, min_large_similarity is enough

The similarity of two files is the exact Jaccard similarity between the shingles of their signed versions; of
several pairs of versions, the most similar pair counts.

Large files have a lower limit because two versions of a single-file library are less similar than other
copies. Unrelated large files are never that similar. Unrelated smaller files may be, because parser
generators emit the same code into both.
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
"""Number of shingles from which on a version is large: 60 to 80 kB of code."""
MIN_LARGE_SHARED = 0.55
"""Minimum share of the smaller version's shingles that a large version must also have, to be a copy."""
MIN_ACROSS_LARGE = 0.2
"""Minimum similarity of large versions to be copies.

If the similarity is lower, the smaller version may be just a part of the larger one.
"""


def jaccard(one: UInt64s, other: UInt64s) -> float:
    """Return the Jaccard similarity of two sorted arrays without repeated values.

    >>> jaccard(np.array([1, 2, 3], dtype=np.uint64), np.array([2, 3, 4, 5], dtype=np.uint64))
    0.4
    """
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)


def min_large_similarity(one: Int64s, other: Int64s) -> npt.NDArray[np.float64]:
    """Return the similarity from which on large versions count as copies, [pairs].

    `one` and `other` are the numbers of shingles of the two versions of each pair.

    >>> sizes = np.array([10_000, 10_000]), np.array([10_000, 30_000])
    >>> min_large_similarity(*sizes).round(3).tolist()
    [0.379, 0.2]
    """
    shared = MIN_LARGE_SHARED * np.minimum(one, other)
    return np.maximum(MIN_ACROSS_LARGE, shared / (one + other - shared))


@dataclass(frozen=True, kw_only=True, slots=True)
class Join:
    """A pair of similar files that joined two clusters."""

    first: int
    second: int
    similarity: float
    joined: int
    """Number of files in the smaller of the two clusters that were joined."""


@dataclass(kw_only=True, slots=True)
class CopyClusters:
    """Groups and clusters of files, which are given by their numbers."""

    repositories: Sequence[int]
    """Number of the repository of each file."""
    groups: DisjointSets = field(init=False)
    clusters: DisjointSets = field(init=False)
    largest_joins: dict[int, Join] = field(default_factory=dict)
    """One Join per cluster, by the representative of the cluster.

    Of all Joins that built the cluster, it is the one whose smaller part was largest.
    """

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
        """Join the files of each pair that is similar enough.

        Pairs that are already in the same group or cluster aren't compared.

        Args:
            pairs: Numbers of the two files of each pair.
            similarity: Returns the similarity of a pair, given the pair's number.
            min_across: Returns the threshold for files of two repositories, given the pair's number.
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
        self.largest_joins[root] = max((*known, join), key=lambda join: join.joined)


class ShingleSpool:
    """Shingles of versions, kept on disk until they are compared.

    A version is given by the number of its signature.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._ranges: dict[int, tuple[int, int]] = {}

    def add(self, number: int, shingles: UInt64s) -> None:
        """Write the shingles of a version."""
        self._ranges[number] = self._file.tell(), len(shingles)
        self._file.write(shingles.tobytes())

    def read(self, number: int) -> UInt64s:
        """Return the shingles of a version."""
        start, count = self._ranges[number]
        self._file.seek(start)
        return np.frombuffer(self._file.read(count * 8), dtype=np.uint64)
