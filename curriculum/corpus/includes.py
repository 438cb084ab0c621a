"""Headers that files include, by their text alone."""

import posixpath
import re
from collections.abc import Iterable, Iterator

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
        self._by_name: dict[str, list[str]] = {}
        for path in paths:
            self._by_name.setdefault(posixpath.basename(path), []).append(path)

    def matching(self, path: str, name: str) -> Iterator[str]:
        """Yield the headers that a file at `path` may mean by a name: the one beside it, else all."""
        candidates = self._by_name.get(posixpath.basename(name), ())
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if beside in candidates:
            yield beside
            return
        plain = posixpath.normpath(name).lstrip("./")
        yield from (candidate for candidate in candidates if f"/{candidate}".endswith(f"/{plain}"))
