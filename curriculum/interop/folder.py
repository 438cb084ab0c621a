"""A folder that is handed on: it appears whole or not at all."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from curriculum.store import refusal
from schemas.errors import StoreError


@contextlib.contextmanager
def whole_folder(to: Path) -> Iterator[Path]:
    """A folder to write into, that becomes `to` where all went well.

    Raises:
        StoreError: where something is there already, or the disk is full.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise StoreError(
            "--to",
            to,
            cause="something is there already",
            cure="Name a folder that isn't there yet",
        )
    draft = to.absolute().with_name(f".{to.absolute().name}.draft")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        yield draft
        for file in sorted(draft.rglob("*")):
            _flush(file)
        draft.replace(to.absolute())
    except OSError as failed:
        if (named := refusal(failed, to)) is None:
            raise
        raise named from failed
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _flush(file: Path) -> None:
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
