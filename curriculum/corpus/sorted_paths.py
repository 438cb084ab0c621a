"""Sorted paths, to find the paths below a folder."""

from bisect import bisect_left
from collections.abc import Iterable


class SortedPaths:
    """Sorted paths, in which the paths below a folder are consecutive.

    >>> SortedPaths(["a/b.h", "ab.h", "a/c/d.h"]).below("a")
    ['a/b.h', 'a/c/d.h']
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(paths)

    def below(self, folder: str) -> list[str]:
        """Return the paths below a folder other than the root."""
        first = bisect_left(self._paths, f"{folder}/")
        return self._paths[first : bisect_left(self._paths, f"{folder}0", first)]
