"""Relation to a target: the ways along edges that a context follows, and the edges that it trusts."""

from collections.abc import Mapping
from types import MappingProxyType

from schemas.corpus import EdgeTrust
from schemas.document import EdgeKind, EdgeLabel

Traversal = tuple[EdgeKind, bool]
"""An edge's kind, and True where it is followed from its source."""
LONGEST = 3
"""Edges on the way from a target to what is related to it, at most."""
CONFIDENT = 0.5
"""Least confidence of an edge that is more likely right than wrong."""

_OUT, _IN = True, False
_NAMED: frozenset[Traversal] = frozenset({("uses", _OUT), ("constructs", _OUT), ("member", _OUT)})
_FIRST: frozenset[Traversal] = frozenset(
    {
        *_NAMED,
        ("calls", _OUT),
        ("calls", _IN),
        ("overrides", _OUT),
        ("overrides", _IN),
        ("inherits", _OUT),
        ("member", _IN),
        ("links", _OUT),
        ("compiles", _OUT),
    }
)
_BASES: frozenset[Traversal] = frozenset({("inherits", _OUT)})
_AFTER: Mapping[Traversal, frozenset[Traversal]] = MappingProxyType(
    {
        ("calls", _OUT): frozenset({("calls", _OUT), *_NAMED}),
        ("calls", _IN): frozenset({("calls", _IN)}),
        ("overrides", _OUT): frozenset({("member", _OUT)}),
        ("overrides", _IN): frozenset({("member", _OUT)}),
        ("uses", _OUT): _BASES,
        ("constructs", _OUT): _BASES,
        ("member", _OUT): _BASES,
        ("inherits", _OUT): _BASES,
        ("links", _OUT): frozenset({("links", _OUT)}),
    }
)


def is_related(before: Traversal | None, way: Traversal, hop: int) -> bool:
    """Return True if a way leads to something related, as edge `hop` behind the way `before` it.

    A target's callers, callees, overrides, members, class, bases and the types that it names are related;
    callers of callers, and what callees call; classes and types of callees, classes of overrides; bases of
    all these types. So a callee's other callers aren't, nor a caller's other callees. To a build target
    are related what it links, directly or not, and the files that it compiles.

    >>> is_related(None, ("calls", True), 1), is_related(("calls", True), ("calls", True), 2)
    (True, True)
    >>> is_related(("calls", True), ("calls", False), 2)
    False
    """
    following = _FIRST if before is None else _AFTER.get(before, frozenset())
    return hop <= LONGEST and way in following


def is_trusted(label: EdgeLabel, confidence: float, trust: EdgeTrust) -> bool:
    """Return True if an edge is one that a corpus follows.

    >>> is_trusted("syntactic", 0.3, "confident"), is_trusted("syntactic", 1.0, "resolved")
    (False, False)
    """
    match trust:
        case "all":
            return True
        case "confident":
            return confidence >= CONFIDENT
        case "resolved":
            return label in ("resolved", "overridden")
        case "none":
            return False
