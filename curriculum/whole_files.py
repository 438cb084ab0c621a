"""Files that appear whole: written beside their place, flushed to the disk, and renamed over it."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path

DRAFT = ".draft"
"""Ending of a file that isn't whole yet."""


def replace_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Let a file appear, or change, in one rename; after a loss of power it is the old or the new one.

    `write` writes the draft at the path that it is given. The draft of a write that fails is removed.
    """
    # Builds of several machines write here, and their processes may have one number.
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}{DRAFT}")
    try:
        write(draft)
        sync(draft)
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(file.parent)


def write_whole(file: Path, text: str) -> None:
    """Let a text file appear, or change, in one rename."""
    replace_whole(file, lambda draft: draft.write_text(text, encoding="utf-8"))


def sync(path: Path) -> None:
    """Flush a file, or a folder's list of names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
