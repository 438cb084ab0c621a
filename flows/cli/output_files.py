"""Files that a command writes where its user says."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from curriculum.outputs import require_own_place
from schemas.errors import CurriculumError

_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/dev/pts"))
"""Folders of devices; /dev/shm is none of them: users share it, as they share /tmp."""


@contextlib.contextmanager
def drafted(output: Path) -> Iterator[Path]:
    """Give a path in a folder of its own to write to; the file there takes the place of `output` at the end.

    If nothing was written, nothing changes. A file is replaced, and so is a link, which another user may
    have planted. Devices such as /dev/stdout are written into.

    Raises:
        CurriculumError: for a missing folder, a place that holds something other than a file, and a folder
            in which another user could replace the output.
    """
    is_device = _is_device(output)
    if not is_device:
        _require_place(output)
    with tempfile.TemporaryDirectory(
        prefix=f".{output.name}.", dir=None if is_device else output.absolute().parent
    ) as folder:
        draft = Path(folder) / output.name
        yield draft
        if not draft.is_file() or draft.is_symlink():
            return
        if not is_device:
            draft.replace(output)
            return
        with draft.open("rb") as written, output.open("wb") as device:
            shutil.copyfileobj(written, device)


def _is_device(output: Path) -> bool:
    """Return True for entries of a folder of devices, but not for links elsewhere that lead to them."""
    return output.absolute().parent.resolve() in {folder.resolve() for folder in _DEVICES}


def _require_place(output: Path) -> None:
    if not output.absolute().parent.is_dir():
        raise CurriculumError(
            "output", output, cause="there is no such folder", cure="Create it first"
        )
    if output.exists() and not output.is_file() and not output.is_symlink():
        raise CurriculumError(
            "output",
            output,
            cause="something other than a file is there",
            cure="Name a file, or a path where nothing is yet",
        )
    require_own_place("output", output)
