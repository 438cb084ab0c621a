"""What stands in a workspace, by a walk over folders that opens no file."""

import os
import re
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from curriculum.catalog.seen import Identity
from schemas.manifest import MANIFEST_NAME

_STAGE, _KEY = re.compile(r"[a-z]"), re.compile(r"[0-9a-f]{12}")
JOB_NAME = "job.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """A manifest on disk."""

    path: str
    """Of its artefact, relative to the workspace."""
    identity: Identity


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The published artefacts and the open runs of a workspace, in path order."""

    published: tuple[Sighting, ...]
    open_runs: tuple[str, ...]


def walk(home: Path) -> Found:
    """The artefacts and open runs of a workspace; of one that isn't there, none.

    A folder `label=value` or `<12 hex digits>` is walked into until a manifest stands in it, as the store
    lays them.
    """
    published: list[Sighting] = []
    open_runs: list[str] = []
    for stage in _folders(str(home)):
        if _STAGE.match(stage.name):
            _descend(stage.path, stage.name, published, open_runs)
    published.sort(key=attrgetter("path"))
    return Found(published=tuple(published), open_runs=tuple(sorted(open_runs)))


def _descend(folder: str, path: str, published: list[Sighting], open_runs: list[str]) -> None:
    for entry in _folders(folder):
        is_key = _KEY.fullmatch(entry.name) is not None
        if not is_key and "=" not in entry.name:
            continue
        below = f"{path}/{entry.name}"
        if is_key or entry.name.startswith("attempt="):
            there = _stat(f"{entry.path}/{MANIFEST_NAME}")
            if there is not None:
                published.append(Sighting(path=below, identity=Identity.of(there)))
                continue
            if _stat(f"{entry.path}/{JOB_NAME}") is not None:
                open_runs.append(below)
                continue
        _descend(entry.path, below, published, open_runs)


def _folders(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _stat(file: str) -> os.stat_result | None:
    try:
        return os.stat(file)  # noqa: PTH116 - ten thousand of them: a Path each costs more than the call
    except FileNotFoundError:
        return None
