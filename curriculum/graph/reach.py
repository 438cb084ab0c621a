"""Which files of a tree a file sees through its includes."""

import posixpath
from collections import deque

from curriculum.graph.included import folders_between

MOST_FILES = 4_000
"""A file sees as many at most, the nearest first."""


class Includes:
    """The include graph of a tree, kept up to date file by file.

    What is written is resolved to the file beside, else to the path that ends so; of several to the one
    in the nearest folder, then to the first. What lies outside of the tree is left out.
    """

    def __init__(self) -> None:
        self._written: dict[str, tuple[str, ...]] = {}
        self._named: dict[str, set[str]] = {}
        """Paths by their last part."""
        self._included: dict[str, tuple[str, ...]] = {}
        self._reached: dict[str, frozenset[str]] = {}

    def put(self, path: str, written: tuple[str, ...]) -> None:
        """Add a file, or change what it includes."""
        if self._written.get(path) == written:
            return
        self._written[path] = written
        self._named.setdefault(posixpath.basename(path), set()).add(path)
        self._forget()

    def remove(self, path: str) -> None:
        """Remove a file."""
        name = posixpath.basename(path)
        del self._written[path]
        self._named[name].remove(path)
        if not self._named[name]:
            del self._named[name]
        self._forget()

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

    def _forget(self) -> None:
        self._included.clear()
        self._reached.clear()

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
