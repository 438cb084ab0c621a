"""Which types each definition of a file mentions."""

import re
from collections import defaultdict

from curriculum.graph.patterns import Nodes
from curriculum.graph.sweep import Swept

_SCOPES = re.compile(r"(?:(?<!\w)[^\W\d]\w*\s*::\s*)+\Z")
_LONGEST_SCOPES = 80


def types_by_draft(mentions: Nodes, swept: Swept, text: str) -> dict[int, tuple[str, ...]]:
    """By draft the names of types, sorted, its own left out; a class's methods have their own."""
    starts = [node.start_byte for node in mentions]
    found: defaultdict[int, set[str]] = defaultdict(set)
    for node, start, symbol in zip(mentions, starts, swept.symbols_at(starts), strict=True):
        if symbol >= 0:
            name = text[start : node.end_byte]
            if text.startswith("::", start - 2):
                name = _scopes(text, start) + name
            found[symbol].add(name)
    return {
        symbol: tuple(sorted(names - {swept.drafts[symbol].name}))
        for symbol, names in found.items()
    }


def _scopes(text: str, place: int) -> str:
    """The scopes that a name is written with, without those that have template arguments."""
    found = _SCOPES.search(text, max(0, place - _LONGEST_SCOPES), place)
    return "".join(found[0].split()) if found else ""
