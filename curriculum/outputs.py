"""Folders and files outside of the workspace that a command writes at the user's request."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from curriculum.exposure import (
    claim,
    exposure,
    exposure_above,
    is_trusted_by_environment,
    real_path,
)
from curriculum.store import refusal
from curriculum.whole_files import sync
from schemas.errors import StoreError


def require_own_place(option: str, output: Path) -> None:
    """Raise unless `output` is safe: no other user can replace it while it is written.

    A folder with the sticky bit, such as /tmp, is safe; so is everything in $CURRICULUM_TRUST.

    Raises:
        StoreError: naming the folder that another user can change.
    """
    place = real_path(output.absolute().parent) / output.name
    if is_trusted_by_environment(place):
        return
    _require_unexposed(option, output, exposure_above(place))


def require_new_folder(option: str, folder: Path) -> None:
    """Raise unless `folder` is missing or empty, and no other user can replace it while it is written.

    Raises:
        StoreError: if the path exists and isn't an empty folder, or if another user can change it.
    """
    require_own_place(option, folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(
            option,
            folder,
            cause="the path exists already and isn't an empty folder",
            cure="Give the path of a new folder",
        )


def claim_folder(option: str, folder: Path) -> Path:
    """Return the real path of a folder that is filled in place; create it if others could create it first.

    Call it before long work, so that no other user puts a folder there in the meantime.

    Raises:
        StoreError: naming the folder that another user can change.
    """
    place = real_path(folder)
    if is_trusted_by_environment(place):
        return place
    claim(place)
    _require_unexposed(option, folder, exposure(place))
    return place


def _require_unexposed(option: str, output: Path, exposed: str | None) -> None:
    if exposed is not None:
        raise StoreError(
            option,
            output,
            cause=f"{exposed}: they could replace the output while it is written",
            cure="Name a path in a folder that only you may write to",
        )


@contextlib.contextmanager
def whole_folder(to: Path) -> Iterator[Path]:
    """Yield a draft folder; after the block, flush it to the disk and move it to `to`.

    The draft is removed after an error.

    Raises:
        StoreError: if `to` isn't a new folder, and for a full disk.
    """
    require_new_folder("--to", to)
    draft = to.absolute().with_name(f".{to.absolute().name}.draft")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        yield draft
        for file in sorted(draft.rglob("*")):
            sync(file)
        draft.replace(to.absolute())
    except OSError as failed:
        if (named := refusal(failed, to)) is None:
            raise
        raise named from failed
    finally:
        shutil.rmtree(draft, ignore_errors=True)
