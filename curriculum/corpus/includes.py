"""Headers that a file includes, found by the file's text alone."""

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable

_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)


def included_names(content: bytes) -> list[str]:
    r"""Return the names in the #include directives of a file, sorted.

    >>> included_names(b'#include "b.h"\n# include <a/c.h>\n')
    ['a/c.h', 'b.h']
    """
    names = {name.decode(errors="surrogateescape") for name in _INCLUDE.findall(content)}
    return sorted(names)


class HeaderPaths:
    """Index that finds headers by the last components of their paths, which #include directives name."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = sorted(paths, key=_from_its_end)
        """Paths of the headers, sorted so that paths with a common end are next to each other."""
        self._ends = [*map(_from_its_end, self.paths)]
        self._places = {path: place for place, path in enumerate(self.paths)}

    def matching(self, path: str, name: str) -> range:
        """Return the positions in `paths` of the headers that `name` may mean in the file `path`.

        If `name` exists relative to the file's folder, only that header matches. Otherwise all headers whose
        paths end with `name` match.
        """
        last = posixpath.basename(name)
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        place = self._places.get(beside)
        if place is not None and posixpath.basename(beside) == last:
            return range(place, place + 1)
        plain = posixpath.normpath(name).lstrip("./")
        if not last or posixpath.basename(plain) != last:
            return range(0)
        end = _from_its_end(plain)
        # Reversed paths end with a slash. "0" is the next character, so it ends the range.
        return range(bisect_left(self._ends, end), bisect_left(self._ends, f"{end[:-1]}0"))


def _from_its_end(path: str) -> str:
    return f"/{path}"[::-1]
