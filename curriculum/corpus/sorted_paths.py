"""Paths in their order, to find those below a folder."""

from bisect import bisect_left
from collections.abc import Iterable


class SortedPaths:
    """Paths in their order, in which those below a folder lie side by side.

    >>> SortedPaths(["a/b.h", "ab.h", "a/c/d.h"]).below("a")
    ['a/b.h', 'a/c/d.h']
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(paths)

    def below(self, folder: str) -> list[str]:
        """Return the paths below a folder, which is not the root."""
        first = bisect_left(self._paths, f"{folder}/")
        return self._paths[first : bisect_left(self._paths, f"{folder}0", first)]
