"""Files that a command writes where its user says."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from schemas.errors import CurriculumError

_DEVICES = (Path("/dev"), Path("/proc"))


@contextlib.contextmanager
def drafted(output: Path) -> Iterator[Path]:
    """Give a path in a folder of its own to write to; the file there takes the place of `output` at the end.

    Where nothing was written nothing changes. A file is replaced, and so is a link, which another user may
    have planted; what lies in /dev, such as /dev/stdout, is written into.

    Raises:
        CurriculumError: for a folder that isn't there, and where something other than a file is in the place.
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
    """Return True for what lies in /dev or /proc; a link that leads there from elsewhere doesn't."""
    parent = output.absolute().parent.resolve()
    return any(parent.is_relative_to(folder) for folder in _DEVICES)


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
