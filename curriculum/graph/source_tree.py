"""The files of a repository at one commit, their facts and names; a commit costs its changed blobs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from sys import intern

from curriculum.graph.facts import FileFacts, SourceFile
from curriculum.graph.names import NameIndex, Names, names_of
from schemas.change import TreeDelta, TreeFile
from schemas.corpus import Language

FactsOf = Callable[[str, Language], FileFacts]
CODE: frozenset[Language] = frozenset(("cpp", "c"))
_Version = tuple[str, Language]
"""A blob's id, and as what it is read."""


@dataclass(kw_only=True, slots=True)
class _Read:
    """Content of a blob, and the number of the tree's paths that have it."""

    facts: FileFacts
    names: Names
    paths: int = 0


@dataclass(kw_only=True, slots=True)
class SourceTree:
    """Holds each blob's facts while a path of the tree has it. Same tree, same answers."""

    facts_of: FactsOf
    names: NameIndex = field(default_factory=NameIndex)
    _files: dict[str, SourceFile] = field(default_factory=dict)
    _read: dict[_Version, _Read] = field(default_factory=dict)

    def apply(self, delta: TreeDelta) -> None:
        """Take what differs from the tree before; a KeyError for a removed path that it hasn't."""
        removed = [self._files[path] for path in delta.removed]
        before = [self._files[file.path] for file in delta.files if file.path in self._files]
        new: dict[_Version, _Read] = {}
        for file in delta.files:
            if _version(file) not in new:
                new[_version(file)] = self._facts(file)
        for source in (*removed, *before):
            self._remove(source.file)
        for file in delta.files:
            self._add(file, new[_version(file)])
        names = {intern(file.path): new[_version(file)].names for file in delta.files}
        self.names = self.names.changed(delta.removed, names)

    def paths(self) -> list[str]:
        """Sorted."""
        return sorted(self._files)

    def source(self, path: str) -> SourceFile:
        """A KeyError for a path that the tree hasn't."""
        return self._files[path]

    def _facts(self, file: TreeFile) -> _Read:
        """Looked up before the files of the tree before go, so that a renamed blob isn't read again."""
        known = self._read.get(_version(file))
        if known is not None:
            return known
        facts = _nothing(file) if file.language not in CODE else self._parsed(file)
        return _Read(facts=facts, names=names_of(facts))

    def _parsed(self, file: TreeFile) -> FileFacts:
        return self.facts_of(file.blob.text, file.language)

    def _add(self, file: TreeFile, read: _Read) -> None:
        self._read[_version(file)] = read
        read.paths += 1
        self._files[intern(file.path)] = SourceFile(file=file, facts=read.facts)

    def _remove(self, file: TreeFile) -> None:
        del self._files[file.path]
        version = _version(file)
        read = self._read[version]
        read.paths -= 1
        if not read.paths:
            del self._read[version]


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
