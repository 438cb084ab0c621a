"""Headers that files include, by their text alone."""

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable

_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)


def included_names(content: bytes) -> list[str]:
    r"""Return what a file includes, sorted.

    >>> included_names(b'#include "b.h"\n# include <a/c.h>\n')
    ['a/c.h', 'b.h']
    """
    names = {name.decode(errors="surrogateescape") for name in _INCLUDE.findall(content)}
    return sorted(names)


class HeaderPaths:
    """Paths of headers by their ends, as #include names them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = sorted(paths, key=_from_its_end)
        """Paths of one end lie side by side."""
        self._ends = [*map(_from_its_end, self.paths)]
        self._places = {path: place for place, path in enumerate(self.paths)}

    def matching(self, path: str, name: str) -> range:
        """Return the places of headers that a file at `path` may mean: the one beside it, else all."""
        last = posixpath.basename(name)
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        place = self._places.get(beside)
        if place is not None and posixpath.basename(beside) == last:
            return range(place, place + 1)
        plain = posixpath.normpath(name).lstrip("./")
        if not last or posixpath.basename(plain) != last:
            return range(0)
        end = _from_its_end(plain)
        # An end begins with the last letter of a path and ends with a slash, which 0 follows.
        return range(bisect_left(self._ends, end), bisect_left(self._ends, f"{end[:-1]}0"))


def _from_its_end(path: str) -> str:
    return f"/{path}"[::-1]
