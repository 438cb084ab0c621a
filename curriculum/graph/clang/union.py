"""Merging of the results of many translation units into one snapshot.

The results are plain values without cursors; edges connect node numbers. The snapshot doesn't depend on the
order of the translation units: every rule is a minimum, a maximum or a union. Definitions with the same place
and name are merged. Facts from translation units without errors replace facts from those with errors.
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
from curriculum.graph.facts import reachable
from schemas.document import EDGE_LABELS, EdgeKind, EdgeLabel
from schemas.reports import CallsReport, DatabaseReport, EdgeCount, IndexReport, UnitProblem

Identity = tuple[str, int, int, int, str, bool]
"""(path, name_start, start, end, name, is_class) of a definition."""
Chain = tuple[str, ...]
"""USRs of one declaration: its own, then those of the templates that it specialises.

USRs distinguish overloads, namespaces and files of static functions, and are the same in every unit.
"""


class NamedReference(NamedTuple):
    """Reference from a definition to other definitions, which are resolved after all units are merged.

    The targets are the declarations in `chains`, or all methods with `name`.
    """

    kind: EdgeKind
    label: EdgeLabel
    chains: tuple[Chain, ...]
    total: int
    """Number of candidates, including those outside of the tree."""
    name: str = ""
    """Name of the method, if the type of its object depends on template parameters."""
    arity: int = -1
    """Number of arguments, if the call depends on template parameters."""
    within: Chain = ()
    """Class of the method's object, if only the template arguments of the class are unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """Definition or declaration in one translation unit, with its references.

    `value.is_partial` is set later, when the translation units are merged.
    """

    usr: str
    value: IndexedFunction | IndexedClass
    is_declaration: bool
    owner: Chain
    """Class that contains the definition; () if it isn't a member."""
    mentions: frozenset[NamedReference]
    calls: Mapping[str, int]
    """Number of calls by the kind of their callee. The kinds are the fields of CallsReport."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitResult:
    """Facts that one translation unit shows, and the outcome of indexing it."""

    outcome: Outcome
    reason: str = ""
    seen: tuple[Definition, ...] = ()
    includes: frozenset[IndexedInclude] = frozenset()
    errors: int = 0
    is_replaced: bool = False
    """True if a later database entry has fewer errors than the first one and is used instead."""


MAX_CANDIDATES = 8
"""Maximum number of methods of the same name among which a call by this name is resolved."""

MAX_OVERRIDERS = 64
"""Maximum number of overriding methods to which a virtual call has edges; with more, only the named method
has one.
"""


@dataclass(kw_only=True, slots=True)
class UnitNode:
    """One definition or declaration, merged from the translation units added so far."""

    best: Definition
    is_partial: bool
    usrs: set[str] = field(default_factory=set)
    owners: set[Chain] = field(default_factory=set)
    mentions: set[NamedReference] = field(default_factory=set)

    def add(self, seen: Definition, *, is_partial: bool) -> None:
        """Merge what one translation unit shows of this definition.

        Facts from a unit without errors replace those from units with errors (`is_partial`).
        """
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
            return  # The common case: a header's definition is the same in every unit.
        if is_partial < self.is_partial or _order(seen) < _order(self.best):
            self.best = seen
        self.is_partial = is_partial

    def absorb(self, declaration: "UnitNode") -> None:
        """Merge a declaration of this definition: default arguments, references, owner and `virtual`."""
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
    """Edges between `nodes`, which are a snapshot's functions followed by its classes."""

    nodes: Sequence[UnitNode]
    by_usr: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    methods: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Methods by name."""
    owners: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    bases: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    overriders: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    found: dict[tuple[int, int, EdgeKind], tuple[EdgeLabel, int]] = field(default_factory=dict)
    """Label and number of candidates of each edge, by (source, target, kind)."""

    @classmethod
    def from_nodes(cls, nodes: Sequence[UnitNode]) -> "Edges":
        """Create tables that look up nodes by USR or method name, and their owners, bases and overriders."""
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
                edges._add_family(number, node, mention)
        return edges

    def all(self) -> tuple[IndexedEdge, ...]:
        """Return every edge, sorted."""
        for number, node in enumerate(self.nodes):
            for owner in sorted(self.owners[number] - {number}):
                self._add(number, owner, "member", "resolved", 1)
            for mention in node.mentions:
                self._follow(number, node, mention)
        return tuple(
            IndexedEdge(source=source, target=target, kind=kind, label=label, candidates=candidates)
            for (source, target, kind), (label, candidates) in sorted(self.found.items())
        )

    def _add_family(self, number: int, node: UnitNode, mention: NamedReference) -> None:
        for chain in mention.chains:
            if mention.kind == "inherits":
                self.bases[number].update(self._targets(chain, node))
            elif mention.kind == "overrides":
                for base in self._targets(chain, node):
                    self.overriders[base].add(number)

    def _follow(self, number: int, node: UnitNode, mention: NamedReference) -> None:
        is_class = isinstance(node.best.value, IndexedClass)
        if is_class and mention.kind in ("calls", "constructs"):
            return  # Calls of member initialisers; no function contains them.
        for targets, candidates in self._choices(node, mention):
            for target in targets:
                self._add(number, target, mention.kind, mention.label, candidates)

    def _choices(
        self, node: UnitNode, mention: NamedReference
    ) -> Iterator[tuple[Collection[int], int]]:
        """Yield the sets of targets that a reference may have, each with its number of candidates.

        Candidates outside of the tree count as well, but are not in the set.
        """
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
            taking = {
                callee
                for callees in chains
                for callee in callees
                if self._takes(callee, mention.arity)
            }
            yield taking, len(taking) + mention.total - len(chains)
        elif mention.label == "overridden":
            for callees in chains:
                far = {
                    overrider
                    for callee in callees
                    for overrider in _closure(callee, self.overriders)
                }
                yield far if len(far) <= MAX_OVERRIDERS else callees, len(far)
        else:
            yield from ((callees, len(callees)) for callees in chains)

    def _of_class(self, methods: Iterable[int], chain: Chain) -> list[int]:
        """Return those `methods` that belong to the class `chain`; if there are none, those of its bases."""
        classes = {number for usr in chain for number in self.by_usr.get(usr, ())}
        own = [method for method in methods if self.owners[method] & classes]
        if own:
            return own
        bases = {base for ancestor in classes for base in _closure(ancestor, self.bases)}
        return [method for method in methods if self.owners[method] & bases]

    def _takes(self, target: int, arity: int) -> bool:
        value = self.nodes[target].best.value
        if arity < 0 or isinstance(value, IndexedClass):
            return True
        return value.min_arity <= arity and (value.max_arity < 0 or arity <= value.max_arity)

    def _targets(self, chain: Chain, node: UnitNode) -> list[int]:
        """Return the nodes with the first USR of `chain` that any node has.

        If some of them are in the same file as `node`, only these are returned.
        """
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
            return  # A `member` edge exists already.
        key = (source, target, kind)
        known = self.found.get(key)
        if known is None or _strength(label, candidates) < _strength(*known):
            self.found[key] = label, candidates


def _strength(label: EdgeLabel, candidates: int) -> tuple[int, int]:
    return EDGE_LABELS.index(label), candidates


def _closure(start: int, steps: Mapping[int, set[int]]) -> list[int]:
    return reachable(start, lambda node: steps.get(node, ()))


def _order(seen: Definition) -> tuple[object, ...]:
    calls = tuple(seen.calls.get(name, 0) for name in CallsReport.model_fields)
    return (seen.is_declaration, astuple(seen.value), calls)


@dataclass(kw_only=True, slots=True)
class Union:
    """Collector of the results of translation units, which may come in any order."""

    _found: dict[Identity, UnitNode] = field(default_factory=dict)
    _includes: set[IndexedInclude] = field(default_factory=set)
    _outcomes: Counter[Outcome] = field(default_factory=Counter)
    _problems: list[UnitProblem] = field(default_factory=list)
    _replaced: set[str] = field(default_factory=set)

    def add(self, path: str, result: UnitResult) -> None:
        """Add the facts and the outcome of the translation unit of file `path`."""
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
        """Return the snapshot of all results added so far."""
        nodes = _nodes(self._found)
        nodes.sort(key=lambda node: isinstance(node.best.value, IndexedClass))
        edges = Edges.from_nodes(nodes).all()
        includes = tuple(sorted(self._includes))
        values = [node.best.value for node in nodes]
        kept = tuple(value for value in values if isinstance(value, IndexedFunction))
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
                problems=tuple(sorted(self._problems, key=lambda problem: problem.path)),
                functions=sum(function.body is not None for function in kept),
                declarations=sum(function.body is None for function in kept),
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
    """Return the merged definitions, sorted by place.

    A function without a definition is represented by its first declaration; other declarations are merged
    into their definitions.
    """
    merged = [found[identity] for identity in sorted(found)]
    kept = [node for node in merged if not node.best.is_declaration]
    by_usr: dict[str, list[UnitNode]] = defaultdict(list)
    for node in kept:
        for usr in node.usrs:
            by_usr[usr].append(node)
    for node in merged:
        if not node.best.is_declaration:
            continue
        homes = [home for usr in sorted(node.usrs) for home in by_usr.get(usr, ())]
        for home in homes:
            home.absorb(node)
        if not homes:
            kept.append(node)
            for usr in node.usrs:
                by_usr[usr].append(node)
    for node in kept:
        value = replace(node.best.value, is_partial=node.is_partial)
        node.best = replace(node.best, value=value)
    return sorted(kept, key=lambda node: _identity(node.best))


def _edge_counts(edges: Sequence[IndexedEdge]) -> tuple[EdgeCount, ...]:
    counts = Counter((edge.kind, edge.label) for edge in edges)
    return tuple(
        EdgeCount(kind=kind, label=label, edges=number)
        for (kind, label), number in sorted(counts.items())
    )
