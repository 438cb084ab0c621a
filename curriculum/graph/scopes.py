"""Name lookup from a place in the code, which is a file and a scope.

Names are searched in the scopes from the inside out, in base classes, using directives and included files.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from curriculum.graph.facts import NodeId, reachable
from curriculum.graph.memo import derived
from curriculum.graph.names import (
    Function,
    Lookup,
    Scope,
    Type,
    canonical,
    functions_of,
    last_name,
    types_of,
)

MAX_CLASSES = 256
"""Maximum number of bases or subclasses followed per class, nearest first."""
MAX_ALIASES = 4
"""Maximum length of a chain of aliases."""
UNSEEN = 1 << 30
"""Rank of a scope whose names a place doesn't see."""
Ranks = dict[Scope, int]
"""Ranks of the scopes that a place sees. Names in a scope of lower rank hide the same names in scopes of
higher rank.
"""


@dataclass(kw_only=True, slots=True, eq=False)
class Scopes(Lookup):
    """Lookup of the functions and types that a name means at a place, which is a file and a scope."""

    @derived
    def functions(self, name: str) -> tuple[Function, ...]:
        """Return all functions with a name."""
        nodes = self.names.nodes("functions", name)
        found = [(node, self.names.declaration(node)) for node in nodes]
        return functions_of(found, {node: self.scope_of(node) for node in nodes})

    @derived
    def functions_by_scope(self, name: str) -> Mapping[Scope, Sequence[Function]]:
        """Return all functions with a name, by scope."""
        found: defaultdict[Scope, list[Function]] = defaultdict(list)
        for function in self.functions(name):
            found[function.scope].append(function)
        return dict(found)

    @derived
    def functions_by_node(self, name: str) -> Mapping[NodeId, Function]:
        """Return all functions with a name, under each of the nodes that define or declare them."""
        return {node: function for function in self.functions(name) for node in function.nodes}

    @derived
    def types(self, name: str) -> Mapping[Scope, Type]:
        """Return all types with a name, by key (scope and name)."""
        nodes = self.names.nodes("types", name)
        return types_of((node, self.names.declaration(node)) for node in nodes)

    def type_at(self, key: Scope) -> Type | None:
        """Return the type whose scope and name is `key`; None if there is none."""
        return self.types(key[-1]).get(key) if key else None

    def is_class(self, scope: Scope) -> bool:
        """Return True if a scope is a class, not a namespace."""
        found = self.type_at(scope)
        return found is not None and found.kind == "class"

    def sees(self, path: str, declared: Iterable[str]) -> bool:
        """Return True if the file `path` is one of the `declared` files or includes one, maybe indirectly."""
        return not self.names.include_closure(path).isdisjoint(declared)

    def nearest(self, path: str, nodes: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        """Return the `nodes` in the file `path`; else those in files that it includes; else all of them."""
        if len(nodes) == 1:
            return nodes
        own = tuple(node for node in nodes if node.path == path)
        if own:
            return own
        reach = self.names.include_closure(path)
        return tuple(node for node in nodes if node.path in reach) or nodes

    def ranks(self, path: str, scope: Scope, name: str, *, with_bases: bool = True) -> Ranks:
        """Return the scopes in which `name` is looked up from a place, with their ranks.

        A lower rank is searched first. Namespaces of using directives have the highest rank.
        """
        ranks = self._ranks(path, scope, with_bases)
        declared = self._using(path).get(name)
        if declared is None:
            return ranks
        outer = [scope[:depth] for depth in range(len(scope), -1, -1)]
        return ranks | {(*prefix, *space): 0 for prefix in outer for space in declared}

    def resolve(
        self, path: str, scope: Scope, written: str, *, with_bases: bool = True
    ) -> tuple[Type, ...]:
        """Return the types that the name `written` may refer to at a place.

        The result is empty for types of libraries and has several types if the name is ambiguous. Base
        classes are resolved with `with_bases=False`, which prevents infinite recursion.
        """
        return self._resolve(path, scope, written, with_bases)

    def classes(
        self, path: str, scope: Scope, written: str, *, with_bases: bool = True
    ) -> tuple[Type, ...]:
        """Return the classes that the name `written` may refer to at a place.

        It works like `resolve`, but follows aliases.
        """
        found = self.resolve(path, scope, written, with_bases=with_bases)
        for _ in range(MAX_ALIASES):
            if all(type_.kind != "alias" for type_ in found):
                break
            found = tuple(other for type_ in found for other in self._resolve_alias(type_))
        return tuple(type_ for type_ in found if type_.kind == "class")

    @derived
    def levels(self, key: Scope, path: str) -> tuple[tuple[Scope, ...], ...]:
        """Return the direct bases of a class, then the bases of those bases, and so on.

        The class `key` has the bases that the file `path` sees.
        """
        found: list[tuple[Scope, ...]] = []
        seen, level = {key}, [key]
        while level and len(seen) < MAX_CLASSES:
            bases = (base for class_ in level for base in self.bases_at(class_, path))
            level = [base for base in dict.fromkeys(bases) if base not in seen]
            seen.update(level)
            found += [tuple(level)] if level else []
        return tuple(found)

    def field_types(
        self, path: str, scope: Scope, name: str, *, made: bool = False
    ) -> tuple[Type, ...] | None:
        """Return the classes of the data member `name` that a place sees; None if it sees no such member.

        With `made`, return the classes that are constructed when the member is initialised: none for a
        pointer.
        """
        for depth in range(len(scope), 0, -1):
            for level in [(scope[:depth],), *self.levels(scope[:depth], path)]:
                for key in level:
                    if (found := self._field(key, path, name, made)) is not None:
                        return found
        return None

    @derived
    def subclasses(self, key: Scope) -> tuple[Scope, ...]:
        """Return all direct and indirect subclasses of a class, nearest first."""
        return tuple(reachable(key, self._children, MAX_CLASSES)[1:])

    @derived
    def bases(self, node: NodeId) -> tuple[Type, ...]:
        """Return the direct bases of the class that `node` defines."""
        declared = self.names.declaration(node)
        scope = canonical(declared.scope)
        found = (
            type_
            for base in declared.bases
            for type_ in self.classes(node.path, scope, base, with_bases=False)
        )
        return tuple(dict.fromkeys(found))

    def bases_at(self, key: Scope, path: str) -> list[Scope]:
        """Return the direct bases of the class `key` by the definition that the file `path` sees."""
        found = self.type_at(key)
        if found is None or found.kind != "class":
            return []
        nodes = self.nearest(path, found.nodes)
        return [base.key for node in nodes for base in self.bases(node)]

    @derived
    def alias_names(self, name: str) -> tuple[str, ...]:
        """Return a type's name and the names of its possible aliases."""
        found = {name: None}
        new = [name]
        for _ in range(MAX_ALIASES):
            nodes = (node for alias in new for node in self.names.nodes("aliases", alias))
            names = (self.names.declaration(node).name for node in nodes)
            new = [alias for alias in names if alias not in found]
            found.update(dict.fromkeys(new))
        return tuple(found)

    @derived
    def constructor_names(self, name: str) -> tuple[str, ...]:
        """Return the names by which code may construct a type.

        These are the type's name and its aliases, and the names of data members of this type.
        """
        own = self.alias_names(name)
        fields = {
            field
            for type_name in own
            for node in self.names.nodes("holders", type_name)
            for field, member in self.names.fields(node).items()
            if last_name(member.type) == type_name
        }
        return (*own, *sorted(fields - set(own)))

    def space(self, key: Scope) -> Scope:
        """Return the namespace around a type."""
        while (key := key[:-1]) and self.type_at(key):
            pass
        return key

    def _field(self, key: Scope, path: str, name: str, made: bool) -> tuple[Type, ...] | None:
        found = self.type_at(key)
        for node in self.nearest(path, found.nodes) if found is not None else ():
            member = self.names.fields(node).get(name)
            if member is not None:
                makes = member.is_object or not made
                return self.classes(node.path, key, member.type) if makes else ()
        return None

    def _children(self, key: Scope) -> list[Scope]:
        names = self.alias_names(key[-1])
        return [
            (*canonical(declared.scope), declared.name)
            for node in sorted(
                {node for name in names for node in self.names.nodes("subclasses", name)}
            )
            for declared in [self.names.declaration(node)]
            if any(base.key == key for base in self.bases(node))
        ]

    def _resolve_alias(self, found: Type) -> tuple[Type, ...]:
        if found.kind != "alias":
            return (found,)
        return tuple(
            target
            for node in found.nodes
            for declared in [self.names.declaration(node)]
            for target in self.resolve(
                node.path, canonical(declared.scope), declared.returns, with_bases=False
            )
            if target is not found
        )

    @derived
    def _ranks(self, path: str, scope: Scope, with_bases: bool) -> Ranks:
        ranks: dict[Scope, int] = {}
        rank = 0
        for depth in range(len(scope), -1, -1):
            prefix = scope[:depth]
            levels = self.levels(prefix, path) if with_bases else ()
            for level in [(prefix,), *levels]:
                for class_ in level:
                    ranks.setdefault(class_, rank)
                rank += 1
        for using in self.names.usings(path):
            space = canonical(tuple(using.split("::")))
            for depth in range(len(scope), -1, -1):
                ranks.setdefault((*scope[:depth], *space), rank)
        return ranks

    @derived
    def _resolve(self, path: str, scope: Scope, written: str, with_bases: bool) -> tuple[Type, ...]:
        *qualifier, name = written.split("::")
        if qualifier[:1] == ["std"]:
            return ()
        seen = [type_ for type_ in self.types(name).values() if self.sees(path, type_.declared)]
        if not seen:
            return ()
        space = canonical(tuple(qualifier))
        is_global = qualifier[:1] == [""]
        ranks = self.ranks(path, scope, name, with_bases=with_bases)
        ranked = {
            type_.key: rank_of(type_.key[:-1], space, ranks, is_global=is_global) for type_ in seen
        }
        nearest = min(ranked.values())
        if nearest == UNSEEN:
            seen = [type_ for type_ in seen if have_common_ending(type_.key[:-1], space)]
            return tuple(seen) if len(seen) == 1 else ()
        return tuple(type_ for type_ in seen if ranked[type_.key] == nearest)

    @derived
    def _using(self, path: str) -> Mapping[str, tuple[Scope, ...]]:
        """Return the scopes in a file's using declarations, by the last part of the declared name.

        `using a::b::c;` gives the scope a::b for the name c.
        """
        found: defaultdict[str, list[Scope]] = defaultdict(list)
        for using in self.names.usings(path):
            *space, name = using.split("::")
            if space:
                found[name].append(canonical(tuple(space)))
        return {name: tuple(spaces) for name, spaces in found.items()}

    @derived
    def scope_of(self, node: NodeId) -> Scope:
        """Return the scope of the symbol at `node`.

        If the scope is not a known type, the namespaces of using directives are searched for such a type.
        """
        scope = canonical(self.names.declaration(node).scope)
        if not scope or self.type_at(scope):
            return scope
        for using in self.names.usings(node.path):
            outer = (*canonical(tuple(using.split("::"))), *scope)
            if self.type_at(outer):
                return outer
        return scope


def rank_of(scope: Scope, qualifier: Scope, ranks: Ranks, *, is_global: bool = False) -> int:
    """Return the rank of `scope` for a name with the qualifier `qualifier`; UNSEEN if the scope isn't seen.

    With `is_global`, the name was written with a leading `::`, so that the qualifier must equal the scope.

    >>> rank_of(("a", "b"), ("b",), {("a", "c"): 0, ("a",): 1, (): 2})
    1
    """
    if is_global:
        return 0 if scope == qualifier else UNSEEN
    outside = len(scope) - len(qualifier)
    if outside < 0 or scope[outside:] != qualifier:
        return UNSEEN
    return ranks.get(scope[:outside], UNSEEN)


def have_common_ending(scope: Scope, qualifier: Scope) -> bool:
    """Return True if one of the scopes ends with the other.

    Such scopes may be the same, since macros and namespace aliases may hide outer scopes.
    """
    shared = min(len(scope), len(qualifier))
    return scope[len(scope) - shared :] == qualifier[len(qualifier) - shared :]
