"""Which types each definition of a file mentions."""

import re
from collections import defaultdict

from curriculum.graph.patterns import Nodes
from curriculum.graph.sweep import Swept

_LAST_WORD = re.compile(r"\w+\Z")
_LONGEST_SCOPE = 40


def types_by_draft(mentions: Nodes, swept: Swept, text: str) -> dict[int, tuple[str, ...]]:
    """By draft the names of types, sorted, its own left out; a class's methods have their own.

    The parser makes up names of no bytes where it misses one.
    """
    starts = [node.start_byte for node in mentions]
    found: defaultdict[int, set[str]] = defaultdict(set)
    for node, start, symbol in zip(mentions, starts, swept.symbols_at(starts), strict=True):
        name = text[start : node.end_byte]
        if symbol >= 0 and name:
            if text.startswith("::", start - 2):
                name = _scopes(text, start) + name
            found[symbol].add(name)
    return {
        symbol: tuple(sorted(names - {swept.drafts[symbol].name}))
        for symbol, names in found.items()
    }


def _scopes(text: str, place: int) -> str:
    """The scopes that a name is written with, without those that have template arguments."""
    first = place
    while text.startswith("::", first - 2):
        head = text[max(0, first - _LONGEST_SCOPE) : first - 2]
        word = _LAST_WORD.search(head)
        if word is None:
            break
        first -= 2 + len(word[0])
    return text[first:place]
