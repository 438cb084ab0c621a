"""Names that files define, call and mention; the index of a whole tree's names; its functions and types."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from curriculum.graph.facts import (
    Call,
    CallForm,
    FileFacts,
    Includes,
    Member,
    NodeId,
    Symbol,
    SymbolKind,
)
from curriculum.graph.memo import Memo, derived, tracked

Scope = tuple[str, ...]
"""Namespaces and classes from the outermost inwards; of a class or namespace itself, its name included."""
Numbers = Mapping[str, tuple[int, ...]]
"""Numbers of the symbols of one file by name, ascending."""

TYPES: frozenset[SymbolKind] = frozenset(("class", "enum", "alias"))
MOST_ALIKE = 128
"""The symbols of one name in one file."""
_VERSION = re.compile(r"_*v?\d+(_\d+)*")


class Declaration(NamedTuple):
    """A symbol without its place and without what stands in its body."""

    kind: SymbolKind
    name: str
    scope: Scope
    is_defined: bool
    """True for a symbol with a body."""
    parameters: tuple[str, ...]
    min_arity: int
    max_arity: int
    returns: str
    bases: tuple[str, ...]
    is_virtual: bool


class Written(NamedTuple):
    """A call without its place: within one scope of one file, equal ones mean the same."""

    form: CallForm
    name: str
    qualifier: tuple[str, ...]
    receiver: str | None
    arity: int
    object: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """The names of one file: the facts that resolution depends on, without offsets in the text.

    Of the types, callers, heirs, aliases, users, members and holders of one name the first MOST_ALIKE are
    kept, since each is held against each of the others.
    """

    declarations: tuple[Declaration, ...]
    """Declarations of each symbol."""
    usings: tuple[str, ...]
    includes: tuple[str, ...]
    functions: Numbers
    types: Numbers
    macros: Numbers
    callers: Numbers
    """Callers by the name that they call."""
    heirs: Numbers
    """Classes, by the last name of a base."""
    aliases: Numbers
    """Aliases by the last name of their target."""
    users: Numbers
    """Functions and classes, by the last name of a type that they mention."""
    members: Numbers
    """Members by the innermost scope that has a name."""
    holders: Numbers
    """Classes, by the last name of a data member's type."""
    calls: Mapping[int, tuple[Written, ...]]
    """Calls by function, each way of calling once."""
    mentions: Mapping[int, tuple[str, ...]]
    """Types that a symbol mentions, where there are any."""
    fields: Mapping[int, Mapping[str, Member]]
    """Data members by class."""
    crowded: tuple[str, ...]
    """Names of which the file has more types, callers, heirs, users, members or holders than are kept."""


def names_of(facts: FileFacts) -> Names:
    """The names of a file's facts; costs a look at every symbol and call."""
    tables: dict[str, defaultdict[str, list[int]]] = {
        each: defaultdict(list)
        for each in ("functions", "types", "macros", "heirs", "aliases", "users", "members")
    }
    for number, symbol in enumerate(facts.symbols):
        for table, name in _entries(symbol):
            tables[table][name].append(number)
    calls: defaultdict[int, dict[Written, None]] = defaultdict(dict)
    for call in facts.calls:
        if call.caller >= 0:
            calls[call.caller][_written(call)] = None
    callers: defaultdict[str, list[int]] = defaultdict(list)
    for number in sorted(calls):
        for name in {written.name for written in calls[number]}:
            callers[name].append(number)
    whole = {table: _frozen(tables.pop(table)) for table in ("functions", "macros")}
    limited = {table: _frozen(numbers) for table, numbers in {**tables, "callers": callers}.items()}
    limited["holders"] = _holders(facts)
    return Names(
        declarations=tuple(map(_declaration, facts.symbols)),
        usings=facts.usings,
        includes=facts.includes,
        mentions={number: each.types for number, each in enumerate(facts.symbols) if each.types},
        **whole,
        **{table: _first(numbers) for table, numbers in limited.items()},
        crowded=tuple(sorted({name for table in limited.values() for name in _crowded(table)})),
        calls={number: tuple(written) for number, written in calls.items()},
        fields=_fields(facts),
    )


def _declaration(symbol: Symbol) -> Declaration:
    return Declaration(
        symbol.kind,
        symbol.name,
        symbol.scope,
        symbol.body is not None,
        symbol.parameters,
        symbol.min_arity,
        symbol.max_arity,
        symbol.returns,
        symbol.bases,
        symbol.is_virtual,
    )


def num_crowded(facts: FileFacts) -> int:
    """The number of names of a file that have more than is kept; most files are too small for any."""
    most = max(len(facts.symbols), len(facts.calls), len(facts.members))
    return len(names_of(facts).crowded) if most > MOST_ALIKE else 0


def _written(call: Call) -> Written:
    return Written(call.form, call.name, call.qualifier, call.receiver, call.arity, call.object)


def _holders(facts: FileFacts) -> Numbers:
    owners: defaultdict[str, set[int]] = defaultdict(set)
    for member in facts.members:
        owners[last_name(member.type)].add(member.owner)
    return {name: tuple(sorted(numbers)) for name, numbers in owners.items()}


def _fields(facts: FileFacts) -> Mapping[int, Mapping[str, Member]]:
    fields: defaultdict[int, dict[str, Member]] = defaultdict(dict)
    for member in facts.members:
        fields[member.owner][member.name] = member
    return dict(fields)


def _entries(symbol: Symbol) -> Iterator[tuple[str, str]]:
    if symbol.kind == "macro":
        yield "macros", symbol.name
        return
    if symbol.kind == "variable":
        return
    yield "functions" if symbol.kind == "function" else "types", symbol.name
    if symbol.kind == "alias":
        yield "aliases", last_name(symbol.returns)
    for name in {last_name(base) for base in symbol.bases}:
        yield "heirs", name
    for name in {last_name(each) for each in symbol.types}:
        yield "users", name
    scope = canonical(symbol.scope)
    if scope:
        yield "members", scope[-1]


def _frozen(numbers: Mapping[str, list[int]]) -> Numbers:
    return {name: tuple(each) for name, each in numbers.items()}


def _crowded(numbers: Numbers) -> Iterator[str]:
    return (name for name, each in numbers.items() if len(each) > MOST_ALIKE)


def _first(numbers: Numbers) -> Numbers:
    return {name: each[:MOST_ALIKE] for name, each in numbers.items()}


def last_name(written: str) -> str:
    """A name without what qualifies it.

    >>> last_name("detail::Stage")
    'Stage'
    """
    return written.rpartition("::")[2]


@lru_cache(maxsize=100_000)
def canonical(scope: Scope) -> Scope:
    """A scope without anonymous namespaces and those that only say a version, which are inline.

    >>> canonical(("fmt", "v11", "", "detail"))
    ('fmt', 'detail')
    """
    return tuple(each for each in scope if each and not _VERSION.fullmatch(each))


Table = Literal[
    "functions", "types", "macros", "callers", "heirs", "aliases", "users", "members", "holders"
]
TABLES: tuple[Table, ...] = get_args(Table)
Row = Mapping[str, tuple[int, ...]]
"""The symbols of one name by path, ascending."""
_NO_ROW: Row = MappingProxyType({})
_NO_FIELDS: Mapping[str, Member] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class NameIndex:
    """The names of a tree: an immutable value that shares unchanged tables with its predecessor."""

    files: Mapping[str, Names] = field(default_factory=dict)
    includes: Includes = field(default_factory=lambda: Includes((), lambda _: ()))
    tables: Mapping[Table, Mapping[str, Row]] = field(
        default_factory=lambda: {table: {} for table in TABLES}
    )

    def changed(self, removed: Iterable[str], added: Mapping[str, Names]) -> "NameIndex":
        """The index of another tree: without some paths, and with others, be they new or known.

        Costs a look at the names of what is removed and added, and a copy of each table that changes.
        """
        gone = {path: self.files[path] for path in removed}
        before = gone | {path: self.files[path] for path in added if path in self.files}
        kept = {path: names for path, names in self.files.items() if path not in gone}
        files = {**kept, **added}
        return NameIndex(
            files=files,
            includes=self.includes if _include_the_same(before, added) else _includes_of(files),
            tables={
                table: _changed(rows, _numbers(before, table), _numbers(added, table))
                for table, rows in self.tables.items()
            },
        )


def _include_the_same(before: Mapping[str, Names], after: Mapping[str, Names]) -> bool:
    return before.keys() == after.keys() and all(
        before[path].includes == names.includes for path, names in after.items()
    )


def _includes_of(files: Mapping[str, Names]) -> Includes:
    return Includes(files, lambda path: files[path].includes)


def _numbers(files: Mapping[str, Names], table: Table) -> Mapping[str, Numbers]:
    return {path: getattr(names, table) for path, names in files.items()}


def _changed(
    rows: Mapping[str, Row], before: Mapping[str, Numbers], after: Mapping[str, Numbers]
) -> Mapping[str, Row]:
    """The rows of a table when the symbols of some paths are others."""
    changed: dict[str, dict[str, tuple[int, ...]]] = {}
    for path in before.keys() | after.keys():
        old, new = before.get(path, {}), after.get(path, {})
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
    """The index of the current revision, through tracked methods: the only input of resolution."""

    memo: Memo = field(default_factory=Memo)
    _index: NameIndex = field(default_factory=NameIndex)

    def advance(self, index: NameIndex) -> None:
        """Begin a revision with another index."""
        self._index = index
        self.memo.advance()

    @tracked
    def row(self, table: Table, name: str) -> Row:
        """The symbols of a name by their paths, which are in no order."""
        return self._index.tables[table].get(name, _NO_ROW)

    @derived
    def nodes(self, table: Table, name: str) -> tuple[NodeId, ...]:
        """The symbols of a name, sorted."""
        row = self.row(table, name)
        return tuple(NodeId(path, number) for path in sorted(row) for number in row[path])

    @tracked
    def declaration(self, node: NodeId) -> Declaration:
        """The declaration of a node; a KeyError for a path that the tree hasn't."""
        return self._index.files[node.path].declarations[node.number]

    @tracked
    def calls(self, node: NodeId) -> tuple[Written, ...]:
        """The calls of a function, each way of calling once."""
        return self._index.files[node.path].calls.get(node.number, ())

    @tracked
    def type_references(self, node: NodeId) -> tuple[str, ...]:
        """The types that a function or class mentions."""
        return self._index.files[node.path].mentions.get(node.number, ())

    @tracked
    def fields(self, node: NodeId) -> Mapping[str, Member]:
        """The data members of a class."""
        return self._index.files[node.path].fields.get(node.number, _NO_FIELDS)

    @tracked
    def usings(self, path: str) -> tuple[str, ...]:
        """The using declarations and directives of a file, in order."""
        return self._index.files[path].usings

    @tracked
    def _includes(self) -> Includes:
        return self._index.includes

    @derived
    def include_closure(self, path: str) -> frozenset[str]:
        """A file, what it includes, what that includes and so on."""
        return self._includes().include_closure(path)


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
