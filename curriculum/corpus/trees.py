"""Commits with their whole trees, each given by its differences from the tree before.

    log        commits, and the lineage of each path             walked in parallel to the changes
    diff-tree  paths that differ from the previous tree          one git process for all commits
    blobs      their texts                                       as for changes

The texts of one difference are in memory, the first of which is a whole tree, plus a path and an id per file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from curriculum.corpus import git, sources
from curriculum.corpus.blobs import Unread, Version, decode
from curriculum.corpus.change_filter import ABSENT, SUBMODULE, Origins
from curriculum.corpus.git_log import Commit, commits
from curriculum.corpus.git_objects import object_heads
from curriculum.corpus.git_tree import (
    FILE_MODES,
    MAX_FILE_BYTES,
    TreeEntry,
    list_tree,
    read_entries,
)
from curriculum.corpus.history import OpenHistory, SampledCommits, iterate_changes, open_history
from curriculum.corpus.paths import WantedPath, is_plain, language_of
from curriculum.corpus.plain_folder import read_directory
from curriculum.corpus.skips import Reason, Skips
from curriculum.corpus.sources import Source
from curriculum.corpus.tree_differences import Comparison, open_comparison
from schemas.change import CommitChange, FileChange, TreeDelta, TreeFile
from schemas.corpus import CODE, CorpusSpec, QualitySpec, RepositorySpec
from schemas.errors import CorpusError

REVISION = 6
"""Revision of the reader; increase it when the same history gives other trees."""


def read_commits(
    source: Source, spec: RepositorySpec, corpus: CorpusSpec, skips: Skips
) -> Iterator[CommitChange]:
    """Yield every commit with a change that the corpus wants, oldest first, along with its tree.

    The changes are those of history.read_changes; a plain folder is one commit. The cost of a commit grows
    with its difference from the previous one. Files of a tree that are not yielded are counted in
    `skips.trees`.

    Raises:
        CorpusError: if git fails, or the history has no file in a wanted language.
    """
    if source.layout is None:
        changes = tuple(read_directory(source, spec, corpus, skips))
        if changes:
            yield _commit(changes, _snapshot(changes))
        return
    with open_history(source.layout, source, spec, corpus, skips) as past:
        yield from iterate_commits(past, spec, skips)


def iterate_commits(
    past: OpenHistory, spec: RepositorySpec, skips: Skips, sampled: SampledCommits | None = None
) -> Iterator[CommitChange]:
    """Yield the commits of an open history as `read_commits` does, or only the `sampled` commits."""
    with open_comparison(past.repository) as compared:
        trees = _Trees(
            past=past,
            compared=compared,
            log=commits(past.log),
            origins=Origins(repository=spec.name),
        )
        changes = iterate_changes(past, spec, skips, sampled)
        for commit, changed in groupby(changes, lambda change: change.commit):
            yield _commit(tuple(changed), trees.delta(commit, skips))


def _commit(changes: tuple[FileChange, ...], tree: TreeDelta) -> CommitChange:
    first = changes[0]
    return CommitChange(
        repository=first.repository,
        licence=first.licence,
        commit=first.commit,
        timestamp=first.timestamp,
        subject=first.subject,
        changes=tuple(sorted(changes, key=lambda change: change.path)),
        tree=tree,
        licence_files=first.licence_files,
    )


def _snapshot(changes: tuple[FileChange, ...]) -> TreeDelta:
    files = [
        TreeFile(
            path=change.path, language=change.language, blob=change.after, lineage=change.lineage
        )
        for change in changes
        if change.after is not None
    ]
    return TreeDelta(removed=(), files=tuple(sorted(files, key=lambda file: file.path)))


@dataclass(kw_only=True, slots=True)
class _Trees:
    """State of the walk over trees: the files of the last tree, the log, and the first path of each file."""

    past: OpenHistory
    compared: Comparison
    log: Iterator[Commit]
    origins: Origins
    _commit: str = ""
    _held: dict[bytes, TreeEntry] = field(default_factory=dict)
    """Entries of the files in the tree that was yielded last."""

    def delta(self, commit: str, skips: Skips) -> TreeDelta:
        """Return the differences from the previous tree to that of `commit`, which comes later in the log."""
        moved = self._advance(commit)
        entries = (
            self.compared.entries(self._commit, commit)
            if self._commit
            else list_tree(self.past.repository, commit)
        )
        changed = {entry.path: entry for entry in entries}
        again = {path: self._held[path] for path in moved if path in self._held}
        self._commit = commit
        return self._delta({**again, **changed}, skips)

    def _advance(self, commit: str) -> set[bytes]:
        """Read the log up to `commit`; return the paths that now belong to another lineage."""
        moved: set[bytes] = set()
        for passed in self.log:
            moved.update(entry.path for entry in passed.entries if self.origins.follow(entry))
            if passed.commit == commit:
                return moved
        raise AssertionError(f"{commit} is in the log")

    def _delta(self, changed: dict[bytes, TreeEntry], skips: Skips) -> TreeDelta:
        wanted = {entry: self._judge(entry) for entry in changed.values() if entry.mode != ABSENT}
        ids = [entry.blob_id for entry, judged in wanted.items() if isinstance(judged, WantedPath)]
        versions = self.past.reader.read(ids)
        files: list[TreeFile] = []
        kept: dict[bytes, TreeEntry] = {}
        for entry, judged in wanted.items():
            if not isinstance(judged, WantedPath):
                skips.trees.update([judged] if judged else [])
                continue
            version = versions[entry.blob_id]
            against = version.reason if isinstance(version, Unread) else version.against
            if against:
                skips.trees[against] += 1
                continue
            assert not isinstance(version, Unread)
            kept[entry.path] = entry
            files.append(
                TreeFile(
                    path=judged.path,
                    language=judged.language,
                    blob=version.blob,
                    lineage=self.origins.lineage(entry.path),
                )
            )
        removed = [path for path in changed if path in self._held and path not in kept]
        for path in removed:
            del self._held[path]
        self._held.update(kept)
        return TreeDelta(
            removed=tuple(sorted(path.decode() for path in removed)),
            files=tuple(sorted(files, key=lambda file: file.path)),
        )

    def _judge(self, entry: TreeEntry) -> WantedPath | Reason | None:
        judged = self.past.rules.verdict(entry.path)
        if judged is None or entry.mode in FILE_MODES:
            return judged
        return "submodule" if entry.mode == SUBMODULE else "symlink"


PRECOMPILED = (".ast", ".gch", ".hmap", ".pch", ".pcm")
"""Suffixes of precompiled headers and modules, syntax trees and header maps, as files or folders.

Clang would load `a.h.pch` or `a.h.gch` instead of `a.h` and trust their content.
"""
MAX_TREE_BYTES = 16 << 30
"""Size limit of an exported tree, because a repository of one megabyte can contain a gigabyte of zeros."""


def export_tree(source: Source, folder: Path) -> None:
    """Write all regular files of the pinned commit into `folder`, which must be empty or missing.

    C and C++ files are written with the text that families see (corpus.blobs.decode), so that offsets agree
    with Blob.text. Undecodable files and files in other languages are written as stored. These are left out:
    links, submodules, damaged or missing blobs, files over MAX_FILE_BYTES, `.git`, PRECOMPILED files, and
    paths that could lead out of the folder.

    Raises:
        CorpusError: if the tree can't be listed or has more than MAX_TREE_BYTES.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path, raw in _files(source):
        _write(folder / path.decode(), _as_read(path.decode(), raw))


def _files(source: Source) -> Iterator[tuple[bytes, bytes]]:
    """Check the total size of a tree, then yield (path, content) of every readable regular file."""
    if source.layout is None:
        sizes = list(sources.directory_sizes(source.path))
        files = {path: size for path, size in sizes if _is_safe(path) and size <= MAX_FILE_BYTES}
        _require_small(source, sum(files.values()))
        yield from sources.directory_content(source.path, list(files))
        return
    with git.view(source.layout) as repository:
        entries = [
            entry
            for entry in list_tree(repository, source.commit)
            if entry.mode in FILE_MODES and _is_safe(entry.path)
        ]
        heads = object_heads(repository, [entry.blob_id for entry in entries])
        lengths = (head.size for head in heads if head.kind == "blob")
        _require_small(source, sum(length for length in lengths if length <= MAX_FILE_BYTES))
        yield from read_entries(repository, entries)


def _require_small(source: Source, num_bytes: int) -> None:
    if num_bytes > MAX_TREE_BYTES:
        raise CorpusError(
            str(source.path),
            f"commit = {source.commit}",
            cause=f"the files of its tree exceed {MAX_TREE_BYTES >> 20:,} MiB",
            cure="Pin another commit, or remove compile_commands from the corpus file",
        )


def _is_safe(path: bytes) -> bool:
    if not is_plain(path):
        return False
    names = path.decode().lower().split("/")
    return not any(name == ".git" or name.endswith(PRECOMPILED) for name in names)


def _as_read(path: str, raw: bytes) -> bytes:
    if language_of(path, headers="cpp") not in CODE:
        return raw
    version = decode("", raw, QualitySpec())
    return version.blob.text.encode() if isinstance(version, Version) else raw


def _write(path: Path, content: bytes) -> None:
    """Write a file, unless a file or folder that was written before is in its way."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        return
