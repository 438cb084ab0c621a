"""The names of all files of one tree: the input of the resolution of calls and types."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from curriculum.graph.facts import Member
from curriculum.graph.memo import Memo, derived, tracked
from curriculum.graph.names import Declaration, Names, Numbers, Written
from curriculum.graph.reach import Includes
from curriculum.graph.repository import NodeId

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
    includes: Includes = field(default_factory=lambda: Includes({}))
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
    return Includes({path: names.includes for path, names in files.items()})


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
    def mentions(self, node: NodeId) -> tuple[str, ...]:
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
    def reach(self, path: str) -> frozenset[str]:
        """A file, what it includes, what that includes and so on."""
        return self._includes().reach(path)
