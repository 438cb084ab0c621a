"""Includes of the files of a tree: the file that each directive means, and the files reached from one."""

import functools
import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

MOST_FILES = 4_000
"""Most files reached from one; the nearest come first."""


class Includes:
    """The include graph of one tree: an immutable value that caches its lookups.

    What is written is resolved to the file beside, else to the path that ends so; of several to the one
    in the nearest folder, then to the first. What lies outside of the tree is left out.
    """

    def __init__(self, paths: Iterable[str], written: Callable[[str], Sequence[str]]) -> None:
        """Index the paths of a tree; `written` returns what a file includes, in the order of its text."""
        self._written = written
        self._named: dict[str, set[str]] = {}
        """Paths by their last part."""
        self._included: dict[str, tuple[str, ...]] = {}
        self._reached: dict[str, frozenset[str]] = {}
        for path in paths:
            self._named.setdefault(posixpath.basename(path), set()).add(path)

    def of(self, path: str) -> tuple[str, ...]:
        """Return the files that a file includes, each once, in the order of its text."""
        if path not in self._included:
            found = (self._resolved(path, written) for written in self._written(path))
            self._included[path] = tuple(
                each for each in dict.fromkeys(found) if each is not None and each != path
            )
        return self._included[path]

    def include_closure(self, path: str) -> frozenset[str]:
        """Return a file, what it includes, what that includes and so on."""
        if path not in self._reached:
            found, waiting = {path}, deque([path])
            while waiting and len(found) < MOST_FILES:
                new = [each for each in self.of(waiting.popleft()) if each not in found]
                found.update(new)
                waiting.extend(new)
            self._reached[path] = frozenset(found)
        return self._reached[path]

    def _resolved(self, path: str, written: str) -> str | None:
        named = self._named.get(posixpath.basename(written))
        if named is None:
            return None
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), written))
        if beside in named:
            return beside
        ending = "/" + posixpath.normpath(written).lstrip("./")
        fitting = [each for each in named if f"/{each}".endswith(ending)]
        return min(fitting, key=lambda each: (folders_between(path, each), each), default=None)


@functools.lru_cache(maxsize=1 << 16)
def folders_between(path: str, other: str) -> int:
    """Return the number of steps from the folder of one file to that of another.

    >>> folders_between("src/db/a.cc", "src/b.h")
    1
    """
    ours, theirs = _folders(path), _folders(other)
    shared = sum(1 for _ in _shared(ours, theirs))
    return len(ours) + len(theirs) - 2 * shared


def _folders(path: str) -> list[str]:
    return path.split("/")[:-1]


def _shared(ours: list[str], theirs: list[str]) -> Iterator[str]:
    for our, their in zip(ours, theirs, strict=False):
        if our != their:
            return
        yield our
