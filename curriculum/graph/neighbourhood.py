"""Neighbourhood of some functions of a repository, nearest first, within a budget of bytes.

A breadth-first search along the edges of a graph. Each definition that it takes becomes a fragment of its
file; no line is in two fragments, and none of a target's is in any.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from curriculum.graph.facts import Includes, NodeId, RepositoryGraph, folders_between, symbol
from curriculum.graph.fragments import WHOLE_FILE, Budget, Costs, Form, Fragment, Link
from curriculum.graph.line_ranges import size_of
from schemas.document import EdgeKind

DISTANT = 3
"""Number of edges from which on a function is shown by its signature."""
LARGEST_SHARE = 8
"""A fragment takes one part in so many of the budget at most; a longer function shows its signature."""
STEP_SHARE = 2
"""Fragments that one kind of step led to take one part in so many: what everything calls leaves room."""
TURN = 1
"""Extra distance of the other callers of a callee, and of the other callees of a caller."""
MISSES = 64
"""The search ends when so many in a row were too large for what is left."""


class Step(NamedTuple):
    """A way to go from a node: along edges of a kind, from their source if `outward`."""

    kind: EdgeKind
    outward: bool
    cost: int = 1
    """Extra distance of its end; 0 puts it before all that is as near."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOrder:
    """Steps that a search takes; of two that lead equally far, the first is taken first.

    `includes` in `far` stands for the skeletons of the targets' own files and of those that they include,
    which count as two steps away.
    """

    near: tuple[Step, ...]
    """Steps from a target."""
    far: tuple[Step, ...]
    """Steps from anything else."""


class Neighbourhood(NamedTuple):
    """Fragments around some functions, nearest first, and what they don't repeat."""

    fragments: tuple[Fragment, ...]
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
    via: Link

    @property
    def step(self) -> tuple[EdgeKind, bool]:
        return self.via.kind, self.via.target == self.node


def neighbourhood(
    graph: RepositoryGraph,
    targets: Sequence[Fragment],
    budget: int,
    order: SearchOrder,
    costs: Costs,
) -> Neighbourhood:
    """Fragments around the targets, nearest first, which cost `budget` at most; the same in every run.

    A function is shown whole, or by its signature where it is distant or too long; a class or file as a
    skeleton. Of definitions with the same text the first that the search reaches is shown, which of those
    that are equally far is the one with the nearest path; none is if the target has that text.
    Takes time for the edges of what is taken and the facts of its files.
    """
    spent = Budget(graph=graph, costs=costs, budget=budget)
    spent.hide(targets)
    search = _Search(graph=graph, order=order, spent=spent)
    search.run(sorted(targets, key=lambda each: each.node))
    return Neighbourhood(
        fragments=tuple(spent.fragments),
        repeated_definitions=len(search.repeated),
        repeated_bytes=sum(search.repeated),
    )


@dataclass(kw_only=True, slots=True)
class _Search:
    graph: RepositoryGraph
    order: SearchOrder
    spent: Budget
    repeated: list[int] = field(default_factory=list)
    """Bytes of each definition that was left out because its text is shown."""
    _waiting: list[_Place] = field(default_factory=list)
    _seen: set[NodeId] = field(default_factory=set)
    _spent: Counter[tuple[EdgeKind, bool]] = field(default_factory=Counter)

    def run(self, targets: Sequence[Fragment]) -> None:
        nodes = [each.node for each in targets]
        self._seen.update(nodes)
        for node in nodes:
            if symbol(self.graph, node).kind == "function":
                self._look_around(node, self.order.near, distance=0, hop=1)
            else:
                self._look_around(node, self.order.far, distance=1, hop=1)
        self._look_at_files(nodes)
        misses = 0
        while self._waiting and misses < MISSES:
            place = heappop(self._waiting)
            if place.node in self._seen or self._is_spent(place):
                continue
            self._seen.add(place.node)
            forms = self.spent.forms(place.node, in_full=place.hop < DISTANT)
            if forms and self.spent.is_repeated(place.node, forms[0].ranges):
                self.repeated.append(size_of(forms[0].ranges))
            elif any(self._take(place, form) for form in forms):
                misses = 0
                self._expand(place)
            else:
                misses += bool(forms)

    def _expand(self, place: _Place) -> None:
        if place.node.number == WHOLE_FILE:
            return
        kind, outward = place.step
        back = (kind, not outward) if kind == "calls" else None
        far = self.order.far
        self._look_around(place.node, far, distance=place.distance, hop=place.hop + 1, back=back)

    def _look_around(
        self,
        node: NodeId,
        steps: Sequence[Step],
        *,
        distance: int,
        hop: int,
        back: tuple[EdgeKind, bool] | None = None,
    ) -> None:
        """Let what these steps lead to wait for its turn; the way `back` is longer."""
        ranks = {(step.kind, step.outward): rank for rank, step in enumerate(steps)}
        for near in self.graph.neighbours(node):
            step = (near.kind, near.outward)
            rank = ranks.get(step)
            if rank is None or near.node in self._seen:
                continue
            ends = (node, near.node) if near.outward else (near.node, node)
            place = _Place(
                distance=distance + steps[rank].cost + TURN * (step == back),
                rank=rank,
                doubt=-near.confidence,
                folders=folders_between(node.path, near.node.path),
                node=near.node,
                hop=hop,
                via=Link(*ends, near.kind, near.label, near.confidence),
            )
            heappush(self._waiting, place)

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
                    via=Link(node, file, kind, "syntactic", 1.0),
                )
                heappush(self._waiting, place)

    def _is_spent(self, place: _Place) -> bool:
        return self._spent[place.step] * STEP_SHARE > self.spent.budget

    def _take(self, place: _Place, form: Form) -> bool:
        fragment = Fragment(
            node=place.node, form=form.form, ranges=form.ranges, hop=place.hop, via=place.via
        )
        cost = self.spent.costs.of(fragment)
        if cost * LARGEST_SHARE > self.spent.budget or not self.spent.take(fragment):
            return False
        self._spent[place.step] += cost
        return True
