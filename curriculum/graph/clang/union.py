"""What many units show, as one snapshot: the same whatever the order in which they come.

Every rule is a least, a greatest or a union. A definition is the same if its name and bytes are; what a unit
without errors says of it replaces what units with errors said.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import NamedTuple

from curriculum.graph.clang.edges import Edges, Node
from curriculum.graph.clang.seen import Chain, Mention, Seen, UnitResult
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

    best: Seen
    is_partial: bool
    usrs: set[str] = field(default_factory=set)
    owners: set[Chain] = field(default_factory=set)
    mentions: set[Mention] = field(default_factory=set)

    def add(self, seen: Seen, *, is_partial: bool) -> None:
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


def _order(seen: Seen) -> tuple[object, ...]:
    return (seen.is_declaration, astuple(seen.value), astuple(seen.calls))


@dataclass(kw_only=True, slots=True)
class Union:
    """Collects the results of units, in any order."""

    _found: dict[_Identity, _Merged] = field(default_factory=dict)
    _includes: set[IndexedInclude] = field(default_factory=set)
    _outcomes: Counter[Outcome] = field(default_factory=Counter)
    _problems: list[UnitProblem] = field(default_factory=list)

    def add(self, path: str, result: UnitResult) -> None:
        """Add what a unit shows, and what became of it."""
        self._outcomes[result.outcome] += 1
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


def _identity(seen: Seen) -> _Identity:
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
