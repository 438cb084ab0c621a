"""Resolution of calls and overrides by names, scopes, arity, includes and types of receivers."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from curriculum.graph.facts import Call, NodeId
from curriculum.graph.memo import derived
from curriculum.graph.names import Function, Lookup, Scope, Type, canonical, parameters_match
from curriculum.graph.scopes import Ranks, Scopes, have_common_ending
from schemas.document import EdgeKind


@dataclass(kw_only=True, slots=True, eq=False)
class Methods(Lookup):
    """Lookup of a class's methods by name, including inherited and overriding ones."""

    scopes: Scopes

    def sees(self, path: str, function: Function) -> bool:
        """Return True if the file `path` includes a declaration of the function, directly or indirectly."""
        declared = (function.local,) if function.local else function.declared
        return self.scopes.sees(path, declared)

    def find(self, path: str, key: Scope, name: str, arity: int) -> list[Function]:
        """Return the methods `name` of a class that accept `arity` arguments.

        If the class has none, the methods of its nearest bases are returned.
        """
        known = self.scopes.functions_by_scope(name)
        for level in [(key,), *self.scopes.levels(key, path)] if known else ():
            found = [
                method
                for base in level
                for method in known.get(base, ())
                if method.takes(arity) and self.sees(path, method)
            ]
            if found:
                return found
        return []

    @derived
    def overridden(self, method: Function) -> tuple[Function, ...]:
        """Return the virtual methods that a method overrides.

        Along each path through the base classes, this is the nearest one.
        """
        path = method.nodes[0].path
        overridden: list[Function] = []
        seen, waiting = {method.scope}, deque([method.scope])
        while waiting:
            for base in self.scopes.bases_at(waiting.popleft(), path):
                if base not in seen:
                    seen.add(base)
                    found = [
                        other
                        for other in self._same_signature(method, base)
                        if self.sees(path, other) and self._is_declared_virtual(other)
                    ]
                    overridden += found
                    if not found:
                        waiting.append(base)
        return tuple(overridden)

    @derived
    def overriders(self, method: Function) -> tuple[Function, ...]:
        """Return all methods that override a method, directly or indirectly; none if it isn't virtual."""
        # Damaged code may contain virtual functions outside of classes.
        if not method.scope or not self.is_virtual(method):
            return ()
        subclasses = self.scopes.subclasses(method.scope)
        return tuple(
            overrider
            for subclass in subclasses
            for overrider in self._same_signature(method, subclass)
        )

    def is_virtual(self, method: Function) -> bool:
        """Return True if a method or one that it overrides is declared virtual."""
        return method.is_virtual or bool(self.overridden(method))

    def _is_declared_virtual(self, method: Function) -> bool:
        """Return the result of `is_virtual` without recursion, since broken code may have circular bases."""
        path = method.nodes[0].path
        return method.is_virtual or any(
            other.is_virtual
            for level in self.scopes.levels(method.scope, path)
            for base in level
            for other in self._same_signature(method, base)
        )

    def _same_signature(self, method: Function, key: Scope) -> Iterable[Function]:
        """Yield the methods of the class `key` that have the same name and parameters as `method`."""
        name = "~" + key[-1] if method.name.startswith("~") else method.name
        for other in self.scopes.functions_by_scope(name).get(key, ()):
            if parameters_match(other.parameters, method.parameters):
                yield other


MAX_CANDIDATES = 8
"""Maximum number of overloads that one call may refer to; the first ones by path and offset are kept."""
MAX_OVERRIDERS = 16
"""Maximum number of overriding methods to which a virtual call has edges; with more, only the named method
has one.
"""
MAX_CLASSES = 4
"""Maximum number of classes that have a method, for the method to be resolved on an object of unknown type.
"""
MAX_SCOPES = 64
"""Maximum number of scopes that have a name, for the name to be resolved without a type or a qualifier."""
BY_ARGUMENTS, BY_NAME, BY_METHOD = 0.8, 0.5, 0.5
"""Confidences of targets that are found neither by scope nor by type; the others have confidence 1.

BY_ARGUMENTS is for targets found in the namespaces of types that the caller uses, BY_NAME for targets found
by name alone, and BY_METHOD for targets found by a method's name alone.
"""
STANDARD_METHODS = frozenset(
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
"""Methods of the standard library. On an object of unknown type they are not resolved."""
Spaces = frozenset[Scope]
"""Namespaces of the types that a function refers to."""


class Target(NamedTuple):
    """Possible callee of a call."""

    kind: EdgeKind
    node: NodeId
    confidence: float


@dataclass(kw_only=True, slots=True, eq=False)
class Resolver(Lookup):
    """Resolution of calls to their possible callees."""

    scopes: Scopes
    methods: Methods

    @derived
    def targets(self, path: str, scope: Scope, call: Call) -> tuple[Target, ...] | None:
        """Return the possible callees of a call in the scope `scope` of the file `path`.

        The result is None if only the types of the call's arguments can decide (see `by_arguments`).
        """
        if self._is_macro(path, call):
            return ()
        if call.form == "construct":
            return self._constructs(path, scope, call)
        if call.receiver is not None:
            return self._of_receiver(path, scope, call)
        return (
            self._qualified(path, scope, call) if call.qualifier else self._plain(path, scope, call)
        )

    def by_arguments(self, path: str, call: Call, spaces: Spaces) -> tuple[Target, ...]:
        """Return the functions with the call's name in the namespaces `spaces` of types that the caller uses.

        These types stand in for the types of the arguments, which are unknown. If there is no such function,
        but the file sees functions of that name in exactly one scope, these are returned.
        """
        known = self.scopes.functions_by_scope(call.name)
        if found := self._visible(path, call, sorted(spaces & known.keys())):
            return self._calls(path, found, BY_ARGUMENTS)
        return self._only_one(
            path, call, [scope for scope in known if not self.scopes.is_class(scope)]
        )

    def _is_macro(self, path: str, call: Call) -> bool:
        """Return True if the file sees a macro with the call's name that accepts its number of arguments."""
        names = self.names
        if not self.scopes.sees(path, names.row("macros", call.name)):
            return False
        found = map(names.declaration, names.nodes("macros", call.name))
        return any(
            macro.min_arity <= call.arity and (macro.max_arity < 0 or call.arity <= macro.max_arity)
            for macro in found
        )

    def _plain(self, path: str, scope: Scope, call: Call) -> tuple[Target, ...] | None:
        ranks = self.scopes.ranks(path, scope, call.name)
        found = self._nearest(path, call, ranks)
        if found and not found[0].is_constructor:
            return self._virtual_calls(path, found, 1.0)
        made = self._constructs(path, scope, call)
        return made or (None if self.scopes.functions(call.name) else ())

    def _qualified(self, path: str, scope: Scope, call: Call) -> tuple[Target, ...]:
        if call.qualifier[0] == "std":
            return ()
        space = canonical(call.qualifier)
        ranks = {space: 0}
        if call.qualifier[0]:
            outer = self.scopes.ranks(path, scope, call.qualifier[0])
            ranks = {(*prefix, *space): rank for prefix, rank in outer.items()}
        found = self._nearest(path, call, ranks)
        if not found and space:
            classes = self.scopes.classes(path, scope, "::".join(call.qualifier))
            found = self._methods(path, classes, call)
        if found and not found[0].is_constructor:
            return self._calls(path, found, 1.0)
        if made := self._constructs(path, scope, call):
            return made
        known = self.scopes.functions_by_scope(call.name)
        return self._only_one(
            path, call, [scope for scope in known if have_common_ending(scope, space)]
        )

    def _of_receiver(self, path: str, scope: Scope, call: Call) -> tuple[Target, ...]:
        if call.receiver == "this":
            found = self._methods(path, self._enclosing_class(scope), call)
            return self._virtual_calls(path, found, 1.0)
        if call.receiver:
            return self._of_class(path, scope, call)
        known = self.scopes.field_types(path, scope, call.object) if call.object else None
        if known is not None:
            return self._virtual_calls(path, self._methods(path, known, call), 1.0)
        return self._of_unknown_type(path, call)

    def _of_class(self, path: str, scope: Scope, call: Call) -> tuple[Target, ...]:
        """Return the targets of a method call, found by the unqualified name of its receiver's type.

        If the nearest class of that name lacks the method, all classes of that name are tried.
        """
        classes = self.scopes.classes(path, scope, call.receiver or "")
        found = self._methods(path, classes, call)
        if found or not classes:
            return self._virtual_calls(path, found, 1.0)
        others = self.scopes.types(call.receiver or "").values()
        seen = [other for other in others if self.scopes.sees(path, other.declared)]
        return self._virtual_calls(path, self._methods(path, seen, call), BY_NAME)

    def _of_unknown_type(self, path: str, call: Call) -> tuple[Target, ...]:
        if call.name in STANDARD_METHODS:
            return ()
        known = self.scopes.functions_by_scope(call.name)
        if len(known) > MAX_SCOPES:
            return ()
        found = self._visible(path, call, [scope for scope in known if self.scopes.is_class(scope)])
        roots = [
            method for method in found if not set(self.methods.overridden(method)) & set(found)
        ]
        if not 0 < len({root.scope for root in roots}) <= MAX_CLASSES:
            return ()
        return self._virtual_calls(path, roots, BY_METHOD)

    def _constructs(self, path: str, scope: Scope, call: Call) -> tuple[Target, ...]:
        if call.object:
            classes = self.scopes.field_types(path, scope, call.object, made=True) or ()
        else:
            classes = self.scopes.classes(path, scope, "::".join((*call.qualifier, call.name)))
        nodes = [node for type_ in classes for node in self.scopes.nearest(path, type_.nodes)]
        made = [Target("constructs", node, 1 / len(nodes)) for node in nodes[:MAX_CANDIDATES]]
        constructors = [
            function
            for type_ in classes
            for function in self.scopes.functions_by_scope(type_.key[-1]).get(type_.key, ())
            if function.takes(call.arity)
        ]
        return (*made, *self._calls(path, constructors, 1.0))

    def _visible(self, path: str, call: Call, scopes: Iterable[Scope]) -> list[Function]:
        """Return those functions in `scopes` that the call may mean.

        They have the call's name, accept its number of arguments and are declared in the file `path` or in a
        file that it includes.
        """
        known = self.scopes.functions_by_scope(call.name)
        return [
            function
            for scope in scopes
            for function in known[scope]
            if function.takes(call.arity) and self.methods.sees(path, function)
        ]

    def _nearest(self, path: str, call: Call, ranks: Ranks) -> list[Function]:
        """Return the functions that match the call in the scopes of the lowest rank that has any."""
        known = self.scopes.functions_by_scope(call.name)
        places = sorted((ranks[scope], scope) for scope in ranks.keys() & known.keys())
        for _, group in groupby(places, lambda place: place[0]):
            if found := self._visible(path, call, [scope for _, scope in group]):
                return found
        return []

    def _only_one(self, path: str, call: Call, scopes: Sequence[Scope]) -> tuple[Target, ...]:
        """Return targets by name alone, if the file sees functions of that name in only one of `scopes`."""
        if len(scopes) > MAX_SCOPES:
            return ()
        found = self._visible(path, call, scopes)
        return (
            self._calls(path, found, BY_NAME)
            if len({function.scope for function in found}) == 1
            else ()
        )

    def _enclosing_class(self, scope: Scope) -> list[Type]:
        """Return the innermost class around `scope`, as a list of at most one class."""
        for depth in range(len(scope), 0, -1):
            found = self.scopes.type_at(scope[:depth])
            if found is not None:
                return [found]
        return []

    def _methods(self, path: str, classes: Iterable[Type], call: Call) -> list[Function]:
        found = (
            method
            for type_ in classes
            for method in self.methods.find(path, type_.key, call.name, call.arity)
        )
        return list(dict.fromkeys(found))

    def _virtual_calls(
        self, path: str, functions: Sequence[Function], weight: float
    ) -> tuple[Target, ...]:
        """Return targets for `functions` and for the methods that override them.

        The confidences sum up to `weight`; overriding methods get half as much as the others.
        """
        further = dict.fromkeys(
            other
            for function in functions
            if function.scope
            for other in self.methods.overriders(function)
        )
        return self._calls(
            path, functions, weight, [function for function in further if function not in functions]
        )

    def _calls(
        self,
        path: str,
        functions: Sequence[Function],
        weight: float,
        further: Sequence[Function] = (),
    ) -> tuple[Target, ...]:
        """Return targets whose confidences sum up to `weight`.

        Variadic functions and the methods in `further` get half as much as the others.
        """
        shares: dict[NodeId, float] = {}
        for function in functions:
            for node in self._definitions(path, function):
                shares[node] = 0.5 if function.max_arity < 0 else 1.0
        shares = {node: shares[node] for node in sorted(shares)[:MAX_CANDIDATES]}
        overriders = {node for function in further for node in function.nodes}
        if len(overriders) <= MAX_OVERRIDERS:
            shares = dict.fromkeys(overriders, 0.5) | shares
        whole = sum(shares.values())
        return tuple(
            Target("calls", node, weight * shares[node] / whole) for node in sorted(shares)
        )

    def _definitions(self, path: str, function: Function) -> tuple[NodeId, ...]:
        """Return the definitions of a function with which the file `path` may be linked.

        These are the definitions in the file itself; else those in files that it includes; else those in
        files that include the same declaration of the function as this file; else all definitions.
        """
        nodes = self.scopes.nearest(path, function.nodes)
        if len(nodes) == 1 or nodes != function.nodes:
            return nodes
        seen = function.declared & self.names.include_closure(path)
        linked = tuple(node for node in nodes if self.scopes.sees(node.path, seen))
        return linked or nodes
