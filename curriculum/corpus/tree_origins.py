"""Origins of the files in a commit's tree: the licences and holders that they state, and bulk imports."""

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from curriculum.corpus.encodings import as_utf8
from curriculum.corpus.git_log import CommitLog, commits
from curriculum.corpus.git_tree import (
    FILE_MODES,
    MAX_FILE_BYTES,
    TreeEntry,
    list_tree,
    read_entries,
)
from curriculum.corpus.includes import included_names
from curriculum.corpus.licence_files import MAX_LICENCE_BYTES, licence_files, read_licence_files
from curriculum.corpus.licence_names import is_licence_file
from curriculum.corpus.licences import HEAD_CHARACTERS, licence_of
from curriculum.corpus.paths import is_plain, language_of
from curriculum.corpus.vendored import BULK_SHARE, FileOrigin, VendoredCode, find_vendored
from schemas.corpus import CODE
from schemas.tree_licences import NO_LICENCE_FILES, LicenceFiles


def origin_of(path: str, raw: bytes, licences: LicenceFiles) -> FileOrigin:
    """Return the origin of a file, from its first comment and the licence files in the folders above it."""
    text = as_utf8(raw)
    head = text[:HEAD_CHARACTERS].decode(errors="replace")
    own, nearest = (
        licence_of(head, path, NO_LICENCE_FILES, None),
        licence_of(head, path, licences, None),
    )
    return FileOrigin(
        num_bytes=len(raw),
        licence=own.name,
        nearest=nearest.name,
        holder=own.holder,
        includes=tuple(included_names(text)),
    )


def vendored_at(repository: Path, commit: str, log: CommitLog, *, max_bytes: int) -> VendoredCode:
    """Find vendored code in the tree of a commit.

    Each C or C++ file of at most `max_bytes` bytes is read once.

    Raises:
        CorpusError: if git fails.
    """
    entries = {
        entry.path.decode(errors="surrogateescape"): entry
        for entry in list_tree(repository, commit)
        if entry.mode in FILE_MODES and is_plain(entry.path)
    }
    stated = read_licence_files(
        (path.decode(errors="surrogateescape"), path.decode(errors="replace"), raw)
        for path, raw in read_entries(
            repository,
            _entries_at(entries, filter(is_licence_file, entries)),
            max_bytes=MAX_LICENCE_BYTES,
        )
    )
    licences = licence_files(stated)
    origins: dict[str, FileOrigin] = {}
    code = _entries_at(entries, filter(is_code, entries))
    for raw_path, raw in read_entries(repository, code, max_bytes=min(max_bytes, MAX_FILE_BYTES)):
        path = raw_path.decode(errors="surrogateescape")
        origins[path] = origin_of(path, raw, licences)
    built = [path for path in entries if is_build_file(path)]
    return find_vendored(
        origins, licences.folders, built, lambda folders: bulk_shares(log, folders)
    )


def is_code(path: str) -> bool:
    """Return True if a file is in C or C++."""
    return language_of(path, headers="cpp") in CODE


def is_build_file(path: str) -> bool:
    """Return True if a file is in the language of a build system."""
    return language_of(path, headers="cpp") not in (None, *CODE)


def _entries_at(entries: Mapping[str, TreeEntry], paths: Iterable[str]) -> list[TreeEntry]:
    return [entries[path] for path in paths]


def bulk_shares(log: CommitLog, folders: Mapping[str, int]) -> dict[str, float]:
    """Return the share of each folder's changes that came from bulk commits.

    A bulk commit changes most of the folder's files and little else.

    Args:
        log: The whole history.
        folders: Folders with their current numbers of files.
    """
    changes, bulk = Counter[str](), Counter[str]()
    for commit in commits(log) if folders else ():
        touched = Counter[str]()
        for entry in commit.entries:
            path = entry.path.decode() if is_plain(entry.path) else ""
            folder = posixpath.dirname(path)
            while folder:
                if folder in folders:
                    touched[folder] += 1
                folder = posixpath.dirname(folder)
        changes.update(touched)
        for folder, number in touched.items():
            is_most = number >= max(2, BULK_SHARE * folders[folder])
            if is_most and number >= BULK_SHARE * len(commit.entries):
                bulk[folder] += number
    return {folder: bulk[folder] / number for folder, number in changes.items()}
