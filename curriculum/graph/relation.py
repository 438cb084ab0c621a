"""Rules that tell which edges a context follows from a target, and which edges it trusts."""

from collections.abc import Mapping
from types import MappingProxyType

from schemas.corpus import EdgeTrust
from schemas.document import EdgeKind, EdgeLabel

Traversal = tuple[EdgeKind, bool]
"""Step along an edge: the edge's kind, and True if the step goes from the edge's source to its target."""
MAX_HOPS = 3
"""Maximum number of edges between a target and a related node."""
CONFIDENT = 0.5
"""Minimum confidence of an edge that is more likely right than wrong."""

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
    """Return True if a step leads from a target, or from a node related to it, to another related node.

    These are related to a function or class: its callers, callees, overrides, members, enclosing class, bases
    and the types it uses; callers of callers and callees of callees; the types and classes of callees and the
    classes of overrides; and the bases of all these types. Other callers of a callee and other callees of a
    caller are not related. Related to a build target are its direct and indirect linked targets and its
    compiled files.

    Args:
        before: the preceding step of the path; None for the first one.
        way: the step.
        hop: the number of the step in the path, from 1.

    >>> is_related(None, ("calls", True), 1), is_related(("calls", True), ("calls", True), 2)
    (True, True)
    >>> is_related(("calls", True), ("calls", False), 2)
    False
    """
    following = _FIRST if before is None else _AFTER.get(before, frozenset())
    return hop <= MAX_HOPS and way in following


def is_trusted(label: EdgeLabel, confidence: float, trust: EdgeTrust) -> bool:
    """Return True if an edge is followed under a corpus's setting `trust`.

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
