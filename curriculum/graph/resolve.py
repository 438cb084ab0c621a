"""What a call calls, by names, scopes, arity, includes and the types of receivers."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from curriculum.graph.definitions import Function, Type
from curriculum.graph.methods import Methods
from curriculum.graph.names import Scope, Written, canonical
from curriculum.graph.repository import NodeId
from curriculum.graph.scopes import FAR, Scopes, is_alike, rank_of
from schemas.document import EdgeKind

MOST_CANDIDATES = 8
"""Overloads that one call may mean; further ones, by the order of their places, are left out."""
MOST_OVERRIDERS = 16
"""A virtual call that may reach more methods is a call of the one that it names alone."""
MOST_CLASSES = 4
"""A method of an object whose type isn't known is looked for where so few classes have it."""
BY_ARGUMENTS, BY_NAME, BY_METHOD = 0.8, 0.5, 0.5
"""What a candidate weighs that was found by the namespaces of types that the caller mentions; by its name
alone; by a method's name alone. One that scopes or types lead to weighs 1."""
FAMILIAR = frozenset(
    re.findall(
        r"\w+",
        """
        append assign at back begin c_str capacity cbegin cend clear close compare count
        data emplace emplace_back empty end erase find first flush front get insert join
        length load lock max_size notify_all notify_one open pop pop_back pop_front push
        push_back push_front read release reserve reset resize second shrink_to_fit size
        store str substr swap top unlock value wait what write
        """,
    )
)
"""Methods of the standard library: on an object of unknown type they say nothing."""
Spaces = frozenset[Scope]
"""The namespaces of the types that a function mentions."""


class Target(NamedTuple):
    """What a call may lead to."""

    kind: EdgeKind
    node: NodeId
    confidence: float


@dataclass(kw_only=True, slots=True)
class Resolver:
    """Resolves calls. Answers are kept until `forget`."""

    scopes: Scopes
    methods: Methods
    _kept: dict[tuple[str, Scope, Written], tuple[Target, ...] | None] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget all answers, because declarations have changed."""
        self._kept.clear()

    def targets(self, path: str, scope: Scope, call: Written) -> tuple[Target, ...] | None:
        """What a call in a scope of a file leads to; None if only its arguments could tell."""
        key = (path, scope, call)
        if key not in self._kept:
            self._kept[key] = self._resolved(path, scope, call)
        return self._kept[key]

    def by_arguments(self, path: str, call: Written, spaces: Spaces) -> tuple[Target, ...]:
        """The functions that are in the namespaces of arguments, which nobody knows: of types nearby."""
        free = [each for each in self._seen(path, call) if not self.scopes.is_class(each.scope)]
        if found := [each for each in free if each.scope in spaces]:
            return self._calls(path, found, BY_ARGUMENTS)
        return self._calls(path, free, BY_NAME) if len({each.scope for each in free}) == 1 else ()

    def _resolved(self, path: str, scope: Scope, call: Written) -> tuple[Target, ...] | None:
        if self._is_macro(path, call):
            return ()
        if call.form == "construct":
            return self._constructs(path, scope, call)
        if call.receiver is not None:
            return self._of_receiver(path, scope, call)
        return (
            self._qualified(path, scope, call) if call.qualifier else self._plain(path, scope, call)
        )

    def _is_macro(self, path: str, call: Written) -> bool:
        """Whether a file sees a macro that takes so many arguments."""
        macros = self.scopes.tree.macros
        if not self.scopes.sees(path, macros.paths(call.name)):
            return False
        found = map(self.scopes.symbol, macros.nodes(call.name))
        return any(
            each.min_arity <= call.arity and (each.max_arity < 0 or call.arity <= each.max_arity)
            for each in found
        )

    def _plain(self, path: str, scope: Scope, call: Written) -> tuple[Target, ...] | None:
        seen = self._seen(path, call)
        ranks = self.scopes.ranks(path, scope, call.name)
        found = _nearest(seen, [ranks.get(each.scope, FAR) for each in seen])
        if found and not found[0].makes_its_class:
            return self._virtual_calls(path, found, 1.0)
        return self._constructs(path, scope, call) or (None if seen else ())

    def _qualified(self, path: str, scope: Scope, call: Written) -> tuple[Target, ...]:
        if call.qualifier[0] == "std":
            return ()
        seen = self._seen(path, call)
        ranks = self.scopes.ranks(path, scope, call.qualifier[0])
        space, rooted = canonical(call.qualifier), call.qualifier[0] == ""
        found = _nearest(seen, [rank_of(each.scope, space, ranks, rooted=rooted) for each in seen])
        if not found and space:
            classes = self.scopes.classes(path, scope, "::".join(call.qualifier))
            found = self._methods(path, classes, call)
        if found and not found[0].makes_its_class:
            return self._calls(path, found, 1.0)
        if made := self._constructs(path, scope, call):
            return made
        alike = [each for each in seen if is_alike(each.scope, space)]
        return self._calls(path, alike, BY_NAME) if len({f.scope for f in alike}) == 1 else ()

    def _of_receiver(self, path: str, scope: Scope, call: Written) -> tuple[Target, ...]:
        if call.receiver == "this":
            found = self._methods(path, self._around(scope), call)
            return self._virtual_calls(path, found, 1.0)
        if call.receiver:
            return self._of_class(path, scope, call)
        known = self.scopes.field_types(path, scope, call.object) if call.object else None
        if known is not None:
            return self._virtual_calls(path, self._methods(path, known, call), 1.0)
        return self._of_anything(path, call)

    def _of_class(self, path: str, scope: Scope, call: Written) -> tuple[Target, ...]:
        """By the name of the object's type, whose qualifier isn't known: the nearest may be another one."""
        classes = self.scopes.classes(path, scope, call.receiver or "")
        found = self._methods(path, classes, call)
        if found or not classes:
            return self._virtual_calls(path, found, 1.0)
        others = self.scopes.types(call.receiver or "").values()
        seen = [each for each in others if self.scopes.sees(path, each.declared)]
        return self._virtual_calls(path, self._methods(path, seen, call), BY_NAME)

    def _of_anything(self, path: str, call: Written) -> tuple[Target, ...]:
        if call.name in FAMILIAR:
            return ()
        found = [each for each in self._seen(path, call) if self.scopes.is_class(each.scope)]
        roots = [each for each in found if not set(self.methods.overridden(each)) & set(found)]
        if not 0 < len({each.scope for each in roots}) <= MOST_CLASSES:
            return ()
        return self._virtual_calls(path, roots, BY_METHOD)

    def _constructs(self, path: str, scope: Scope, call: Written) -> tuple[Target, ...]:
        classes = self._made(path, scope, call)
        nodes = [node for each in classes for node in self.scopes.nearest(path, each.nodes)]
        made = [Target("constructs", node, 1 / len(nodes)) for node in nodes[:MOST_CANDIDATES]]
        constructors = [
            function
            for each in classes
            for function in self.scopes.functions(each.key[-1])
            if function.scope == each.key and function.takes(call.arity)
        ]
        return (*made, *self._calls(path, constructors, 1.0))

    def _made(self, path: str, scope: Scope, call: Written) -> tuple[Type, ...]:
        """The class of which a call makes an object."""
        if call.object:
            return self.scopes.field_types(path, scope, call.object) or ()
        return self.scopes.classes(path, scope, "::".join((*call.qualifier, call.name)))

    def _seen(self, path: str, call: Written) -> list[Function]:
        return [
            each
            for each in self.scopes.functions(call.name)
            if each.takes(call.arity) and self.methods.sees(path, each)
        ]

    def _around(self, scope: Scope) -> list[Type]:
        """The innermost class around a place."""
        for depth in range(len(scope), 0, -1):
            found = self.scopes.type_at(scope[:depth])
            if found is not None:
                return [found]
        return []

    def _methods(self, path: str, classes: Iterable[Type], call: Written) -> list[Function]:
        found = (
            method
            for each in classes
            for method in self.methods.find(path, each.key, call.name, call.arity)
        )
        return list(dict.fromkeys(found))

    def _virtual_calls(
        self, path: str, functions: Sequence[Function], weight: float
    ) -> tuple[Target, ...]:
        """Calls that go to the functions or to what overrides them, which counts half as much."""
        further = dict.fromkeys(
            other for each in functions if each.scope for other in self.methods.overriders(each)
        )
        return self._calls(
            path, functions, weight, [each for each in further if each not in functions]
        )

    def _calls(
        self,
        path: str,
        functions: Sequence[Function],
        weight: float,
        further: Sequence[Function] = (),
    ) -> tuple[Target, ...]:
        """Calls that share a weight, those to functions of any arity and to `further` ones half as much."""
        shares: dict[NodeId, float] = {}
        for each in functions:
            for node in self._definitions(path, each):
                shares[node] = 0.5 if each.max_arity < 0 else 1.0
        shares = {node: shares[node] for node in sorted(shares)[:MOST_CANDIDATES]}
        overriders = {node for each in further for node in each.nodes}
        if len(overriders) <= MOST_OVERRIDERS:
            shares = dict.fromkeys(overriders, 0.5) | shares
        whole = sum(shares.values())
        return tuple(
            Target("calls", node, weight * shares[node] / whole) for node in sorted(shares)
        )

    def _definitions(self, path: str, function: Function) -> tuple[NodeId, ...]:
        """Those that a file is linked with: its own, those that it sees, those of what it sees declared."""
        nodes = self.scopes.nearest(path, function.nodes)
        if len(nodes) == 1 or nodes != function.nodes:
            return nodes
        seen = function.declared & self.scopes.tree.includes.reach(path)
        linked = tuple(node for node in nodes if self.scopes.sees(node.path, seen))
        return linked or nodes


def _nearest(functions: Sequence[Function], ranks: Sequence[int]) -> list[Function]:
    """Those of the least rank, none if all are FAR."""
    least = min(ranks, default=FAR)
    if least == FAR:
        return []
    return [each for each, rank in zip(functions, ranks, strict=True) if rank == least]
