"""Artefacts and open runs of a workspace, by a walk over folders that opens no file."""

import os
import re
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from curriculum.catalog.cache import Identity
from curriculum.store.inside import require_plain
from schemas.manifest import MANIFEST_NAME
from schemas.regular_files import LINK, status

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
