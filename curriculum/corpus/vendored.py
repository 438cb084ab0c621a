"""Vendored code, found by what files state at the newest commit and by bulk imports.

Files state copyright holders and licences. A holder or licence is foreign if it isn't one of the repository's
own. These are vendored:

    file     a header of some size with a foreign licence and a foreign copyright holder
    folder   most files that name a holder name a foreign one and state a foreign licence
    import   most files name the same foreign holder, and most changes came in bulk commits
    package  a licence file of a foreign holder, next to a build file or with changes from bulk commits

Code that includes headers of the repository around it was written for this repository, whoever its author is.
So a header that does this is not vendored, and neither is a folder in which half of the files do so.

The repository's own licences are the one that most files have and the one of the licence file at the root.
Its own holder is the holder in that licence file, if a fifth of the files under the usual licence name this
holder. Otherwise its own holders are all that a fifth of these files name. A holder that half of all files
name is always its own.
"""

import posixpath
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from curriculum.corpus.includes import HeaderPaths
from curriculum.corpus.quality import is_vendored
from curriculum.corpus.sorted_paths import SortedPaths
from schemas.tree_licences import FolderLicence

OWN_SHARE = 0.2
"""A holder is the repository's own if at least this share of the files that name a holder names it."""
MAJORITY = 0.5
"""A holder is the repository's own in any case if at least this share of all files with a holder names it."""
OTHER_SHARE = 0.8
"""Minimum share of files with a foreign holder among the files of a vendored folder that name a holder."""
MIN_FOLDER_FILES, MIN_IMPORTED_FILES = 2, 3
"""Minimum number of files with a foreign holder in a vendored folder, and in an imported one."""
HOST_SHARE = 0.5
"""A folder isn't vendored if at least this share of its files includes headers of the code around it."""
MIN_HEADER_BYTES = 20_000
"""Minimum size in bytes of a single vendored header; smaller ones are often contributed to a project."""
HEADER_SUFFIXES = (".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".ipp")
BULK_SHARE = 0.5
"""Minimum share for three conditions on bulk commits.

A bulk commit changes at least this share of a folder's files, and at least this share of its changed files is
in the folder. A folder is imported if at least this share of its changes came from bulk commits.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileOrigin:
    """Licence, copyright holder and includes that a C or C++ file states."""

    num_bytes: int
    licence: str | None
    """Licence that the file's own first comment states."""
    nearest: str | None
    """Licence in the file's first comment, or else in the nearest licence files."""
    holder: str | None
    """Copyright holder that the file's own first comment names."""
    includes: tuple[str, ...] = ()
    """Names of the headers that the file includes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VendoredCode:
    """Vendored files and folders of a tree, each with the evidence.

    The folders apply to files that are deleted in this tree.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    """Files that the tree contains; these are judged one by one, not by `folders`."""

    def evidence(self, path: str) -> str | None:
        """Return the evidence that the file at `path` is vendored, or None if it isn't."""
        if path in self.present:
            return self.files.get(path)
        return next((self.folders[name] for name in _above(path) if name in self.folders), None)

    def counted(self) -> dict[str, int]:
        """Return the number of vendored files in the tree by evidence."""
        return dict(sorted(Counter(self.files.values()).items()))


NOTHING_VENDORED = VendoredCode()

BulkShares = Callable[[Mapping[str, int]], Mapping[str, float]]
"""Function that returns the share of each folder's changes that came from bulk commits.

Its argument is the number of files in each folder.
"""


def find_vendored(
    origins: Mapping[str, FileOrigin],
    licences: Mapping[str, FolderLicence],
    paths: Sequence[str],
    bulk_shares: BulkShares,
) -> VendoredCode:
    """Find the vendored files and folders of a tree.

    Args:
        origins: Origins of the C and C++ files, by path.
        licences: Licence files by folder.
        paths: Build files of the tree.
        bulk_shares: Returns for folders the share of their changes that came from bulk commits.
    """
    own = _own(origins, licences)
    foreign = _foreign_folders(origins, licences, paths, bulk_shares, own)
    around = _Surroundings(
        origins=origins,
        paths=SortedPaths(origins),
        foreign=foreign,
        headers=HeaderPaths(origins),
    )
    folders = {
        folder: evidence for folder, evidence in foreign.items() if not around.include_host(folder)
    }
    return VendoredCode(
        files=dict(_files(origins, folders, own, around)),
        folders=folders,
        present=frozenset(origins),
    )


def _foreign_folders(
    origins: Mapping[str, FileOrigin],
    licences: Mapping[str, FolderLicence],
    paths: Sequence[str],
    bulk_shares: BulkShares,
    own: "_Own",
) -> dict[str, str]:
    """Return the folders of foreign code with the evidence; includes aren't considered yet."""
    code, built = SortedPaths(origins), SortedPaths(paths)
    packages = {
        folder: code.below(folder)
        for folder in licences
        if folder and licences[folder].holder and not own.names(licences[folder].holder)
    }
    by_folder: dict[str, list[str]] = defaultdict(list)
    for path in origins:
        by_folder[posixpath.dirname(path)].append(path)
    holders = {
        folder: holder
        for folder, files in by_folder.items()
        if folder and (holder := _other_holder([origins[path] for path in files], own))
    }
    sizes = {folder: len(files) for folder, files in (*by_folder.items(), *packages.items())}
    bulk = bulk_shares(
        {folder: sizes[folder] for folder in {**packages, **holders} if sizes[folder]}
    )
    folders: dict[str, str] = {}
    for folder, files in packages.items():
        is_built = bool(built.below(folder))
        is_import = bulk.get(folder, 0) >= BULK_SHARE
        if (is_built or is_import) and not _mostly_own([origins[path] for path in files], own):
            why = "with its build files" if is_built else "imported as a whole"
            folders[folder] = f"{folder}/: licence file of {licences[folder].holder}, {why}"
    for folder, files in by_folder.items():
        if folder and _is_foreign_folder([origins[path] for path in files], own):
            folders.setdefault(folder, f"{folder}/: other licences and holders than {own.words}")
        elif bulk.get(folder, 0) >= BULK_SHARE and folder in holders:
            folders.setdefault(
                folder, f"{folder}/: files of {holders[folder]}, imported as a whole"
            )
    return folders


@dataclass(frozen=True, kw_only=True, slots=True)
class _Surroundings:
    """The repository around foreign folders, used to check whether their files include its headers."""

    origins: Mapping[str, FileOrigin]
    paths: SortedPaths
    foreign: Collection[str]
    headers: HeaderPaths

    def include_host(self, folder: str) -> bool:
        """Return True if at least HOST_SHARE of a folder's files include headers of the code around it."""
        files = self.paths.below(folder)
        return sum(map(self.includes_host, files)) >= HOST_SHARE * len(files)

    def includes_host(self, path: str) -> bool:
        """Return True if a file includes a header that is outside of all foreign folders.

        Names without a folder, such as value.h, and names that match several headers don't count.
        """
        matches = (
            self.headers.matching(path, name) for name in self.origins[path].includes if "/" in name
        )
        alone = (self.headers.paths[found[0]] for found in matches if len(found) == 1)
        return any(not self._is_foreign(header) for header in alone)

    def _is_foreign(self, path: str) -> bool:
        return is_vendored(path) or any(folder in self.foreign for folder in _above(path))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Own:
    """The repository's own licences and copyright holders."""

    licences: frozenset[str]
    holders: frozenset[str]

    def names(self, holder: str | None) -> bool:
        """Return True if `holder` is one of the repository's own, perhaps in a longer or shorter form."""
        name = (holder or "").casefold()
        return bool(name) and any(own in name or name in own for own in self.holders)

    def is_foreign(self, origin: FileOrigin) -> bool:
        """Return True if a file states both a foreign licence and a foreign holder."""
        other_licence = origin.licence is not None and origin.licence not in self.licences
        return other_licence and origin.holder is not None and not self.names(origin.holder)

    @property
    def words(self) -> str:
        """The repository's own licences as text for evidence."""
        return " and ".join(sorted(self.licences))


def _own(origins: Mapping[str, FileOrigin], licences: Mapping[str, FolderLicence]) -> _Own:
    root = licences.get("")
    nested = {folder for folder in licences if folder}
    top = [
        origin
        for path, origin in origins.items()
        if not is_vendored(path) and not nested.intersection(_above(path))
    ]
    named = Counter(origin.nearest for origin in top if origin.nearest)
    usual = {licence for licence, _ in named.most_common(1)}
    files = [origin for origin in top if not usual or origin.nearest in usual]
    holders = Counter(origin.holder.casefold() for origin in files if origin.holder)
    found = {name for name, number in holders.items() if number >= OWN_SHARE * holders.total()}
    if sum(holders[name] for name in found) < OWN_SHARE * len(files):
        found = set()
    every = Counter(origin.holder.casefold() for origin in origins.values() if origin.holder)
    if root and root.holder:
        stated = root.holder.casefold()
        found = {name for name in found if stated in name or name in stated} or found
        found.add(stated)
    found |= {name for name, number in every.items() if number >= MAJORITY * every.total()}
    return _Own(
        licences=frozenset(usual | set(root.licences if root else ())), holders=frozenset(found)
    )


def _above(path: str) -> Iterator[str]:
    """Yield the folders above a path, nearest first, without the root."""
    while path := posixpath.dirname(path):
        yield path


def _mostly_own(files: Sequence[FileOrigin], own: _Own) -> bool:
    return sum(own.names(origin.holder) for origin in files) > (1 - OTHER_SHARE) * len(files)


def _is_foreign_folder(files: Sequence[FileOrigin], own: _Own) -> bool:
    foreign = sum(own.is_foreign(origin) for origin in files)
    named = sum(origin.holder is not None for origin in files)
    return foreign >= max(MIN_FOLDER_FILES, OTHER_SHARE * named, len(files) / 2)


def _other_holder(files: Sequence[FileOrigin], own: _Own) -> str | None:
    """Return the foreign holder that most files of a folder name, or None if there is none."""
    named = Counter(origin.holder for origin in files if origin.holder)
    if not named:
        return None
    ((holder, number),) = named.most_common(1)
    is_most = number >= max(MIN_IMPORTED_FILES, OTHER_SHARE * named.total(), len(files) / 2)
    return holder if is_most and not own.names(holder) else None


def _files(
    origins: Mapping[str, FileOrigin],
    folders: Mapping[str, str],
    own: _Own,
    around: _Surroundings,
) -> Iterator[tuple[str, str]]:
    for path, origin in origins.items():
        if own.names(origin.holder):
            continue
        evidence = next((folders[name] for name in _above(path) if name in folders), None)
        if evidence:
            yield path, evidence
        elif (
            own.is_foreign(origin)
            and origin.num_bytes >= MIN_HEADER_BYTES
            and path.lower().endswith(HEADER_SUFFIXES)
            and own.licences
            and not around.includes_host(path)
        ):
            yield path, f"{path}: {origin.licence} of {origin.holder}"
