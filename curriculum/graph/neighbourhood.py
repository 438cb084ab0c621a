"""Neighbourhood of some functions in a repository: nearby definitions, nearest first, within a byte budget.

A breadth-first search starts at the targets and follows the edges of a graph: either all edges, or only those
to nodes related to a target. Each definition found becomes a fragment of its file. No line is in two
fragments, or in both a fragment and a target.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from curriculum.graph.facts import Includes, NodeId, RepositoryGraph, folders_between, symbol
from curriculum.graph.fragments import (
    WHOLE_FILE,
    Budget,
    Fragment,
    FragmentCosts,
    NodeForm,
    NodeLink,
)
from curriculum.graph.line_ranges import size_of
from curriculum.graph.relation import Traversal, is_related, is_trusted
from schemas.corpus import ContextSettings
from schemas.document import EdgeKind, LeftOutReason

DISTANT = 3
"""Minimum number of edges from a target at which functions are shown only by their signatures."""
DISTANT_RELATED = 2
"""The same as DISTANT, for contexts that show only related nodes. At this distance are callers of callers and
callees of callees.
"""
MAX_SHARE = 8
"""A fragment takes at most 1/MAX_SHARE of the budget; a longer function is shown by its signature."""
STEP_SHARE = 2
"""Fragments found by one kind of step take at most 1/STEP_SHARE of the budget, so that other kinds have room.
"""
TURN_COST = 1
"""Distance added to a step from a callee to its other callers, or from a caller to its other callees."""
MAX_MISSES = 64
"""The search ends after this many consecutive definitions that exceed the remaining budget."""
MAX_LEFT_OUT = 5
"""Maximum number of rejected definitions that are reported."""


class GraphStep(NamedTuple):
    """Step of the search along an edge of one kind.

    With `outward`, the step goes from the edge's source to its target, else from the target to the source.
    """

    kind: EdgeKind
    outward: bool
    cost: int = 1
    """Distance that the step adds. With 0, the node after the step counts as near as the node before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOrder:
    """Steps that a search takes. If two steps lead equally far, the one that is listed first is taken first.

    If `far` has a step of kind `includes`, the search also visits the targets' own files and the files that
    those include, at distance 2. They are shown as skeletons and are not related to any target.
    """

    near: tuple[GraphStep, ...]
    """Steps from a target that is a function."""
    far: tuple[GraphStep, ...]
    """Steps from all other nodes."""


class Rejected(NamedTuple):
    """Definition that is not shown, with the reason."""

    node: NodeId
    reason: LeftOutReason
    hop: int
    via: NodeLink


class Neighbourhood(NamedTuple):
    """Fragments around some functions, nearest first, and statistics about rejected definitions."""

    fragments: tuple[Fragment, ...]
    left_out: tuple[Rejected, ...]
    """Nearest of the definitions that aren't shown, at most MAX_LEFT_OUT."""
    repeated_definitions: int
    """Number of definitions that are left out because a nearer definition, or a target, has the same text."""
    repeated_bytes: int
    """Number of bytes that these repeated definitions would have taken."""


class _Place(NamedTuple):
    """Node in the search queue; the smallest one in tuple order is visited next."""

    distance: int
    rank: int
    doubt: float
    folders: int
    node: NodeId
    hop: int
    via: NodeLink

    @property
    def way(self) -> Traversal:
        return self.via.kind, self.via.target == self.node


def neighbourhood(
    graph: RepositoryGraph,
    targets: Sequence[Fragment],
    budget: int,
    order: SearchOrder,
    costs: FragmentCosts,
    settings: ContextSettings,
) -> Neighbourhood:
    """Return the fragments around the `targets` within `budget` bytes, nearest first; deterministic.

    A function is shown whole, or by its signature if it is distant or too long. A class or file is shown as a
    skeleton. If several definitions have the same text, only the first one found is shown, or none if a
    target has that text. Of definitions at equal distance, the one with the nearest path comes first. Costs
    time for the edges of shown nodes and for the facts of their files.
    """
    spent = Budget(graph=graph, costs=costs, budget=budget)
    spent.hide(targets)
    search = _Search(graph=graph, order=order, spent=spent, settings=settings)
    search.run(sorted(targets, key=lambda target: target.node))
    return Neighbourhood(
        fragments=tuple(spent.fragments),
        left_out=search.nearest_rejected(),
        repeated_definitions=len(search.repeated),
        repeated_bytes=sum(search.repeated),
    )


@dataclass(kw_only=True, slots=True)
class _Search:
    graph: RepositoryGraph
    order: SearchOrder
    spent: Budget
    settings: ContextSettings
    repeated: list[int] = field(default_factory=list)
    """Bytes of definitions that were left out because their text is already shown."""
    _waiting: list[_Place] = field(default_factory=list)
    _seen: set[NodeId] = field(default_factory=set)
    _spent: Counter[Traversal] = field(default_factory=Counter)
    _rejected: list[tuple[_Place, LeftOutReason]] = field(default_factory=list)

    @property
    def _is_filled(self) -> bool:
        return self.settings.context == "filled"

    def run(self, targets: Sequence[Fragment]) -> None:
        nodes = [target.node for target in targets]
        self._seen.update(nodes)
        for node in nodes:
            if symbol(self.graph, node).kind == "function":
                self._look_around(node, self.order.near, distance=0)
            else:
                self._look_around(node, self.order.far, distance=1)
        if self._is_filled:
            self._look_at_files(nodes)
        distant = DISTANT if self._is_filled else DISTANT_RELATED
        misses = 0
        while self._waiting and misses < MAX_MISSES:
            place = heappop(self._waiting)
            if place.node in self._seen:
                continue
            if self._spent[place.way] * STEP_SHARE > self.spent.budget:
                self._rejected.append((place, "no_room"))
                continue
            self._seen.add(place.node)
            forms = self.spent.forms(place.node, in_full=place.hop < distant)
            if forms and self.spent.is_repeated(place.node, forms[0].ranges):
                self.repeated.append(size_of(forms[0].ranges))
            elif any(self._take(place, form) for form in forms):
                misses = 0
                self._expand(place)
            elif forms:
                misses += 1
                self._rejected.append((place, "no_room"))
        self._rejected += [(place, "no_room") for place in self._waiting]

    def nearest_rejected(self) -> tuple[Rejected, ...]:
        """Return the rejected definitions, nearest first, without duplicates."""
        shown = {fragment.node for fragment in self.spent.fragments}
        found: dict[NodeId, Rejected] = {}
        for place, reason in sorted(self._rejected):
            if place.node not in shown and place.node not in found:
                found[place.node] = Rejected(place.node, reason, place.hop, place.via)
            if len(found) == MAX_LEFT_OUT:
                break
        return tuple(found.values())

    def _expand(self, place: _Place) -> None:
        if place.node.number != WHOLE_FILE:
            self._look_around(place.node, self.order.far, distance=place.distance, behind=place)

    def _look_around(
        self,
        node: NodeId,
        steps: Sequence[GraphStep],
        *,
        distance: int,
        behind: _Place | None = None,
    ) -> None:
        """Queue the nodes to which `steps` lead from `node`.

        A step along calls that turns back (from a callee to its other callers, or from a caller to its other
        callees) costs TURN_COST extra.
        """
        ranks = {(step.kind, step.outward): rank for rank, step in enumerate(steps)}
        before = None if behind is None else behind.way
        hop = 1 if behind is None else behind.hop + 1
        back = (before[0], not before[1]) if before and before[0] == "calls" else None
        for near in self.graph.neighbours(node):
            way = (near.kind, near.outward)
            rank = ranks.get(way)
            if rank is None or near.node in self._seen:
                continue
            ends = (node, near.node) if near.outward else (near.node, node)
            place = _Place(
                distance=distance + steps[rank].cost + TURN_COST * (way == back),
                rank=rank,
                doubt=-near.confidence,
                folders=folders_between(node.path, near.node.path),
                node=near.node,
                hop=hop,
                via=NodeLink(*ends, near.kind, near.label, near.confidence),
            )
            if not is_trusted(near.label, near.confidence, self.settings.edges):
                self._rejected.append((place, "doubtful"))
            elif self._is_filled or is_related(before, way, hop):
                heappush(self._waiting, place)
            else:
                self._rejected.append((place, "unrelated"))

    def _look_at_files(self, targets: Sequence[NodeId]) -> None:
        ranks = [rank for rank, step in enumerate(self.order.far) if step.kind == "includes"]
        if not ranks:
            return
        graph = self.graph
        includes = Includes(graph.paths(), lambda path: graph.source(path).facts.includes)
        first = {node.path: node for node in reversed(targets)}
        for path, node in sorted(first.items()):
            for other in (path, *includes.included(path)):
                file = NodeId(other, WHOLE_FILE)
                kind: EdgeKind = "member" if other == path else "includes"
                place = _Place(
                    distance=2,
                    rank=ranks[0],
                    doubt=-1.0,
                    folders=folders_between(path, other),
                    node=file,
                    hop=1,
                    via=NodeLink(node, file, kind, "syntactic", 1.0),
                )
                heappush(self._waiting, place)

    def _take(self, place: _Place, form: NodeForm) -> bool:
        fragment = Fragment(
            node=place.node, form=form.form, ranges=form.ranges, hop=place.hop, via=place.via
        )
        cost = self.spent.costs.size(fragment)
        if cost * MAX_SHARE > self.spent.budget or not self.spent.take(fragment):
            return False
        self._spent[place.way] += cost
        return True
