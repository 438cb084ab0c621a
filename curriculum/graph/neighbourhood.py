"""Neighbourhood of some functions of a repository, nearest first, within a budget of bytes.

A breadth-first search along the edges of a graph: those that lead to what is related to a target, or all.
Each definition that it takes becomes a fragment of its file; no line is in two fragments, and none of a
target's is in any.
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
"""Number of edges from which on a function is shown by its signature."""
DISTANT_RELATED = 2
"""The same where what is related alone is shown: callers of callers, and what callees call."""
MAX_SHARE = 8
"""A fragment takes one part in so many of the budget at most; a longer function shows its signature."""
STEP_SHARE = 2
"""Fragments that one kind of step led to take one part in so many: what everything calls leaves room."""
TURN = 1
"""Extra distance of the other callers of a callee, and of the other callees of a caller."""
MISSES = 64
"""The search ends when so many in a row were too large for what is left."""
MAX_LEFT_OUT = 5
"""Definitions of which a neighbourhood says that they would have come next."""


class GraphStep(NamedTuple):
    """A way to go from a node: along edges of a kind, from their source if `outward`."""

    kind: EdgeKind
    outward: bool
    cost: int = 1
    """Extra distance of its end; 0 puts it before all that is as near."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOrder:
    """Steps that a search takes; of two that lead equally far, the first is taken first.

    `includes` in `far` stands for the skeletons of the targets' own files and of those that they include,
    which count as two steps away and are related to nothing.
    """

    near: tuple[GraphStep, ...]
    """Steps from a target."""
    far: tuple[GraphStep, ...]
    """Steps from anything else."""


class Rejected(NamedTuple):
    """A definition that would have come next, and why it isn't shown."""

    node: NodeId
    reason: LeftOutReason
    hop: int
    via: NodeLink


class Neighbourhood(NamedTuple):
    """Fragments around some functions, nearest first, and what they don't repeat."""

    fragments: tuple[Fragment, ...]
    left_out: tuple[Rejected, ...]
    """The nearest definitions that aren't shown, at most MAX_LEFT_OUT."""
    repeated_definitions: int
    """Definitions that were left out because a nearer one, or the target, has the same text."""
    repeated_bytes: int
    """The bytes that these would have taken."""


class _Place(NamedTuple):
    """A node that waits for its turn; the smallest is next."""

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
    """Fragments around the targets, nearest first, which cost `budget` at most; the same in every run.

    A function is shown whole, or by its signature where it is distant or too long; a class or file as a
    skeleton. Of definitions with the same text the first that the search reaches is shown, which of those
    that are equally far is the one with the nearest path; none is if the target has that text.
    Takes time for the edges of what is taken and the facts of its files.
    """
    spent = Budget(graph=graph, costs=costs, budget=budget)
    spent.hide(targets)
    search = _Search(graph=graph, order=order, spent=spent, settings=settings)
    search.run(sorted(targets, key=lambda each: each.node))
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
    """Bytes of each definition that was left out because its text is shown."""
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
        while self._waiting and misses < MISSES:
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
        """Return what would have come next, the nearest first, each definition once."""
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
        """Let what these steps lead to wait for its turn; the way back along calls is longer."""
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
                distance=distance + steps[rank].cost + TURN * (way == back),
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
            for other in (path, *includes.of(path)):
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
        cost = self.spent.costs.of(fragment)
        if cost * MAX_SHARE > self.spent.budget or not self.spent.take(fragment):
            return False
        self._spent[place.way] += cost
        return True
