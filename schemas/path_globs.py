"""Globs over paths of a repository. Matching takes time linear in the path, even for hostile globs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum


class Wildcard(Enum):
    """Wildcard of a glob."""

    WITHIN = "*"
    """Any characters except slashes."""
    ACROSS = "**"
    """Any characters."""
    ONE = "?"
    """One character."""


@dataclass(frozen=True, slots=True)
class PathGlob:
    """A glob as a sequence of characters and wildcards that matches a whole path.

    >>> glob = PathGlob(("a", "/", Wildcard.WITHIN, ".", "h"))
    >>> glob.matches("a/b.h"), glob.matches("a/b/c.h")
    (True, False)
    """

    tokens: tuple[str | Wildcard, ...]
    _head: str = field(init=False, repr=False, compare=False)
    """Characters before the first wildcard."""
    _places: dict[str | Wildcard, int] = field(init=False, repr=False, compare=False)
    """For each character or wildcard, a bit mask of its positions in the glob."""

    def __post_init__(self) -> None:
        places: dict[str | Wildcard, int] = {}
        for number, token in enumerate(self.tokens):
            places[token] = places.get(token, 0) | 1 << number
        object.__setattr__(self, "_head", _head(self.tokens))
        object.__setattr__(self, "_places", places)

    def matches(self, path: str) -> bool:
        """Return True if the glob matches the whole path.

        All states of the match are followed at once, as bits.
        """
        if not path.startswith(self._head):
            return False
        if len(self._head) == len(self.tokens):
            return len(path) == len(self._head)
        bit = self._places.get
        across, within, one = (bit(wildcard, 0) for wildcard in _OPEN)
        states = self._skipping(1 << len(self._head), across | within)
        for char in path[len(self._head) :]:
            staying = states & (across if char == "/" else across | within)
            passed = states & (bit(char, 0) | one)
            states = self._skipping(staying | passed << 1, across | within)
            if not states:
                return False
        return bool(states >> len(self.tokens))

    def _skipping(self, states: int, stars: int) -> int:
        """Return `states` with the states after stars, because a star also matches nothing."""
        while new := (states & stars) << 1 & ~states:
            states |= new
        return states


_OPEN = (Wildcard.ACROSS, Wildcard.WITHIN, Wildcard.ONE)


def _head(tokens: Sequence[str | Wildcard]) -> str:
    head: list[str] = []
    for token in tokens:
        if isinstance(token, Wildcard):
            break
        head.append(token)
    return "".join(head)
