"""Atomic file writes: a file is written under another name, flushed to disk, and renamed."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path

DRAFT = ".draft"
"""Suffix of an incomplete file."""


def replace_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Create or replace a file in one rename; after a power loss it is either the old or the new one.

    `write` is called with the path of the draft, and writes it. If it fails, the draft is removed.
    """
    # Builds of several machines write here, and their processes may have equal pids.
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
    """Create or replace a text file in one rename."""
    replace_whole(file, lambda draft: draft.write_text(text, encoding="utf-8"))


def sync(path: Path) -> None:
    """Flush a file, or the list of names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
