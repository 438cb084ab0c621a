"""Looking up names from a place: scopes from the innermost outwards, bases, using directives, includes."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from curriculum.graph.definitions import Function, Type, functions_of, types_of
from curriculum.graph.facts import Symbol
from curriculum.graph.names import Scope, Table, canonical, last_name
from curriculum.graph.repository import NodeId
from curriculum.graph.source_tree import SourceTree

MOST_CLASSES = 256
"""Of bases or heirs of one class as many are followed, the nearest first."""
MOST_ALIASES = 4
"""Aliases of aliases."""
FAR = 1 << 30
"""The rank of what a place doesn't see."""
Ranks = dict[Scope, int]
"""How far away each scope is that a place sees; names in the nearest hide the others."""


@dataclass(kw_only=True, slots=True)
class Scopes:
    """What names mean at places of a tree. Answers are kept until `forget`."""

    tree: SourceTree
    _functions: dict[str, tuple[Function, ...]] = field(default_factory=dict)
    _by_scope: dict[str, Mapping[Scope, Sequence[Function]]] = field(default_factory=dict)
    _by_node: dict[str, Mapping[NodeId, Function]] = field(default_factory=dict)
    _types: dict[str, Mapping[Scope, Type]] = field(default_factory=dict)
    _ranks: dict[tuple[str, Scope, bool], Ranks] = field(default_factory=dict)
    _resolved: dict[tuple[str, Scope, str, bool], tuple[Type, ...]] = field(default_factory=dict)
    _scopes: dict[NodeId, Scope] = field(default_factory=dict)
    _usings: dict[str, Mapping[str, tuple[Scope, ...]]] = field(default_factory=dict)
    _bases: dict[NodeId, tuple[Type, ...]] = field(default_factory=dict)
    _levels: dict[tuple[Scope, str], tuple[tuple[Scope, ...], ...]] = field(default_factory=dict)
    _heirs: dict[Scope, tuple[Scope, ...]] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget all answers, because declarations have changed."""
        for kept in (
            self._functions,
            self._by_scope,
            self._by_node,
            self._types,
            self._ranks,
            self._resolved,
            self._scopes,
            self._usings,
            self._bases,
            self._levels,
            self._heirs,
        ):
            kept.clear()

    def symbol(self, node: NodeId) -> Symbol:
        """The symbol of a node."""
        return self.tree.source(node.path).facts.symbols[node.number]

    def functions(self, name: str) -> tuple[Function, ...]:
        """All functions of a name."""
        if name not in self._functions:
            found = [(node, self.symbol(node)) for node in self.tree.functions.nodes(name)]
            scopes = {node: self.scope_of(node, symbol) for node, symbol in found}
            self._functions[name] = functions_of(found, scopes)
        return self._functions[name]

    def functions_by_scope(self, name: str) -> Mapping[Scope, Sequence[Function]]:
        """All functions of a name by their scopes."""
        if name not in self._by_scope:
            found: defaultdict[Scope, list[Function]] = defaultdict(list)
            for each in self.functions(name):
                found[each.scope].append(each)
            self._by_scope[name] = dict(found)
        return self._by_scope[name]

    def functions_by_node(self, name: str) -> Mapping[NodeId, Function]:
        """All functions of a name by what stands for them."""
        if name not in self._by_node:
            functions = self.functions(name)
            self._by_node[name] = {node: each for each in functions for node in each.nodes}
        return self._by_node[name]

    def types(self, name: str) -> Mapping[Scope, Type]:
        """All types of a name, by their keys."""
        if name not in self._types:
            nodes = self.tree.types.nodes(name)
            self._types[name] = types_of((node, self.symbol(node)) for node in nodes)
        return self._types[name]

    def type_at(self, key: Scope) -> Type | None:
        """The type of a key."""
        return self.types(key[-1]).get(key) if key else None

    def is_class(self, scope: Scope) -> bool:
        """Whether a scope is that of a class, not of a namespace."""
        found = self.type_at(scope)
        return found is not None and found.kind == "class"

    def sees(self, path: str, declared: Iterable[str]) -> bool:
        """Whether a file sees one of those that declare something."""
        return not self.tree.includes.reach(path).isdisjoint(declared)

    def nearest(self, path: str, nodes: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        """Of several definitions those in the file itself, else those it sees, else all."""
        if len(nodes) == 1:
            return nodes
        own = tuple(node for node in nodes if node.path == path)
        if own:
            return own
        reach = self.tree.includes.reach(path)
        return tuple(node for node in nodes if node.path in reach) or nodes

    def ranks(self, path: str, scope: Scope, name: str, *, with_bases: bool = True) -> Ranks:
        """The scopes in which a place finds a name, those of using directives last."""
        key = (path, scope, with_bases)
        if key not in self._ranks:
            self._ranks[key] = self._ranked(path, scope, with_bases=with_bases)
        declared = self._using(path).get(name)
        if declared is None:
            return self._ranks[key]
        outer = [scope[:depth] for depth in range(len(scope), -1, -1)]
        return self._ranks[key] | {(*each, *space): 0 for each in outer for space in declared}

    def resolve(
        self, path: str, scope: Scope, written: str, *, with_bases: bool = True
    ) -> tuple[Type, ...]:
        """The types that a name means at a place; none for those of libraries, several if in doubt.

        Bases are looked up without bases, lest a search for a name go in circles.
        """
        key = (path, scope, written, with_bases)
        if key not in self._resolved:
            name = last_name(written)
            ranks = self.ranks(path, scope, name, with_bases=with_bases)
            self._resolved[key] = tuple(self._named(path, ranks, written))
        return self._resolved[key]

    def classes(
        self, path: str, scope: Scope, written: str, *, with_bases: bool = True
    ) -> tuple[Type, ...]:
        """As `resolve`, with aliases followed to what they stand for."""
        found = self.resolve(path, scope, written, with_bases=with_bases)
        for _ in range(MOST_ALIASES):
            if all(each.kind != "alias" for each in found):
                break
            found = tuple(other for each in found for other in self._behind(each))
        return tuple(each for each in found if each.kind == "class")

    def levels(self, key: Scope, path: str) -> tuple[tuple[Scope, ...], ...]:
        """The bases of a class as a file sees it, then theirs and so on, itself left out."""
        if (key, path) not in self._levels:
            self._levels[key, path] = tuple(self._climb(key, path))
        return self._levels[key, path]

    def field_types(
        self, path: str, scope: Scope, name: str, *, made: bool = False
    ) -> tuple[Type, ...] | None:
        """The classes of a data member that a place sees; None if it sees no such member.

        With `made`, those that initialising the member makes objects of: none for a pointer.
        """
        for depth in range(len(scope), 0, -1):
            for level in [(scope[:depth],), *self.levels(scope[:depth], path)]:
                for key in level:
                    if (found := self._field(key, path, name, made)) is not None:
                        return found
        return None

    def heirs(self, key: Scope) -> tuple[Scope, ...]:
        """All classes that have a class among their bases, near or far, the nearest first."""
        if key not in self._heirs:
            found, waiting = {key: None}, deque([key])
            while waiting and len(found) < MOST_CLASSES:
                new = [each for each in self._children(waiting.popleft()) if each not in found]
                found.update(dict.fromkeys(new))
                waiting.extend(new)
            del found[key]
            self._heirs[key] = tuple(found)
        return self._heirs[key]

    def bases(self, node: NodeId) -> tuple[Type, ...]:
        """The direct bases of a class as it is defined at a node."""
        if node not in self._bases:
            symbol = self.symbol(node)
            scope = canonical(symbol.scope)
            found = (
                each
                for base in symbol.bases
                for each in self.classes(node.path, scope, base, with_bases=False)
            )
            self._bases[node] = tuple(dict.fromkeys(found))
        return self._bases[node]

    def bases_at(self, key: Scope, path: str) -> list[Scope]:
        """The direct bases of a class as a file sees it."""
        found = self.type_at(key)
        if found is None or found.kind != "class":
            return []
        nodes = self.nearest(path, found.nodes)
        return [base.key for node in nodes for base in self.bases(node)]

    def names_for(self, name: str) -> tuple[str, ...]:
        """A type's name and those of aliases that may stand for it."""
        found = {name: None}
        new = [name]
        for _ in range(MOST_ALIASES):
            nodes = (node for each in new for node in self.tree.aliases.nodes(each))
            new = [each for each in (self.symbol(node).name for node in nodes) if each not in found]
            found.update(dict.fromkeys(new))
        return tuple(found)

    def names_making(self, name: str) -> tuple[str, ...]:
        """The names by which a call may make an object of a type: its own, aliases, data members."""
        own = self.names_for(name)
        fields = {
            field
            for each in own
            for node in self.tree.holders.nodes(each)
            for field, member in self.tree.names(node.path).fields[node.number].items()
            if last_name(member.type) == each
        }
        return (*own, *sorted(fields - set(own)))

    def space(self, key: Scope) -> Scope:
        """The namespace around a type."""
        while (key := key[:-1]) and self.type_at(key):
            pass
        return key

    def _field(self, key: Scope, path: str, name: str, made: bool) -> tuple[Type, ...] | None:
        found = self.type_at(key)
        for node in self.nearest(path, found.nodes) if found is not None else ():
            member = self.tree.names(node.path).fields.get(node.number, {}).get(name)
            if member is not None:
                makes = member.is_object or not made
                return self.classes(node.path, key, member.type) if makes else ()
        return None

    def _children(self, key: Scope) -> list[Scope]:
        names = self.names_for(key[-1])
        return [
            (*canonical(symbol.scope), symbol.name)
            for node in _sorted_nodes(self.tree.heirs, names)
            for symbol in [self.symbol(node)]
            if any(base.key == key for base in self.bases(node))
        ]

    def _climb(self, key: Scope, path: str) -> Iterable[tuple[Scope, ...]]:
        seen, level = {key}, [key]
        while level and len(seen) < MOST_CLASSES:
            bases = (base for each in level for base in self.bases_at(each, path))
            level = [each for each in dict.fromkeys(bases) if each not in seen]
            seen.update(level)
            if level:
                yield tuple(level)

    def _behind(self, found: Type) -> tuple[Type, ...]:
        if found.kind != "alias":
            return (found,)
        return tuple(
            each
            for node in found.nodes
            for symbol in [self.symbol(node)]
            for each in self.resolve(
                node.path, canonical(symbol.scope), symbol.returns, with_bases=False
            )
            if each is not found
        )

    def _ranked(self, path: str, scope: Scope, *, with_bases: bool) -> Ranks:
        ranks: dict[Scope, int] = {}
        rank = 0
        for depth in range(len(scope), -1, -1):
            prefix = scope[:depth]
            levels = self.levels(prefix, path) if with_bases else ()
            for level in [(prefix,), *levels]:
                for each in level:
                    ranks.setdefault(each, rank)
                rank += 1
        for using in self.tree.source(path).facts.usings:
            space = canonical(tuple(using.split("::")))
            for depth in range(len(scope), -1, -1):
                ranks.setdefault((*scope[:depth], *space), rank)
        return ranks

    def _named(self, path: str, ranks: Ranks, written: str) -> list[Type]:
        *qualifier, name = written.split("::")
        if qualifier[:1] == ["std"]:
            return []
        seen = [each for each in self.types(name).values() if self.sees(path, each.declared)]
        if not seen:
            return []
        space = canonical(tuple(qualifier))
        rooted = qualifier[:1] == [""]
        ranked = {each.key: rank_of(each.key[:-1], space, ranks, rooted=rooted) for each in seen}
        nearest = min(ranked.values())
        if nearest == FAR:
            seen = [each for each in seen if is_alike(each.key[:-1], space)]
            return seen if len(seen) == 1 else []
        return [each for each in seen if ranked[each.key] == nearest]

    def _using(self, path: str) -> Mapping[str, tuple[Scope, ...]]:
        """By the last name of a using declaration the scopes that it takes the name from."""
        if path not in self._usings:
            found: defaultdict[str, list[Scope]] = defaultdict(list)
            for using in self.tree.source(path).facts.usings:
                *space, name = using.split("::")
                if space:
                    found[name].append(canonical(tuple(space)))
            self._usings[path] = {name: tuple(spaces) for name, spaces in found.items()}
        return self._usings[path]

    def scope_of(self, node: NodeId, symbol: Symbol) -> Scope:
        """The scope of a symbol; one defined outside of its namespace finds it by a using directive."""
        if node not in self._scopes:
            self._scopes[node] = self._scope(node, symbol)
        return self._scopes[node]

    def _scope(self, node: NodeId, symbol: Symbol) -> Scope:
        scope = canonical(symbol.scope)
        if not scope or self.type_at(scope):
            return scope
        for using in self.tree.source(node.path).facts.usings:
            outer = (*canonical(tuple(using.split("::"))), *scope)
            if self.type_at(outer):
                return outer
        return scope


def rank_of(scope: Scope, qualifier: Scope, ranks: Ranks, *, rooted: bool = False) -> int:
    """How far away a scope is for a name that is written with a qualifier; FAR if it isn't seen.

    >>> rank_of(("a", "b"), ("b",), {("a", "c"): 0, ("a",): 1, (): 2})
    1
    """
    if rooted:
        return 0 if scope == qualifier else FAR
    outside = len(scope) - len(qualifier)
    if outside < 0 or scope[outside:] != qualifier:
        return FAR
    return ranks.get(scope[:outside], FAR)


def is_alike(scope: Scope, qualifier: Scope) -> bool:
    """Whether one ends with the other, as where macros open namespaces or aliases name them."""
    shared = min(len(scope), len(qualifier))
    return scope[len(scope) - shared :] == qualifier[len(qualifier) - shared :]


def _sorted_nodes(table: Table, names: Iterable[str]) -> list[NodeId]:
    return sorted({node for name in names for node in table.nodes(name)})
