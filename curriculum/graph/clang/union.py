"""Many units united into one snapshot: values of one unit without a cursor, and edges by number.

The snapshot is the same in any order of units: every rule is a least, a greatest or a union. A definition is
the same if its name and bytes are; what a unit without errors says of it replaces what others said.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import NamedTuple

from curriculum.graph.clang.snapshot import (
    CallCount,
    DatabaseCount,
    EdgeCount,
    IndexedClass,
    IndexedEdge,
    IndexedFunction,
    IndexedInclude,
    IndexReport,
    Outcome,
    Snapshot,
    UnitProblem,
)
from schemas.document import EDGE_LABELS, EdgeKind, EdgeLabel

Chain = tuple[str, ...]
"""Names that the frontend gives one thing: its USR, then those of the templates that it came from.

USRs tell overloads, namespaces and files of static functions apart and are the same in every unit.
"""


class Reference(NamedTuple):
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
    mentions: frozenset[Reference]
    calls: CallCount


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


MOST_CANDIDATES = 8
"""A name that more methods of the tree have says nothing about which of them is called."""

MOST_OVERRIDERS = 64
"""A virtual call that may reach more methods is an edge to the one that it names alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A definition and all that units say of it."""

    value: IndexedFunction | IndexedClass
    usrs: tuple[str, ...]
    owners: tuple[Chain, ...]
    mentions: tuple[Reference, ...]
    calls: CallCount


class _Key(NamedTuple):
    source: int
    target: int
    kind: EdgeKind


@dataclass(kw_only=True, slots=True)
class Edges:
    """The edges between nodes, which are the functions and then the classes of a snapshot."""

    nodes: Sequence[Node]
    by_usr: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    methods: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Methods by name."""
    owners: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    bases: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    overriders: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    found: dict[_Key, tuple[EdgeLabel, int]] = field(default_factory=dict)
    """Label and candidates of an edge."""

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> "Edges":
        """Know the nodes by name, their owners, bases and overriders."""
        edges = cls(nodes=nodes)
        for number, node in enumerate(nodes):
            for usr in node.usrs:
                edges.by_usr[usr].append(number)
        for number, node in enumerate(nodes):
            for chain in node.owners:
                edges.owners[number].update(edges._targets(chain, node))
            if edges.owners[number] and isinstance(node.value, IndexedFunction):
                edges.methods[node.value.name].append(number)
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
            IndexedEdge(
                source=key.source,
                target=key.target,
                kind=key.kind,
                label=self.found[key][0],
                candidates=self.found[key][1],
            )
            for key in sorted(self.found)
        )

    def _note_family(self, number: int, node: Node, mention: Reference) -> None:
        for chain in mention.chains:
            if mention.kind == "inherits":
                self.bases[number].update(self._targets(chain, node))
            elif mention.kind == "overrides":
                for base in self._targets(chain, node):
                    self.overriders[base].add(number)

    def _follow(self, number: int, node: Node, mention: Reference) -> None:
        is_class = isinstance(node.value, IndexedClass)
        if is_class and mention.kind in ("calls", "constructs"):
            return  # Of members' initialisers: no function says so.
        if mention.name:
            self._follow_name(number, mention)
        elif mention.label == "overridden":
            self._follow_virtual(number, node, mention)
        elif mention.label == "dependent":
            self._follow_candidates(number, node, mention)
        else:
            for chain in mention.chains:
                targets = self._targets(chain, node)
                for target in targets:
                    self._add(number, target, mention.kind, mention.label, len(targets))

    def _follow_virtual(self, number: int, node: Node, mention: Reference) -> None:
        for chain in mention.chains:
            named = self._targets(chain, node)
            reached = {each for callee in named for each in _closure(callee, self.overriders)}
            reached.update(named)
            for target in reached if len(reached) <= MOST_OVERRIDERS else named:
                self._add(number, target, mention.kind, "overridden", len(reached))

    def _follow_candidates(self, number: int, node: Node, mention: Reference) -> None:
        targets = {
            target
            for chain in mention.chains
            for target in self._targets(chain, node)
            if self._takes(target, mention.arity)
        }
        outside = mention.total - len(mention.chains)
        for target in targets:
            self._add(number, target, mention.kind, "dependent", len(targets) + outside)

    def _follow_name(self, number: int, mention: Reference) -> None:
        targets = [
            target
            for target in self.methods.get(mention.name, ())
            if self._takes(target, mention.arity)
        ]
        if mention.within:
            targets = self._of_class(targets, mention.within)
        if len(targets) <= MOST_CANDIDATES:
            for target in targets:
                self._add(number, target, mention.kind, "dependent", len(targets))

    def _of_class(self, methods: Iterable[int], chain: Chain) -> list[int]:
        """Return the methods of a class, else those of its bases."""
        classes = {number for usr in chain for number in self.by_usr.get(usr, ())}
        own = [method for method in methods if self.owners[method] & classes]
        if own:
            return own
        bases = {base for each in classes for base in _closure(each, self.bases)}
        return [method for method in methods if self.owners[method] & bases]

    def _takes(self, target: int, arity: int) -> bool:
        value = self.nodes[target].value
        if arity < 0 or isinstance(value, IndexedClass):
            return True
        return value.min_arity <= arity and (value.max_arity < 0 or arity <= value.max_arity)

    def _targets(self, chain: Chain, node: Node) -> list[int]:
        """Return the targets of a chain's first known name; of several those in the same file, if any are."""
        for usr in chain:
            numbers = self.by_usr.get(usr)
            if numbers:
                near = [each for each in numbers if self.nodes[each].value.path == node.value.path]
                return near or numbers
        return []

    def _add(
        self, source: int, target: int, kind: EdgeKind, label: EdgeLabel, candidates: int
    ) -> None:
        if source == target and kind != "calls":
            return
        if kind == "uses" and target in self.owners[source]:
            return  # `member` says so already.
        key = _Key(source, target, kind)
        known = self.found.get(key)
        if known is None or _strength(label, candidates) < _strength(*known):
            self.found[key] = label, candidates


def _strength(label: EdgeLabel, candidates: int) -> tuple[int, int]:
    return EDGE_LABELS.index(label), candidates


def _closure(start: int, steps: dict[int, set[int]]) -> set[int]:
    reached: set[int] = set()
    waiting = [start]
    while waiting:
        for each in steps.get(waiting.pop(), ()):
            if each not in reached and each != start:
                reached.add(each)
                waiting.append(each)
    return reached


class _Identity(NamedTuple):
    path: str
    name_start: int
    start: int
    end: int
    name: str
    is_class: bool


@dataclass(kw_only=True, slots=True)
class _Merged:
    """One definition or declaration, as the units seen so far know it."""

    best: Definition
    is_partial: bool
    usrs: set[str] = field(default_factory=set)
    owners: set[Chain] = field(default_factory=set)
    mentions: set[Reference] = field(default_factory=set)

    def add(self, seen: Definition, *, is_partial: bool) -> None:
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

    def absorb(self, declaration: "_Merged") -> None:
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


def _order(seen: Definition) -> tuple[object, ...]:
    return (seen.is_declaration, astuple(seen.value), astuple(seen.calls))


@dataclass(kw_only=True, slots=True)
class Union:
    """Collects the results of units, in any order."""

    _found: dict[_Identity, _Merged] = field(default_factory=dict)
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
                merged = self._found[identity] = _Merged(best=seen, is_partial=is_partial)
            merged.add(seen, is_partial=is_partial)
        self._includes |= result.includes

    def snapshot(self, database: DatabaseCount) -> Snapshot:
        """All that was added."""
        nodes = _nodes(self._found)
        functions = [node for node in nodes if isinstance(node.value, IndexedFunction)]
        classes = [node for node in nodes if isinstance(node.value, IndexedClass)]
        edges = Edges.of([*functions, *classes]).all()
        includes = tuple(sorted(self._includes))
        values = [node.value for node in nodes]
        kept = tuple(each for each in values if isinstance(each, IndexedFunction))
        named = tuple(each for each in values if isinstance(each, IndexedClass))
        return Snapshot(
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
                calls=_calls(functions),
            ),
        )


def _identity(seen: Definition) -> _Identity:
    value = seen.value
    return _Identity(
        value.path,
        value.name_start,
        value.start,
        value.end,
        value.name,
        isinstance(value, IndexedClass),
    )


def _nodes(found: Mapping[_Identity, _Merged]) -> list[Node]:
    """Definitions, and of each function that nothing defines its first declaration, in order of place."""
    merged = [found[identity] for identity in sorted(found)]
    kept = [each for each in merged if not each.best.is_declaration]
    by_usr: dict[str, list[_Merged]] = defaultdict(list)
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
    kept.sort(key=lambda each: _identity(each.best))
    return [_node(each) for each in kept]


def _node(merged: _Merged) -> Node:
    return Node(
        value=replace(merged.best.value, is_partial=merged.is_partial),
        usrs=tuple(sorted(merged.usrs)),
        owners=tuple(sorted(merged.owners)),
        mentions=tuple(sorted(merged.mentions)),
        calls=merged.best.calls,
    )


def _edge_counts(edges: Sequence[IndexedEdge]) -> tuple[EdgeCount, ...]:
    counts = Counter((edge.kind, edge.label) for edge in edges)
    return tuple(
        EdgeCount(kind=kind, label=label, edges=number)
        for (kind, label), number in sorted(counts.items())
    )


def _calls(nodes: Iterable[Node]) -> CallCount:
    counts = [node.calls for node in nodes]
    return CallCount(
        inside=sum(each.inside for each in counts),
        outside=sum(each.outside for each in counts),
        dependent=sum(each.dependent for each in counts),
        unknown=sum(each.unknown for each in counts),
    )
