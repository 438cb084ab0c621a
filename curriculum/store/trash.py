""".trash: what gc removes leaves its place whole, in one rename, and is removed from there file by file.

    .trash/<uuid>/<path in the workspace>

Readers don't look there. What an interrupted gc left in it is removed by the next one.
"""

import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

from curriculum.store import inside

FOLDER = inside.TRASH
ENTRY = re.compile(r"[0-9a-f]{32}")


def discard(root: Path, path: Path) -> None:
    """Move a directory of a workspace to its trash."""
    place = root / FOLDER / uuid.uuid4().hex / path.relative_to(root)
    place.parent.mkdir(parents=True)
    inside.move(root, path, place)


def discarded(root: Path, pattern: str) -> Iterator[Path]:
    """Paths in the trash that lay in the workspace under a pattern."""
    return (root / FOLDER).glob(f"*/{pattern}")


def empty(root: Path) -> int:
    """Remove all that was put in the trash; the bytes that this freed."""
    freed = 0
    for entry in sorted((root / FOLDER).glob("*")):
        if ENTRY.fullmatch(entry.name):
            freed += size_of(entry)
            inside.remove(root, entry)
    return freed


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder."""
    files = (Path(where, name) for where, _, names in os.walk(folder) for name in names)
    return sum(file.lstat().st_size for file in files)
