"""Neighbourhood of some functions of a repository, nearest first, within a budget of bytes.

A breadth-first search along the edges of a graph. Each definition that it takes becomes a fragment of its
file; no line is in two fragments, and none of a target's is in any.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import NamedTuple

from curriculum.graph.facts import Includes, NodeId, Range, RepositoryGraph, folders_between, symbol
from curriculum.graph.line_ranges import Lines, outside_bodies, size_of, with_text, without
from schemas.document import ChunkForm, EdgeKind, EdgeLabel

SMALL_BODY = 256
"""Bytes inside of a body; to leave out fewer costs more sense than it saves."""
WHOLE_FILE = -1
"""The number of a node that stands for a file."""


class Link(NamedTuple):
    """An edge between two nodes."""

    source: NodeId
    target: NodeId
    kind: EdgeKind
    label: EdgeLabel
    confidence: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Fragment:
    """Excerpt of one definition, or of a file where the node's number is WHOLE_FILE."""

    node: NodeId
    form: ChunkForm
    ranges: tuple[Range, ...]
    """Whole lines of its file, sorted, with lines that aren't shown between any two."""
    hop: int
    """Edges from the nearest target."""
    via: Link | None
    """The edge that led here; None for a target."""


class Form(NamedTuple):
    """One way to show a node."""

    form: ChunkForm
    ranges: tuple[Range, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Costs of fragments beside their bytes."""

    lead: Callable[[str], int]
    """The line that names a file, by its path."""
    gap: int
    """The line that stands between two ranges or fragments of one file."""

    def of(self, fragment: Fragment, beside: Fragment | None = None) -> int:
        """Bytes of a fragment in a document, at most; `beside` another one of its file it has no lead."""
        is_led = beside is None or beside.node.path != fragment.node.path
        lead = self.lead(fragment.node.path) if is_led else self.gap
        return lead + size_of(fragment.ranges) + self.gap * (len(fragment.ranges) - 1)

    def of_all(self, fragments: Sequence[Fragment]) -> int:
        """Bytes of fragments that stand in this order."""
        return sum(
            self.of(each, beside)
            for beside, each in zip((None, *fragments), fragments, strict=False)
        )


def span_of(graph: RepositoryGraph, node: NodeId) -> Range:
    """The lines of a definition."""
    found = symbol(graph, node)
    return Range(found.start, found.end)


def whole(graph: RepositoryGraph, node: NodeId) -> Fragment:
    """A target as a fragment."""
    return Fragment(node=node, form="whole", ranges=(span_of(graph, node),), hop=0, via=None)


@dataclass(kw_only=True, slots=True)
class Budget:
    """Lines that are shown, by fragment, and their cost so far.

    Most definitions are shown by themselves. A class or a file is shown as a skeleton: what lies outside
    of bodies and isn't shown elsewhere. It gives lines away to definitions that come later.
    """

    graph: RepositoryGraph
    costs: Costs
    budget: int
    fragments: list[Fragment] = field(default_factory=list)
    used: int = 0
    _hidden: defaultdict[str, Lines] = field(default_factory=lambda: defaultdict(Lines))
    _alone: defaultdict[str, Lines] = field(default_factory=lambda: defaultdict(Lines))
    """Lines of definitions that are shown by themselves."""
    _shown: defaultdict[str, Lines] = field(default_factory=lambda: defaultdict(Lines))
    """These lines, and those of skeletons."""
    _skeletons: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Indices of fragments, by path."""
    _texts: dict[str, bytes] = field(default_factory=dict)
    _wordings: set[bytes] = field(default_factory=set)
    """Texts of all fragments: what they show, and the whole definitions that they show."""

    def hide(self, fragments: Iterable[Fragment]) -> None:
        """Keep the lines of these fragments out of all others."""
        for each in fragments:
            self._hidden[each.node.path].add(each.ranges)
            self._wordings.update(self._worded(each.node, each.ranges))

    def forms(self, node: NodeId, *, in_full: bool) -> list[Form]:
        """Return the forms in which a node can still be shown, the fullest first; none if its lines are.

        Without `in_full`, a function is shown by its signature unless its body is small.
        """
        if self._is_skeleton(node):
            lines = self._skeleton(node)
            return [lines] if lines.ranges else []
        span = span_of(self.graph, node)
        is_cut = self._alone[node.path].missing([span]) != (span,)
        if is_cut or not self._shown[node.path].missing([span]):
            return []
        signature = outside_bodies(self._text(node.path), span, [symbol(self.graph, node)])
        saved = size_of([span]) - size_of(signature)
        full = [Form("whole", (span,))] if in_full or saved <= SMALL_BODY else []
        return [*full, Form("signature", signature)] if saved else full

    def is_repeated(self, node: NodeId, ranges: Sequence[Range]) -> bool:
        """Return True where a definition, or these lines of it, equals one that was taken up already."""
        return not self._wordings.isdisjoint(self._worded(node, ranges))

    def _worded(self, node: NodeId, ranges: Sequence[Range]) -> Iterator[bytes]:
        """The text of some lines, and of the whole definition or file, without the blanks around them."""
        text = self._text(node.path)
        yield b"".join(text[start:end] for start, end in ranges).strip()
        whole = text
        if node.number != WHOLE_FILE:
            span = span_of(self.graph, node)
            whole = text[span.start : span.end]
        yield whole.strip()

    def take(self, fragment: Fragment) -> bool:
        """Show a fragment if the budget allows it and no skeleton would be left without a line."""
        path = fragment.node.path
        is_skeleton = self._is_skeleton(fragment.node)
        smaller = {} if is_skeleton else self._smaller(path, fragment.ranges)
        cost = self.costs.of(fragment, self.fragments[-1] if self.fragments else None) + sum(
            self.costs.of(each) - self.costs.of(self.fragments[at]) for at, each in smaller.items()
        )
        if self.used + cost > self.budget or not all(each.ranges for each in smaller.values()):
            return False
        for at, each in smaller.items():
            self.fragments[at] = each
        if is_skeleton:
            self._skeletons[path].append(len(self.fragments))
        else:
            self._alone[path].add(fragment.ranges)
        self._shown[path].add(fragment.ranges)
        self._wordings.update(self._worded(fragment.node, fragment.ranges))
        self.fragments.append(fragment)
        self.used += cost
        return True

    def _is_skeleton(self, node: NodeId) -> bool:
        """Return True if a node is a class or a file, or holds a target."""
        if node.number == WHOLE_FILE or symbol(self.graph, node).kind == "class":
            return True
        span = span_of(self.graph, node)
        return self._hidden[node.path].missing([span]) != (span,)

    def _skeleton(self, node: NodeId) -> Form:
        text = self._text(node.path)
        is_file = node.number == WHOLE_FILE
        span = Range(0, len(text)) if is_file else span_of(self.graph, node)
        lines = outside_bodies(text, span, self.graph.source(node.path).facts.symbols)
        left = self._shown[node.path].missing(self._hidden[node.path].missing(lines))
        left = with_text(text, left)
        return Form("whole" if left == (span,) else "skeleton", left)

    def _smaller(self, path: str, ranges: tuple[Range, ...]) -> dict[int, Fragment]:
        """The skeletons that lose lines to `ranges`, as they are without."""
        found: dict[int, Fragment] = {}
        for at in self._skeletons[path]:
            before = self.fragments[at]
            if ranges[-1].end <= before.ranges[0].start or before.ranges[-1].end <= ranges[0].start:
                continue
            left = without(before.ranges, ranges)
            if left != before.ranges:
                left = with_text(self._text(path), left)
                found[at] = replace(before, form="skeleton", ranges=left)
        return found

    def _text(self, path: str) -> bytes:
        if path not in self._texts:
            self._texts[path] = self.graph.source(path).file.blob.text.encode()
        return self._texts[path]


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
            if place.node in self._seen or self._spent[place.step] * STEP_SHARE > self.spent.budget:
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

    def _take(self, place: _Place, form: Form) -> bool:
        fragment = Fragment(
            node=place.node, form=form.form, ranges=form.ranges, hop=place.hop, via=place.via
        )
        cost = self.spent.costs.of(fragment)
        if cost * LARGEST_SHARE > self.spent.budget or not self.spent.take(fragment):
            return False
        self._spent[place.step] += cost
        return True
