"""Which folders a database speaks of when it was made for the same files in another place."""

import posixpath
from collections import Counter
from collections.abc import Iterable
from pathlib import Path


def below(path: str, folder: str) -> str | None:
    """`db/impl.cc` for /src/db/impl.cc in /src, `.` for /src itself; None for what isn't in it."""
    if path == folder:
        return "."
    start = folder if folder.endswith("/") else f"{folder}/"
    return path[len(start) :] if path.startswith(start) else None


def foreign_root(files: Iterable[str], paths: frozenset[str], original: Path | None) -> str | None:
    """The folder that stands for the tree's root: of those that files vote for the shortest of the best.

    /src/db/impl.cc votes for /src where the tree has db/impl.cc. `original` wins if a file votes for it.
    """
    votes: Counter[str] = Counter()
    for file in files:
        steps = file.split("/")
        for at in range(1, len(steps)):
            if "/".join(steps[at:]) in paths:
                votes["/".join(steps[:at]) or "/"] += 1
    given = [] if original is None else [str(original.absolute()), str(original.resolve())]
    for folder in given:
        if votes[folder]:
            return folder
    best = min(votes.items(), key=lambda item: (-item[1], len(item[0]), item[0]), default=None)
    return None if best is None or best[1] == 0 else best[0]


def build_folder(directories: Iterable[str], foreign: str | None) -> str | None:
    """What all folders outside of the root that commands ran in lie in; None if that is all or nothing."""
    outside = {each for each in directories if foreign is None or below(each, foreign) is None}
    shared = posixpath.commonpath(outside) if outside else "/"
    return shared if shared.count("/") > 1 else None


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """The folders that files lie in, without the root."""
    folders: set[str] = set()
    for path in paths:
        folder = posixpath.dirname(path)
        while folder and folder not in folders:
            folders.add(folder)
            folder = posixpath.dirname(folder)
    return frozenset(folders)
