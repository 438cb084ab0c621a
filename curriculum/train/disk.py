"""Files that appear whole or not at all."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path


def replace_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside `path`, flush, and rename over it."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.draft")
    write(draft)
    flush(draft)
    draft.replace(path)
    flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Let a text file appear whole."""
    replace_whole(path, lambda draft: draft.write_text(text))


def flush(path: Path) -> None:
    """Bring a file, or a folder's list of names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
