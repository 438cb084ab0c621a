"""From what definitions say of each other by the frontend's names to edges between them by number."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from curriculum.graph.clang.seen import Chain, Mention
from curriculum.graph.clang.snapshot import (
    CallCount,
    IndexedClass,
    IndexedEdge,
    IndexedFunction,
)
from schemas.document import EDGE_LABELS, EdgeKind, EdgeLabel

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
    mentions: tuple[Mention, ...]
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
    """Of a name."""
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

    def _note_family(self, number: int, node: Node, mention: Mention) -> None:
        for chain in mention.chains:
            if mention.kind == "inherits":
                self.bases[number].update(self._targets(chain, node))
            elif mention.kind == "overrides":
                for base in self._targets(chain, node):
                    self.overriders[base].add(number)

    def _follow(self, number: int, node: Node, mention: Mention) -> None:
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

    def _follow_virtual(self, number: int, node: Node, mention: Mention) -> None:
        for chain in mention.chains:
            named = self._targets(chain, node)
            reached = {each for callee in named for each in _closure(callee, self.overriders)}
            reached.update(named)
            for target in reached if len(reached) <= MOST_OVERRIDERS else named:
                self._add(number, target, mention.kind, "overridden", len(reached))

    def _follow_candidates(self, number: int, node: Node, mention: Mention) -> None:
        targets = {
            target
            for chain in mention.chains
            for target in self._targets(chain, node)
            if self._takes(target, mention.arity)
        }
        outside = mention.total - len(mention.chains)
        for target in targets:
            self._add(number, target, mention.kind, "dependent", len(targets) + outside)

    def _follow_name(self, number: int, mention: Mention) -> None:
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
        """Those of a class, else those of its bases."""
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
        """What the first known name of a chain stands for; of several those in the same file, if any are."""
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
