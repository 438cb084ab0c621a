"""Disjoint sets of numbers (union-find), for clusters of files."""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


class DisjointSets:
    """Disjoint sets of the numbers below `count`, which are joined in place; 16 bytes per number."""

    def __init__(self, count: int) -> None:
        self._parent = np.arange(count, dtype=np.int64)
        self._size = np.ones(count, dtype=np.int64)

    def root(self, number: int) -> int:
        """Return the number that represents the set of `number`; the path to it is halved for later calls."""
        parent = self._parent
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = int(parent[number])
        return number

    def size(self, root: int) -> int:
        """Return how many numbers the set with the representative `root` has."""
        return int(self._size[root])

    def join(self, first: int, second: int) -> int:
        """Join the sets of two numbers; return the new representative, which is that of the larger set."""
        large, small = sorted(
            (self.root(first), self.root(second)), key=lambda at: (-self._size[at], at)
        )
        if large != small:
            self._parent[small] = large
            self._size[large] += self._size[small]
        return large

    def roots(self) -> Int64s:
        """Return the representative of each number's set, [numbers]."""
        return np.array([self.root(number) for number in range(len(self._parent))], dtype=np.int64)

    def firsts(self) -> Int64s:
        """Return the smallest number in each number's set, [numbers]."""
        _, first, inverse = np.unique(self.roots(), return_index=True, return_inverse=True)
        return first[inverse].astype(np.int64)
