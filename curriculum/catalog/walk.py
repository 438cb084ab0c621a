"""Artefacts and open runs of a workspace by a walk over folders, and findings of earlier walks.

A file is taken for the same as long as its inode, its size and the system's own time of its last change are:
that time can't be set, and an edit, a copy or a restore gives it a new value. So all of this is a hint of
what needn't be read; what is found rests on the bytes alone.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import pyarrow as pa

from curriculum.catalog.cache import Cache, Identity, LastGroups, digest_of
from curriculum.store.inside import require_plain
from schemas.manifest import MANIFEST_NAME
from schemas.regular_files import LINK, status

_SEEN = "seen"


_FINDING_TYPES: dict[str, pa.DataType] = {
    "file": pa.string(),
    "inode": pa.int64(),
    "changed": pa.int64(),
    "size": pa.int64(),
    "found": pa.string(),
}
_SCHEMA = pa.schema([pa.field(name, kind) for name, kind in _FINDING_TYPES.items()])


@dataclass(kw_only=True, slots=True)
class FileFindings:
    """Findings in the files of a workspace, by path relative to it."""

    home: Path
    known: dict[str, tuple[Identity, str | None]]
    last: LastGroups
    """The paths that were written last; nothing where none is known."""
    looked: dict[str, tuple[Identity, str | None]] = field(default_factory=dict)
    """The files that were asked for by now."""

    @staticmethod
    def of(cache: Cache) -> "FileFindings":
        """Read what earlier snapshots kept; nothing where that can't be read."""
        last = cache.last()
        tables = cache.tables(last.seen, {_SEEN: _SCHEMA})
        if tables is None:
            return FileFindings(home=cache.home, known={}, last=LastGroups(snapshot=last.snapshot))
        columns = [tables[_SEEN][name].to_pylist() for name in _SCHEMA.names]
        known = {
            file: (Identity(inode=inode, changed=changed, size=size), found)
            for file, inode, changed, size, found in zip(*columns, strict=True)
        }
        return FileFindings(home=cache.home, known=known, last=last)

    def found(
        self, file: str, identity: Identity, look: Callable[[Path], str | None]
    ) -> str | None:
        """Return what `look` finds in a file, or found when it was the same."""
        there = self.known.get(file)
        if there is None or there[0] != identity:
            there = identity, look(self.home / file)
        self.looked[file] = there
        return there[1]

    def keep(self, cache: Cache, snapshot: str) -> None:
        """Write down what was found for this snapshot; nothing where the workspace can't be written."""
        group = self.last.seen
        if self.looked != self.known or not group:
            table = self._table()
            group = digest_of({_SEEN: table})
            if not cache.keep(group, {_SEEN: table}):
                return
        last = LastGroups(seen=group, snapshot=snapshot)
        if last != self.last:
            cache.keep_last(last)
            if self.last.seen not in ("", group):
                cache.forget(self.last.seen)

    def _table(self) -> pa.Table:
        lines = [
            (file, each.inode, each.changed, each.size, found)
            for file, (each, found) in self.looked.items()
        ]
        columns = list(zip(*lines, strict=True)) or [()] * len(_SCHEMA)
        arrays = [
            pa.array(column, each.type) for column, each in zip(columns, _SCHEMA, strict=True)
        ]
        return pa.table(arrays, schema=_SCHEMA)


_STAGE, _KEY = re.compile(r"[a-z]"), re.compile(r"[0-9a-f]{12}")
JOB_NAME = "job.json"
_DEPTH = 16
"""Folders below the workspace; artefacts lie at half of that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestStat:
    """A manifest on disk."""

    path: str
    """Path of its artefact, relative to the workspace."""
    identity: Identity


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkspaceListing:
    """The published artefacts and the open runs of a workspace, in path order."""

    published: tuple[ManifestStat, ...]
    open_runs: tuple[str, ...]
    passed_over: tuple[tuple[str, str], ...]
    """Paths of what isn't walked into, each with the reason."""


def walk(home: Path) -> WorkspaceListing:
    """The artefacts and open runs of a workspace; of one that isn't there, none.

    A folder `label=value` or `<12 hex digits>` is walked into until a manifest stands in it, as the store
    lays them. A symbolic link is walked into nowhere.

    Raises:
        StoreError: where a link lies in the workspace's root or its small folders.
    """
    require_plain(home)
    found = _Walk()
    for stage in found.folders(str(home), ""):
        if _STAGE.match(stage.name):
            found.descend(stage.path, stage.name)
    found.published.sort(key=attrgetter("path"))
    return WorkspaceListing(
        published=tuple(found.published),
        open_runs=tuple(sorted(found.open_runs)),
        passed_over=tuple(sorted(found.passed_over)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Walk:
    published: list[ManifestStat] = field(default_factory=list)
    open_runs: list[str] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)

    def descend(self, folder: str, path: str) -> None:
        for entry in self.folders(folder, f"{path}/"):
            is_key = _KEY.fullmatch(entry.name) is not None
            if not is_key and "=" not in entry.name:
                continue
            below = f"{path}/{entry.name}"
            if below.count("/") > _DEPTH:
                self.passed_over.append((below, "it lies deeper than any artefact"))
                continue
            if is_key or entry.name.startswith("attempt="):
                there = status(f"{entry.path}/{MANIFEST_NAME}")
                if there is not None:
                    self.published.append(ManifestStat(path=below, identity=Identity.of(there)))
                    continue
                if status(f"{entry.path}/{JOB_NAME}") is not None:
                    self.open_runs.append(below)
                    continue
            self.descend(entry.path, below)

    def folders(self, folder: str, path: str) -> list[os.DirEntry[str]]:
        """The folders of a folder; `path` is that of what it holds, relative to the workspace."""
        try:
            with os.scandir(folder) as entries:
                return [entry for entry in entries if self._is_walked(entry, path)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as refused:
            self.passed_over.append((path.rstrip("/") or ".", str(refused.strerror)))
            return []

    def _is_walked(self, entry: os.DirEntry[str], path: str) -> bool:
        if entry.is_symlink():
            self.passed_over.append((_shown(path + entry.name), LINK))
        elif entry.is_dir(follow_symlinks=False):
            if _shown(entry.name) == entry.name:
                return True
            self.passed_over.append((_shown(path + entry.name), "its name isn't UTF-8"))
        return False


def _shown(path: str) -> str:
    """A path with a replacement for bytes that aren't UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
