"""Which files of a tree a file includes."""

import functools
import posixpath
from collections import defaultdict
from collections.abc import Iterator

from curriculum.graph.repository import RepositoryGraph


class Includes:
    """Finds the files that are meant by what stands in #include, among those of one tree."""

    def __init__(self, graph: RepositoryGraph) -> None:
        """Costs one look at all paths."""
        self._graph = graph
        self._named: defaultdict[str, list[str]] = defaultdict(list)
        for path in graph.paths():
            self._named[posixpath.basename(path)].append(path)

    def of(self, path: str) -> list[str]:
        """The files of the tree that a file includes, each once, in the order of its text."""
        facts = self._graph.source(path).facts
        found = (self._resolved(path, written) for written in facts.includes)
        return [each for each in dict.fromkeys(found) if each is not None and each != path]

    def _resolved(self, path: str, written: str) -> str | None:
        """The file beside, else the one whose path ends so; of several the nearest, then the first."""
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), written))
        named = self._named.get(posixpath.basename(written), [])
        if beside in named:
            return beside
        ending = "/" + posixpath.normpath(written).lstrip("./")
        fitting = [each for each in named if f"/{each}".endswith(ending)]
        return min(fitting, key=lambda each: (folders_between(path, each), each), default=None)


@functools.lru_cache(maxsize=1 << 16)
def folders_between(path: str, other: str) -> int:
    """Steps from the folder of one file to that of another.

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
