"""Files that a command writes to a path that the user chooses."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from curriculum.outputs import require_own_place
from schemas.errors import CurriculumError

_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/dev/pts"))
"""Folders of devices. /dev/shm isn't one of them, because all users may write to it, as to /tmp."""


@contextlib.contextmanager
def drafted(output: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder; at the end of the block, the file at that path replaces `output`.

    If the block writes no file, nothing changes. An existing file is replaced rather than overwritten; so is
    a link, because another user may have put it there. Devices such as /dev/stdout are written to directly.

    Raises:
        CurriculumError: if the folder doesn't exist, if `output` exists and isn't a file, or if another user
            could replace the output.
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
    """Return True if `output` is in a folder of devices, not for a link elsewhere that leads to a device."""
    return output.absolute().parent.resolve() in {folder.resolve() for folder in _DEVICES}


def _require_place(output: Path) -> None:
    if not output.absolute().parent.is_dir():
        raise CurriculumError(
            "output", output, cause="the folder doesn't exist", cure="Create the folder first"
        )
    if output.exists() and not output.is_file() and not output.is_symlink():
        raise CurriculumError(
            "output",
            output,
            cause="the path exists and isn't a file",
            cure="Give the path of a file or a new path",
        )
    require_own_place("output", output)
