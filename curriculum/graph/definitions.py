"""Functions and types of a tree, declarations joined with their definitions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from curriculum.graph.facts import NodeId, SymbolKind
from curriculum.graph.names import Declaration, Scope, canonical

Definitions = tuple[NodeId, Declaration]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Function:
    """A function: its definitions, or its first declaration, and in which files it stands at all."""

    name: str
    scope: Scope
    local: str
    """The file whose anonymous namespace holds it; "" for none."""
    nodes: tuple[NodeId, ...]
    """Sorted. Several where branches, specialisations or files that are never linked define it."""
    is_defined: bool
    declared: frozenset[str]
    """The files that declare or define it."""
    parameters: tuple[str, ...]
    min_arity: int
    max_arity: int
    is_virtual: bool
    """Says so itself; it may be virtual through a base."""

    def takes(self, arity: int) -> bool:
        """Return True if it can be called with so many arguments."""
        return self.min_arity <= arity and (self.max_arity < 0 or arity <= self.max_arity)

    @property
    def makes_its_class(self) -> bool:
        """Return True if it is a constructor."""
        return bool(self.scope) and self.scope[-1] == self.name


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Type:
    """A class, enum or alias: its definitions, or its first declaration."""

    key: Scope
    """Its scope and its name."""
    kind: SymbolKind
    nodes: tuple[NodeId, ...]
    declared: frozenset[str]


def functions_of(
    found: Iterable[Definitions], scopes: Mapping[NodeId, Scope]
) -> tuple[Function, ...]:
    """The functions of one name, sorted by their first node; `found` is sorted.

    A declaration stands for the definition in its scope whose parameters are written alike, or can be.
    """
    places: defaultdict[tuple[Scope, str], list[Definitions]] = defaultdict(list)
    for node, symbol in found:
        local = node.path if "" in symbol.scope else ""
        places[scopes[node], local].append((node, symbol))
    functions = [
        _function(scope, local, group)
        for (scope, local), members in places.items()
        for group in _signatures(members)
    ]
    return tuple(sorted(functions, key=lambda each: each.nodes))


def types_of(found: Iterable[Definitions]) -> Mapping[Scope, Type]:
    """The types of one name by their keys; `found` is sorted."""
    keys: defaultdict[Scope, list[Definitions]] = defaultdict(list)
    for node, symbol in found:
        keys[*canonical(symbol.scope), symbol.name].append((node, symbol))
    return {key: _type(key, group) for key, group in keys.items()}


def _signatures(members: list[Definitions]) -> list[list[Definitions]]:
    groups: dict[tuple[str, ...], list[Definitions]] = {}
    for each in members:
        if each[1].is_defined:
            groups.setdefault(each[1].parameters, []).append(each)
    for each in members:
        if not each[1].is_defined:
            _join(groups, each)
    return list(groups.values())


def _join(groups: dict[tuple[str, ...], list[Definitions]], declared: Definitions) -> None:
    parameters = declared[1].parameters
    if parameters not in groups:
        fitting = [other for other in groups if agree(parameters, other)]
        if len(fitting) == 1:
            parameters = fitting[0]
    groups.setdefault(parameters, []).append(declared)


def agree(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    """Return True if parameters can be of the same types; one whose name isn't known ("") can be any."""
    return len(ours) == len(theirs) and all(
        not a or not b or a == b for a, b in zip(ours, theirs, strict=True)
    )


def _function(scope: Scope, local: str, group: list[Definitions]) -> Function:
    symbols = [symbol for _, symbol in group]
    nodes, is_defined = _nodes(group)
    return Function(
        name=symbols[0].name,
        scope=scope,
        local=local,
        nodes=nodes,
        is_defined=is_defined,
        declared=frozenset(node.path for node, _ in group),
        parameters=symbols[0].parameters,
        min_arity=min(each.min_arity for each in symbols),
        max_arity=-1
        if any(each.max_arity < 0 for each in symbols)
        else max(each.max_arity for each in symbols),
        is_virtual=any(each.is_virtual for each in symbols),
    )


def _type(key: Scope, group: list[Definitions]) -> Type:
    nodes, _ = _nodes([each for each in group if each[1].kind == "class"] or group)
    return Type(
        key=key,
        kind=next(symbol.kind for node, symbol in group if node in nodes),
        nodes=nodes,
        declared=frozenset(node.path for node, _ in group),
    )


def _nodes(group: list[Definitions]) -> tuple[tuple[NodeId, ...], bool]:
    """The definitions, or the first declaration."""
    defined = sorted(node for node, symbol in group if _is_definition(symbol))
    if defined:
        return tuple(defined), True
    return (min(node for node, _ in group),), False


def _is_definition(symbol: Declaration) -> bool:
    return symbol.is_defined or symbol.kind == "alias"
