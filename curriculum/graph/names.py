"""Names that files define, call and refer to; an index of the names in a tree; its functions and types."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, get_args

from curriculum.graph.facts import (
    Call,
    FileFacts,
    Includes,
    Member,
    NodeId,
    Range,
    Symbol,
    SymbolKind,
)
from curriculum.graph.memo import Memo, derived, tracked

Scope = tuple[str, ...]
"""Names of namespaces and classes, outermost first. The scope of the code inside a class or namespace ends
with the name of this class or namespace.
"""
Numbers = Mapping[str, tuple[int, ...]]
"""Indices of one file's symbols by name, in ascending order."""

TYPES: frozenset[SymbolKind] = frozenset(("class", "enum", "alias"))
MAX_ALIKE = 128
"""Maximum number of symbols of the same name that are kept per file."""
_VERSION = re.compile(r"_*v?\d+(_\d+)*")


Table = Literal[
    "functions",
    "types",
    "macros",
    "callers",
    "subclasses",
    "aliases",
    "users",
    "members",
    "holders",
]
"""Tables that find the symbols of a file by a name.

functions, types, macros    by their own name
callers    functions, by the names that they call
subclasses classes, by the last part of a base's name
aliases    aliases, by the last part of their target's name
users      functions and classes, by the last part of the name of a type they refer to
members    members, by their innermost named scope
holders    classes, by the last part of the name of a data member's type
"""
TABLES: tuple[Table, ...] = get_args(Table)
_WHOLE = ("functions", "macros")
"""Tables without the limit MAX_ALIKE."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Names of one file: those of its facts on which name resolution depends, without offsets.

    Where name resolution compares all symbols of the same name with one another, only the first MAX_ALIKE
    symbols are kept.
    """

    declarations: tuple[Symbol, ...]
    """Symbols without their offsets and types. The range of a body is Range(0, 0)."""
    usings: tuple[str, ...]
    includes: tuple[str, ...]
    tables: Mapping[Table, Numbers]
    calls: Mapping[int, tuple[Call, ...]]
    """Calls without offsets and duplicates, by the index of the function that makes them."""
    mentions: Mapping[int, tuple[str, ...]]
    """Names of the types that a symbol refers to, by the symbol's index; symbols without any are absent."""
    fields: Mapping[int, Mapping[str, Member]]
    """Data members by their name, by the index of their class."""
    crowded: tuple[str, ...]
    """Names with more symbols than MAX_ALIKE."""


def names_of(facts: FileFacts) -> Names:
    """Return the names in the facts of a file; costs time for every symbol and call."""
    calls: defaultdict[int, dict[Call, None]] = defaultdict(dict)
    for call in facts.calls:
        if call.caller >= 0:
            calls[call.caller][call._replace(caller=-1, start=-1)] = None
    fields: defaultdict[int, dict[str, Member]] = defaultdict(dict)
    for member in facts.members:
        fields[member.owner][member.name] = member
    tables = _tables(facts, calls)
    crowded = {
        name
        for table, names in tables.items()
        for name, found in names.items()
        if table not in _WHOLE and len(found) > MAX_ALIKE
    }
    return Names(
        declarations=tuple(map(_without_places, facts.symbols)),
        usings=facts.usings,
        includes=facts.includes,
        tables={
            table: {
                name: tuple(found if table in _WHOLE else found[:MAX_ALIKE])
                for name, found in names.items()
            }
            for table, names in tables.items()
        },
        calls={number: tuple(called) for number, called in calls.items()},
        mentions={
            number: symbol.types for number, symbol in enumerate(facts.symbols) if symbol.types
        },
        fields=dict(fields),
        crowded=tuple(sorted(crowded)),
    )


def _tables(
    facts: FileFacts, calls: Mapping[int, Iterable[Call]]
) -> Mapping[Table, Mapping[str, list[int]]]:
    tables: dict[Table, defaultdict[str, list[int]]] = {
        table: defaultdict(list) for table in TABLES
    }
    for number, symbol in enumerate(facts.symbols):
        for table, name in _entries(symbol):
            tables[table][name].append(number)
    for number in sorted(calls):
        for name in {call.name for call in calls[number]}:
            tables["callers"][name].append(number)
    for owner, name in sorted({(member.owner, last_name(member.type)) for member in facts.members}):
        tables["holders"][name].append(owner)
    return tables


def _without_places(symbol: Symbol) -> Symbol:
    return symbol._replace(
        start=0,
        end=0,
        name_start=0,
        body=symbol.body and Range(0, 0),
        parent=-1,
        types=(),
    )


def num_crowded(facts: FileFacts) -> int:
    """Return the number of names with more than MAX_ALIKE symbols; fast for small files, which have none."""
    most = max(len(facts.symbols), len(facts.calls), len(facts.members))
    return len(names_of(facts).crowded) if most > MAX_ALIKE else 0


def _entries(symbol: Symbol) -> Iterator[tuple[Table, str]]:
    if symbol.kind == "macro":
        yield "macros", symbol.name
        return
    if symbol.kind == "variable":
        return
    yield "functions" if symbol.kind == "function" else "types", symbol.name
    if symbol.kind == "alias":
        yield "aliases", last_name(symbol.returns)
    for name in {last_name(base) for base in symbol.bases}:
        yield "subclasses", name
    for name in {last_name(written) for written in symbol.types}:
        yield "users", name
    scope = canonical(symbol.scope)
    if scope:
        yield "members", scope[-1]


def last_name(written: str) -> str:
    """Return a name without its qualifier.

    >>> last_name("detail::Stage")
    'Stage'
    """
    return written.rpartition("::")[2]


@lru_cache(maxsize=100_000)
def canonical(scope: Scope) -> Scope:
    """Return a scope without anonymous and version namespaces; the latter are assumed to be inline.

    >>> canonical(("fmt", "v11", "", "detail"))
    ('fmt', 'detail')
    """
    return tuple(part for part in scope if part and not _VERSION.fullmatch(part))


Row = Mapping[str, tuple[int, ...]]
"""Indices of the symbols with one name, in ascending order, by path."""
_NO_ROW: Row = MappingProxyType({})
_NO_FIELDS: Mapping[str, Member] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class NameIndex:
    """Index of the names in a tree.

    It is an immutable value that shares unchanged tables with the index from which it was made.
    """

    files: Mapping[str, Names] = field(default_factory=dict)
    includes: Includes = field(default_factory=lambda: Includes((), lambda _: ()))
    tables: Mapping[Table, Mapping[str, Row]] = field(
        default_factory=lambda: {table: {} for table in TABLES}
    )

    def changed(self, removed: Iterable[str], added: Mapping[str, Names]) -> "NameIndex":
        """Return the index of a tree without the paths `removed` and with the files `added`, new or replaced.

        Costs time for the names of removed and added files, and a copy of each table that changes.
        """
        gone = {path: self.files[path] for path in removed}
        before = gone | {path: self.files[path] for path in added if path in self.files}
        kept = {path: names for path, names in self.files.items() if path not in gone}
        files = {**kept, **added}
        is_included_alike = before.keys() == added.keys() and all(
            before[path].includes == names.includes for path, names in added.items()
        )
        return NameIndex(
            files=files,
            includes=self.includes
            if is_included_alike
            else Includes(files, lambda path: files[path].includes),
            tables={
                table: _changed(table, rows, before, added) for table, rows in self.tables.items()
            },
        )


def _changed(
    table: Table, rows: Mapping[str, Row], before: Mapping[str, Names], after: Mapping[str, Names]
) -> Mapping[str, Row]:
    """Return the rows of a table after files have changed.

    `before` holds the names of the changed files in the old tree, `after` in the new tree.
    """
    changed: dict[str, dict[str, tuple[int, ...]]] = {}
    for path in before.keys() | after.keys():
        old, new = (files[path].tables[table] if path in files else {} for files in (before, after))
        for name in old.keys() | new.keys():
            if old.get(name) == new.get(name):
                continue
            if name not in changed:
                changed[name] = dict(rows.get(name, _NO_ROW))
            if name in new:
                changed[name][path] = new[name]
            else:
                del changed[name][path]
    return {name: row for name, row in {**rows, **changed}.items() if row} if changed else rows


@dataclass(kw_only=True, slots=True, eq=False)
class TrackedNames:
    """Index of the current revision, accessed by tracked methods. It is the only input of name resolution."""

    memo: Memo = field(default_factory=Memo)
    _index: NameIndex = field(default_factory=NameIndex)

    def advance(self, removed: Iterable[str], added: Mapping[str, Names]) -> None:
        """Begin a revision whose tree lacks the paths `removed` and has the new or replaced files `added`."""
        self._index = self._index.changed(removed, added)
        self.memo.advance()

    @tracked
    def row(self, table: Table, name: str) -> Row:
        """Return the symbols that a table lists under `name`, by path, in no particular order."""
        return self._index.tables[table].get(name, _NO_ROW)

    @derived
    def nodes(self, table: Table, name: str) -> tuple[NodeId, ...]:
        """Return the symbols that a table lists under `name`, sorted."""
        row = self.row(table, name)
        return tuple(NodeId(path, number) for path in sorted(row) for number in row[path])

    @tracked
    def declaration(self, node: NodeId) -> Symbol:
        """Return the declaration of a node; raise a KeyError for an unknown path."""
        return self._index.files[node.path].declarations[node.number]

    @tracked
    def calls(self, node: NodeId) -> tuple[Call, ...]:
        """Return the calls of a function without duplicates."""
        return self._index.files[node.path].calls.get(node.number, ())

    @tracked
    def type_references(self, node: NodeId) -> tuple[str, ...]:
        """Return the types that a function or class refers to."""
        return self._index.files[node.path].mentions.get(node.number, ())

    @tracked
    def fields(self, node: NodeId) -> Mapping[str, Member]:
        """Return the data members of a class."""
        return self._index.files[node.path].fields.get(node.number, _NO_FIELDS)

    @tracked
    def usings(self, path: str) -> tuple[str, ...]:
        """Return the using declarations and directives of a file, in order."""
        return self._index.files[path].usings

    @tracked
    def _includes(self) -> Includes:
        return self._index.includes

    @derived
    def include_closure(self, path: str) -> frozenset[str]:
        """Return a file and all files that it includes, directly or indirectly."""
        return self._includes().include_closure(path)


@dataclass(kw_only=True, slots=True, eq=False)
class Lookup:
    """Base class of lookups whose memoized results depend only on names."""

    names: TrackedNames

    @property
    def memo(self) -> Memo:
        """Memo shared by all lookups."""
        return self.names.memo


Definitions = tuple[NodeId, Symbol]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Function:
    """Function of a tree: its definitions, or else its first declaration, and the files that declare it."""

    name: str
    scope: Scope
    local: str
    """Path of the file whose anonymous namespace contains the function; "" if none does."""
    nodes: tuple[NodeId, ...]
    """Definitions, sorted; the first declaration if there are none.

    There are several definitions if branches, specialisations or files that are never linked together define
    the function.
    """
    declared: frozenset[str]
    """Files that declare or define the function."""
    parameters: tuple[str, ...]
    min_arity: int
    max_arity: int
    is_virtual: bool
    """True if the function is declared virtual. Without this, it may still be virtual because of a base
    class.
    """

    def takes(self, arity: int) -> bool:
        """Return True if the function accepts `arity` arguments."""
        return self.min_arity <= arity and (self.max_arity < 0 or arity <= self.max_arity)

    @property
    def is_constructor(self) -> bool:
        """True for a constructor."""
        return bool(self.scope) and self.scope[-1] == self.name


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Type:
    """Class, enum or alias of a tree: its definitions, or else its first declaration."""

    key: Scope
    """Scope of the type, followed by its name."""
    kind: SymbolKind
    nodes: tuple[NodeId, ...]
    declared: frozenset[str]


def functions_of(
    found: Iterable[Definitions], scopes: Mapping[NodeId, Scope]
) -> tuple[Function, ...]:
    """Return the functions that share one name, sorted by their first node.

    A declaration belongs to the definition in its scope with equal or compatible parameters.

    Args:
        found: the sorted definitions and declarations of the name.
        scopes: the scope of each node.
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
    return tuple(sorted(functions, key=lambda function: function.nodes))


def types_of(found: Iterable[Definitions]) -> Mapping[Scope, Type]:
    """Return the types that share one name, by key; `found` are its sorted definitions and declarations."""
    keys: defaultdict[Scope, list[Definitions]] = defaultdict(list)
    for node, symbol in found:
        keys[*canonical(symbol.scope), symbol.name].append((node, symbol))
    return {key: _type(key, group) for key, group in keys.items()}


def _signatures(members: list[Definitions]) -> list[list[Definitions]]:
    groups: dict[tuple[str, ...], list[Definitions]] = {}
    for node, symbol in sorted(members, key=lambda member: member[1].body is None):
        parameters = symbol.parameters
        if symbol.body is None and parameters not in groups:
            fitting = [other for other in groups if parameters_match(parameters, other)]
            parameters = fitting[0] if len(fitting) == 1 else parameters
        groups.setdefault(parameters, []).append((node, symbol))
    return list(groups.values())


def parameters_match(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    """Return True if two lists of parameter types may be equal; a type without a name matches any type."""
    return len(ours) == len(theirs) and all(
        not a or not b or a == b for a, b in zip(ours, theirs, strict=True)
    )


def _function(scope: Scope, local: str, group: list[Definitions]) -> Function:
    symbols = [symbol for _, symbol in group]
    return Function(
        name=symbols[0].name,
        scope=scope,
        local=local,
        nodes=_nodes(group),
        declared=frozenset(node.path for node, _ in group),
        parameters=symbols[0].parameters,
        min_arity=min(symbol.min_arity for symbol in symbols),
        max_arity=-1
        if any(symbol.max_arity < 0 for symbol in symbols)
        else max(symbol.max_arity for symbol in symbols),
        is_virtual=any(symbol.is_virtual for symbol in symbols),
    )


def _type(key: Scope, group: list[Definitions]) -> Type:
    nodes = _nodes([member for member in group if member[1].kind == "class"] or group)
    return Type(
        key=key,
        kind=next(symbol.kind for node, symbol in group if node in nodes),
        nodes=nodes,
        declared=frozenset(node.path for node, _ in group),
    )


def _nodes(group: list[Definitions]) -> tuple[NodeId, ...]:
    """Return the definitions, or the first declaration if there are none."""
    defined = sorted(node for node, symbol in group if symbol.body or symbol.kind == "alias")
    return tuple(defined) or (min(node for node, _ in group),)
