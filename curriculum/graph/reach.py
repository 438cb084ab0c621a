"""Which files of a tree a file sees through its includes."""

import posixpath
from collections import deque
from collections.abc import Mapping

from curriculum.graph.included import folders_between

MOST_FILES = 4_000
"""A file sees as many at most, the nearest first."""


class Includes:
    """The include graph of one tree: an immutable value that caches its lookups.

    What is written is resolved to the file beside, else to the path that ends so; of several to the one
    in the nearest folder, then to the first. What lies outside of the tree is left out.
    """

    def __init__(self, written: Mapping[str, tuple[str, ...]]) -> None:
        """`written` has what each file of the tree includes; it is read as long as this is used."""
        self._written = written
        self._named: dict[str, set[str]] = {}
        """Paths by their last part."""
        self._included: dict[str, tuple[str, ...]] = {}
        self._reached: dict[str, frozenset[str]] = {}
        for path in written:
            self._named.setdefault(posixpath.basename(path), set()).add(path)

    def of(self, path: str) -> tuple[str, ...]:
        """The files that a file includes, each once, in the order of its text."""
        if path not in self._included:
            found = (self._resolved(path, written) for written in self._written[path])
            self._included[path] = tuple(
                each for each in dict.fromkeys(found) if each is not None and each != path
            )
        return self._included[path]

    def reach(self, path: str) -> frozenset[str]:
        """A file, what it includes, what that includes and so on."""
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
