"""Folders that appear whole or not at all."""

import tempfile
from collections.abc import Callable
from pathlib import Path


def once(target: Path, make: Callable[[Path], None]) -> Path:
    """The folder `target`, made by `make` at a path beside it unless it is there already.

    Two processes may try at once: the first to finish wins, and the other's work is dropped. Where `make`
    fails, no folder is left that wasn't there before.
    """
    if target.is_dir():
        return target
    absent = [each for each in target.parents if not each.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=target.parent) as folder:
            draft = Path(folder) / target.name
            make(draft)
            _publish(draft, target)
    finally:
        for each in absent:
            if not any(each.iterdir()):
                each.rmdir()
    return target


def _publish(draft: Path, target: Path) -> None:
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise
