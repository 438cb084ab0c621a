"""The files of a repository at one commit, their facts and names; a commit costs its changed blobs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from sys import intern

from curriculum.graph.facts import FileFacts, Symbol
from curriculum.graph.names import Names, Table, names_of
from curriculum.graph.reach import Includes
from curriculum.graph.repository import SourceFile
from schemas.change import TreeDelta, TreeFile
from schemas.corpus import Language

FactsOf = Callable[[str, Language], FileFacts]
CODE: frozenset[Language] = frozenset(("cpp", "c"))
_Version = tuple[str, Language]
"""A blob's id, and as what it is read."""


@dataclass(kw_only=True, slots=True)
class _Read:
    """What a blob holds, and how many paths of the tree have it."""

    facts: FileFacts
    names: Names
    paths: int = 0


@dataclass(kw_only=True, slots=True)
class SourceTree:
    """Holds each blob's facts while a path of the tree has it. Same tree, same answers."""

    facts_of: FactsOf
    functions: Table = field(default_factory=Table)
    types: Table = field(default_factory=Table)
    macros: Table = field(default_factory=Table)
    callers: Table = field(default_factory=Table)
    heirs: Table = field(default_factory=Table)
    aliases: Table = field(default_factory=Table)
    users: Table = field(default_factory=Table)
    members: Table = field(default_factory=Table)
    holders: Table = field(default_factory=Table)
    includes: Includes = field(default_factory=Includes)
    _files: dict[str, SourceFile] = field(default_factory=dict)
    _read: dict[_Version, _Read] = field(default_factory=dict)

    def apply(self, delta: TreeDelta) -> bool:
        """Take what differs from the tree before; tell whether more than the bodies of functions does.

        A path that isn't there can't be removed: a KeyError.
        """
        before = {path: self._files[path] for path in delta.removed}
        before.update((f.path, self._files[f.path]) for f in delta.files if f.path in self._files)
        new: dict[_Version, _Read] = {}
        for file in delta.files:
            if _version(file) not in new:
                new[_version(file)] = self._facts(file)
        for path in sorted(before):
            self._remove(path)
        for path in delta.removed:
            self.includes.remove(path)
        for file in delta.files:
            self._add(file, new[_version(file)])
        return (
            bool(delta.removed)
            or len(before) < len(delta.files)
            or any(
                not _declare_the_same(before[file.path].facts, self._files[file.path].facts)
                for file in delta.files
            )
        )

    def paths(self) -> list[str]:
        """Sorted."""
        return sorted(self._files)

    def source(self, path: str) -> SourceFile:
        """A KeyError for a path that the tree hasn't."""
        return self._files[path]

    def names(self, path: str) -> Names:
        """The names of a file of the tree."""
        return self._read[_version(self._files[path].file)].names

    def _facts(self, file: TreeFile) -> _Read:
        """Looked up before the files of the tree before go, so that a renamed blob isn't read again."""
        known = self._read.get(_version(file))
        if known is not None:
            return known
        facts = _nothing(file) if file.language not in CODE else self._parsed(file)
        return _Read(facts=facts, names=names_of(facts))

    def _parsed(self, file: TreeFile) -> FileFacts:
        return self.facts_of(file.blob.text, file.language)

    def _tables(self, names: Names) -> Iterable[tuple[Table, dict[str, tuple[int, ...]]]]:
        for table in _TABLES:
            yield getattr(self, table), getattr(names, table)

    def _add(self, file: TreeFile, read: _Read) -> None:
        path = intern(file.path)
        self._read[_version(file)] = read
        read.paths += 1
        self._files[path] = SourceFile(file=file, facts=read.facts)
        self.includes.put(path, read.facts.includes)
        for table, numbers in self._tables(read.names):
            table.add(path, numbers)

    def _remove(self, path: str) -> None:
        version = _version(self._files.pop(path).file)
        read = self._read[version]
        for table, numbers in self._tables(read.names):
            table.remove(path, numbers)
        read.paths -= 1
        if not read.paths:
            del self._read[version]


_TABLES = (
    "functions",
    "types",
    "macros",
    "callers",
    "heirs",
    "aliases",
    "users",
    "members",
    "holders",
)


def _version(file: TreeFile) -> _Version:
    return file.blob.blob_id, file.language


def _nothing(file: TreeFile) -> FileFacts:
    return FileFacts(
        symbols=(),
        calls=(),
        includes=(),
        usings=(),
        num_bytes=len(file.blob.text.encode()),
        error_bytes=0,
        is_complete=True,
    )


def _declare_the_same(before: FileFacts, after: FileFacts) -> bool:
    """Whether all symbols have the same numbers, names, scopes, parameters and bases."""
    return before is after or (
        len(before.symbols) == len(after.symbols)
        and before.includes == after.includes
        and before.usings == after.usings
        and all(
            _declared(a) == _declared(b) for a, b in zip(before.symbols, after.symbols, strict=True)
        )
    )


def _declared(symbol: Symbol) -> tuple[object, ...]:
    return (
        symbol.kind,
        symbol.name,
        symbol.scope,
        symbol.body is None,
        symbol.parameters,
        symbol.min_arity,
        symbol.max_arity,
        symbol.returns,
        symbol.bases,
        symbol.is_template,
        symbol.is_virtual,
    )
