"""Repository graph that takes its edges from a compiler frontend wherever these edges are still valid.

A snapshot describes one commit. In the tree of another commit, an edge of the snapshot is used if the name
and the scope of its source are the same, and in addition:

    calls, constructs, uses    the bytes of the function from its name to its last brace are the same
    inherits, uses, member     (of a class) the bytes of the class are the same
    overrides, member          (of a method) the bytes of the method's class are the same

All other edges come from syntax trees and are labelled `syntactic`. If a definition has edges of the
snapshot, an edge of the syntax tree is added only where the frontend has no answer: if the edge's target
isn't in this tree, if all translation units that contain the definition have errors, or if a template calls a
name that the frontend can't resolve.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from curriculum.graph.clang.graph_snapshot import (
    GraphSnapshot,
    IndexedEdge,
    IndexedFunction,
)
from curriculum.graph.clang.matching import Matching
from curriculum.graph.facts import Neighbour, NodeId, RepositoryGraph, SourceFile, symbol
from schemas.change import TreeDelta
from schemas.document import EDGE_LABELS, EdgeKind
from schemas.reports import CoverageReport

_OF_FUNCTIONS: frozenset[EdgeKind] = frozenset(("calls", "constructs", "uses"))
_OF_CLASSES: frozenset[EdgeKind] = frozenset(("inherits", "uses", "member"))
_OF_METHODS: frozenset[EdgeKind] = frozenset(("overrides", "member"))
"""Kinds of edges that a method has because of its class."""


class MovingGraph(RepositoryGraph, Protocol):
    """Repository graph that is updated commit by commit."""

    def apply(self, delta: TreeDelta) -> None:
        """Update the graph from the previous tree to the next one, which differ by `delta`."""


@dataclass(kw_only=True, slots=True)
class _Known:
    """Outward edges of one definition according to the snapshot."""

    kinds: set[EdgeKind]
    """Kinds of edges for which the snapshot is valid."""
    edges: dict[tuple[EdgeKind, NodeId], Neighbour]
    named: set[tuple[EdgeKind, str]]
    """Kind and name of each edge's target, for targets that are in the tree."""
    missing: set[tuple[EdgeKind, str]]
    """Kind and name of each edge's target, for targets that have changed or are not in the tree."""
    open: set[EdgeKind]
    """Kinds of edges that may be incomplete, because the frontend may have missed some."""

    def keeps(self, edge: Neighbour, name: str) -> bool:
        """Return True if `edge`, an outward edge of the syntax tree to a target named `name`, is kept."""
        kind = edge.kind
        if kind not in self.kinds:
            return True
        if (kind, edge.node) in self.edges:
            return False
        return (kind, name) in self.missing or (
            kind in self.open and (kind, name) not in self.named
        )


class ClangGraph:
    """Repository graph of a snapshot, with the graph of syntax trees as a fallback.

    An update costs time for the changed files of a commit; a query costs time for the definitions around a
    node. No frontend is needed.
    """

    def __init__(self, graph: MovingGraph, snapshot: GraphSnapshot) -> None:
        self._graph = graph
        self._matching = Matching(snapshot)
        self._outward: dict[int, list[IndexedEdge]] = defaultdict(list)
        self._inward: dict[int, list[IndexedEdge]] = defaultdict(list)
        self._classes: dict[int, int] = {}
        """For each method, the class that contains it."""
        for edge in snapshot.edges:
            self._outward[edge.source].append(edge)
            self._inward[edge.target].append(edge)
            if edge.kind == "member":
                self._classes[edge.source] = edge.target
        self._known_by_node: dict[NodeId, _Known | None] = {}
        self._answers: dict[NodeId, tuple[Neighbour, ...]] = {}
        self._matching.update(graph, (), graph.paths())

    def apply(self, delta: TreeDelta) -> None:
        """Update this graph and the graph of syntax trees to the next tree, which differs by `delta`."""
        self._graph.apply(delta)
        self._matching.update(self._graph, delta.removed, (file.path for file in delta.files))
        self._known_by_node.clear()
        self._answers.clear()

    def paths(self) -> Iterable[str]:
        """Return the paths of the tree's files, sorted."""
        return self._graph.paths()

    def source(self, path: str) -> SourceFile:
        """Return a file of the tree; raise a KeyError for an unknown path."""
        return self._graph.source(path)

    def neighbours(self, node: NodeId) -> Sequence[Neighbour]:
        """Return the edges at `node` in both directions, without duplicates.

        The edges are sorted by (kind, outward first, node).
        """
        if node not in self._answers:
            written = self._graph.neighbours(node)
            found = [
                *self._outgoing(node, (edge for edge in written if edge.outward)),
                *self._incoming(node, (edge for edge in written if not edge.outward)),
            ]
            found.sort(key=lambda edge: (edge.kind, not edge.outward, edge.node))
            self._answers[node] = tuple(found)
        return self._answers[node]

    def covers(self, node: NodeId) -> bool:
        """Return True if the snapshot has the function at `node` with the same bytes as the current tree."""
        return any(map(self._matching.is_same, self._matching.items_of(node)))

    def coverage(self) -> CoverageReport:
        """Return how many functions of the current tree the snapshot covers.

        Costs time for every function.
        """
        matching = self._matching
        nodes = [
            NodeId(path, number)
            for path in self.paths()
            for number, definition in enumerate(self.source(path).facts.symbols)
            if definition.kind == "function" and definition.body is not None
        ]
        matched = [found for node in nodes if (found := matching.items_of(node))]
        same = ([matching.items[at] for at in found if matching.is_same(at)] for found in matched)
        covered = [items for items in same if items]
        return CoverageReport(
            functions=len(nodes),
            matched=len(matched),
            covered=len(covered),
            partial=sum(1 for items in covered if all(item.is_partial for item in items)),
            fallback=len(nodes) - len(covered),
        )

    def _outgoing(self, node: NodeId, written: Iterable[Neighbour]) -> Iterator[Neighbour]:
        known = self._known(node)
        if known is not None:
            yield from known.edges.values()
        for edge in written:
            if known is None or known.keeps(edge, symbol(self._graph, edge.node).name):
                yield edge

    def _incoming(self, node: NodeId, written: Iterable[Neighbour]) -> Iterator[Neighbour]:
        """Yield the inward edges of `node`, which are derived from the outward edges of other nodes."""
        name = symbol(self._graph, node).name
        for near in written:
            known = self._known(near.node)
            if known is None or known.keeps(near._replace(node=node), name):
                yield near
        for source, kind in self._sources(node):
            known = self._known(source)
            edge = known.edges.get((kind, node)) if known else None
            if edge is not None:
                yield edge._replace(node=source, outward=False)

    def _sources(self, node: NodeId) -> set[tuple[NodeId, EdgeKind]]:
        """Return (source, kind) of each edge to `node` in the snapshot whose source is in the tree."""
        found: set[tuple[NodeId, EdgeKind]] = set()
        for index in self._matching.items_of(node):
            for edge in self._inward[index]:
                source = self._matching.node(edge.source)
                if source is not None:
                    found.add((source, edge.kind))
        return found

    def _known(self, node: NodeId) -> _Known | None:
        if node not in self._known_by_node:
            self._known_by_node[node] = self._look_up(node)
        return self._known_by_node[node]

    def _look_up(self, node: NodeId) -> _Known | None:
        known = _Known(kinds=set(), edges={}, named=set(), missing=set(), open=set())
        for index in self._matching.items_of(node):
            item, kinds = self._matching.items[index], self._kinds(index)
            known.kinds |= kinds
            if item.is_partial:
                known.open |= kinds
            elif item.is_template and "calls" in kinds:
                known.open.add("calls")
            for edge in self._outward[index]:
                if edge.kind in kinds:
                    self._add(known, edge)
        return known if known.kinds else None

    def _kinds(self, index: int) -> set[EdgeKind]:
        """Return the kinds of outward edges for which the snapshot is valid at its item `index`."""
        kinds: set[EdgeKind] = set()
        is_function = isinstance(self._matching.items[index], IndexedFunction)
        if self._matching.is_same(index):
            kinds |= _OF_FUNCTIONS if is_function else _OF_CLASSES
        if is_function and index in self._classes and self._matching.is_same(self._classes[index]):
            kinds |= _OF_METHODS
        return kinds

    def _add(self, known: _Known, edge: IndexedEdge) -> None:
        target = self._matching.node(edge.target)
        name = self._matching.items[edge.target].name
        if target is None:
            known.missing.add((edge.kind, name))
            return
        known.named.add((edge.kind, name))
        confidence = 1.0 if edge.label == "resolved" else 1.0 / edge.candidates
        found = Neighbour(target, edge.kind, True, edge.label, confidence)
        key = (edge.kind, target)
        known.edges[key] = min(
            known.edges.get(key, found),
            found,
            key=lambda near: (EDGE_LABELS.index(near.label), -near.confidence),
        )
