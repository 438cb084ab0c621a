"""Many units united into one snapshot: values of one unit without a cursor, and edges by number.

The snapshot is the same in any order of units: every rule is a least, a greatest or a union. A definition is
the same if its name and bytes are; what a unit without errors says of it replaces what others said.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import NamedTuple

from curriculum.graph.clang.graph_snapshot import (
    GraphSnapshot,
    IndexedClass,
    IndexedEdge,
    IndexedFunction,
    IndexedInclude,
    Outcome,
)
from curriculum.graph.facts import reached
from schemas.document import EDGE_LABELS, EdgeKind, EdgeLabel
from schemas.reports import CallsReport, DatabaseReport, EdgeCount, IndexReport, UnitProblem

Identity = tuple[str, int, int, int, str, bool]
"""Path, name_start, start, end and name of a definition, and whether it is a class."""
Chain = tuple[str, ...]
"""Names that the frontend gives one thing: its USR, then those of the templates that it came from.

USRs tell overloads, namespaces and files of static functions apart and are the same in every unit.
"""


class NamedReference(NamedTuple):
    """A definition says something about others: the candidates are `chains`, or whatever has `name`."""

    kind: EdgeKind
    label: EdgeLabel
    chains: tuple[Chain, ...]
    total: int
    """Candidates, those outside of the tree included."""
    name: str = ""
    """Name of a method that depends on its object's type."""
    arity: int = -1
    """Arguments of a dependent call."""
    within: Chain = ()
    """The class of that object, where it is known up to its template arguments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """A definition or declaration with what it says; `is_partial` of its value isn't decided yet."""

    usr: str
    value: IndexedFunction | IndexedClass
    is_declaration: bool
    owner: Chain
    """The class that it is a member of; () for none."""
    mentions: frozenset[NamedReference]
    calls: Mapping[str, int]
    """Places that call, by what is known of the callee: a field of CallsReport."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitResult:
    """Facts of one unit, with the outcome of its indexing."""

    outcome: Outcome
    reason: str = ""
    seen: tuple[Definition, ...] = ()
    includes: frozenset[IndexedInclude] = frozenset()
    errors: int = 0
    is_replaced: bool = False
    """True if a further entry has fewer errors than the first one, and is what counts."""


MAX_CANDIDATES = 8
"""A name that more methods of the tree have says nothing about which of them is called."""

MAX_OVERRIDERS = 64
"""A virtual call that may reach more methods is an edge to the one that it names alone."""


@dataclass(kw_only=True, slots=True)
class UnitNode:
    """One definition or declaration, as the units seen so far know it."""

    best: Definition
    is_partial: bool
    usrs: set[str] = field(default_factory=set)
    owners: set[Chain] = field(default_factory=set)
    mentions: set[NamedReference] = field(default_factory=set)

    def add(self, seen: Definition, *, is_partial: bool) -> None:
        """Take what a unit says; one without errors replaces what others said."""
        self.usrs.add(seen.usr)
        if seen.owner:
            self.owners.add(seen.owner)
        if is_partial > self.is_partial:
            return
        if is_partial < self.is_partial:
            self.mentions.clear()
        self.mentions |= seen.mentions
        if seen.value == self.best.value and seen.calls == self.best.calls:
            self.is_partial = is_partial
            return  # As nearly always: a header's definition is the same in every unit.
        if is_partial < self.is_partial or _order(seen) < _order(self.best):
            self.best = seen
        self.is_partial = is_partial

    def absorb(self, declaration: "UnitNode") -> None:
        """Take what a declaration says beside its definition: default arguments, bases, owner."""
        self.owners |= declaration.owners
        self.mentions |= declaration.mentions
        mine, its = self.best.value, declaration.best.value
        if isinstance(mine, IndexedFunction) and isinstance(its, IndexedFunction):
            value = replace(
                mine,
                min_arity=min(mine.min_arity, its.min_arity),
                is_virtual=mine.is_virtual or its.is_virtual,
            )
            self.best = replace(self.best, value=value)


@dataclass(kw_only=True, slots=True)
class Edges:
    """The edges between nodes, which are the functions and then the classes of a snapshot."""

    nodes: Sequence[UnitNode]
    by_usr: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    methods: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Methods by name."""
    owners: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    bases: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    overriders: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    found: dict[tuple[int, int, EdgeKind], tuple[EdgeLabel, int]] = field(default_factory=dict)
    """Label and candidates of an edge, by its ends and kind."""

    @classmethod
    def of(cls, nodes: Sequence[UnitNode]) -> "Edges":
        """Know the nodes by name, their owners, bases and overriders."""
        edges = cls(nodes=nodes)
        for number, node in enumerate(nodes):
            for usr in node.usrs:
                edges.by_usr[usr].append(number)
        for number, node in enumerate(nodes):
            for chain in node.owners:
                edges.owners[number].update(edges._targets(chain, node))
            if edges.owners[number] and isinstance(node.best.value, IndexedFunction):
                edges.methods[node.best.value.name].append(number)
            for mention in node.mentions:
                edges._note_family(number, node, mention)
        return edges

    def all(self) -> tuple[IndexedEdge, ...]:
        """Every edge, sorted."""
        for number, node in enumerate(self.nodes):
            for owner in sorted(self.owners[number] - {number}):
                self._add(number, owner, "member", "resolved", 1)
            for mention in node.mentions:
                self._follow(number, node, mention)
        return tuple(
            IndexedEdge(source=source, target=target, kind=kind, label=label, candidates=candidates)
            for (source, target, kind), (label, candidates) in sorted(self.found.items())
        )

    def _note_family(self, number: int, node: UnitNode, mention: NamedReference) -> None:
        for chain in mention.chains:
            if mention.kind == "inherits":
                self.bases[number].update(self._targets(chain, node))
            elif mention.kind == "overrides":
                for base in self._targets(chain, node):
                    self.overriders[base].add(number)

    def _follow(self, number: int, node: UnitNode, mention: NamedReference) -> None:
        is_class = isinstance(node.best.value, IndexedClass)
        if is_class and mention.kind in ("calls", "constructs"):
            return  # Of members' initialisers: no function says so.
        for targets, candidates in self._choices(node, mention):
            for target in targets:
                self._add(number, target, mention.kind, mention.label, candidates)

    def _choices(
        self, node: UnitNode, mention: NamedReference
    ) -> Iterator[tuple[Collection[int], int]]:
        """Yield targets that are meant, and among how many the choice is."""
        if mention.name:
            named = [
                method
                for method in self.methods.get(mention.name, ())
                if self._takes(method, mention.arity)
            ]
            found = self._of_class(named, mention.within) if mention.within else named
            if len(found) <= MAX_CANDIDATES:
                yield found, len(found)
            return
        chains = [self._targets(chain, node) for chain in mention.chains]
        if mention.label == "dependent":
            taking = {each for some in chains for each in some if self._takes(each, mention.arity)}
            yield taking, len(taking) + mention.total - len(chains)
        elif mention.label == "overridden":
            for some in chains:
                far = {each for callee in some for each in _closure(callee, self.overriders)}
                yield far if len(far) <= MAX_OVERRIDERS else some, len(far)
        else:
            yield from ((some, len(some)) for some in chains)

    def _of_class(self, methods: Iterable[int], chain: Chain) -> list[int]:
        """Return the methods of a class, else those of its bases."""
        classes = {number for usr in chain for number in self.by_usr.get(usr, ())}
        own = [method for method in methods if self.owners[method] & classes]
        if own:
            return own
        bases = {base for each in classes for base in _closure(each, self.bases)}
        return [method for method in methods if self.owners[method] & bases]

    def _takes(self, target: int, arity: int) -> bool:
        value = self.nodes[target].best.value
        if arity < 0 or isinstance(value, IndexedClass):
            return True
        return value.min_arity <= arity and (value.max_arity < 0 or arity <= value.max_arity)

    def _targets(self, chain: Chain, node: UnitNode) -> list[int]:
        """Return the targets of a chain's first known name; of several those in the same file, if any are."""
        for usr in chain:
            numbers = self.by_usr.get(usr)
            if numbers:
                near = [
                    number
                    for number in numbers
                    if self.nodes[number].best.value.path == node.best.value.path
                ]
                return near or numbers
        return []

    def _add(
        self, source: int, target: int, kind: EdgeKind, label: EdgeLabel, candidates: int
    ) -> None:
        if source == target and kind != "calls":
            return
        if kind == "uses" and target in self.owners[source]:
            return  # `member` says so already.
        key = (source, target, kind)
        known = self.found.get(key)
        if known is None or _strength(label, candidates) < _strength(*known):
            self.found[key] = label, candidates


def _strength(label: EdgeLabel, candidates: int) -> tuple[int, int]:
    return EDGE_LABELS.index(label), candidates


def _closure(start: int, steps: Mapping[int, set[int]]) -> list[int]:
    return reached(start, lambda node: steps.get(node, ()))


def _order(seen: Definition) -> tuple[object, ...]:
    calls = tuple(seen.calls.get(name, 0) for name in CallsReport.model_fields)
    return (seen.is_declaration, astuple(seen.value), calls)


@dataclass(kw_only=True, slots=True)
class Union:
    """Collects the results of units, in any order."""

    _found: dict[Identity, UnitNode] = field(default_factory=dict)
    _includes: set[IndexedInclude] = field(default_factory=set)
    _outcomes: Counter[Outcome] = field(default_factory=Counter)
    _problems: list[UnitProblem] = field(default_factory=list)
    _replaced: set[str] = field(default_factory=set)

    def add(self, path: str, result: UnitResult) -> None:
        """Add what a unit shows, and what became of it."""
        self._outcomes[result.outcome] += 1
        self._replaced.update([path] if result.is_replaced else [])
        if result.outcome != "indexed":
            self._problems.append(
                UnitProblem(path=path, outcome=result.outcome, reason=result.reason)
            )
        is_partial = result.outcome == "partial"
        for seen in result.seen:
            identity = _identity(seen)
            merged = self._found.get(identity)
            if merged is None:
                merged = self._found[identity] = UnitNode(best=seen, is_partial=is_partial)
            merged.add(seen, is_partial=is_partial)
        self._includes |= result.includes

    def snapshot(self, database: DatabaseReport) -> GraphSnapshot:
        """All that was added."""
        nodes = _nodes(self._found)
        nodes.sort(key=lambda node: isinstance(node.best.value, IndexedClass))
        edges = Edges.of(nodes).all()
        includes = tuple(sorted(self._includes))
        values = [node.best.value for node in nodes]
        kept = tuple(each for each in values if isinstance(each, IndexedFunction))
        named = tuple(value for value in values if isinstance(value, IndexedClass))
        calls: Counter[str] = Counter()
        for node in nodes[: len(kept)]:
            calls.update(node.best.calls)
        return GraphSnapshot(
            functions=kept,
            classes=named,
            edges=edges,
            includes=includes,
            report=IndexReport(
                replaced=tuple(sorted(self._replaced)),
                database=database,
                indexed=self._outcomes["indexed"],
                partial=self._outcomes["partial"],
                failed=self._outcomes["failed"],
                timed_out=self._outcomes["timed out"],
                crashed=self._outcomes["crashed"],
                problems=tuple(sorted(self._problems, key=lambda each: each.path)),
                functions=sum(each.body is not None for each in kept),
                declarations=sum(each.body is None for each in kept),
                classes=len(named),
                includes=len(includes),
                edges=_edge_counts(edges),
                calls=CallsReport(**{name: calls[name] for name in CallsReport.model_fields}),
            ),
        )


def _identity(seen: Definition) -> Identity:
    value = seen.value
    is_class = isinstance(value, IndexedClass)
    return value.path, value.name_start, value.start, value.end, value.name, is_class


def _nodes(found: Mapping[Identity, UnitNode]) -> list[UnitNode]:
    """Definitions, and of each function that nothing defines its first declaration, in order of place."""
    merged = [found[identity] for identity in sorted(found)]
    kept = [each for each in merged if not each.best.is_declaration]
    by_usr: dict[str, list[UnitNode]] = defaultdict(list)
    for each in kept:
        for usr in each.usrs:
            by_usr[usr].append(each)
    for each in merged:
        if not each.best.is_declaration:
            continue
        homes = [home for usr in sorted(each.usrs) for home in by_usr.get(usr, ())]
        for home in homes:
            home.absorb(each)
        if not homes:
            kept.append(each)
            for usr in each.usrs:
                by_usr[usr].append(each)
    for each in kept:
        value = replace(each.best.value, is_partial=each.is_partial)
        each.best = replace(each.best, value=value)
    return sorted(kept, key=lambda each: _identity(each.best))


def _edge_counts(edges: Sequence[IndexedEdge]) -> tuple[EdgeCount, ...]:
    counts = Counter((edge.kind, edge.label) for edge in edges)
    return tuple(
        EdgeCount(kind=kind, label=label, edges=number)
        for (kind, label), number in sorted(counts.items())
    )
