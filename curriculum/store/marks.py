"""The lists of artefacts in current/, each with a digest of itself."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from schemas import regular_files
from schemas.cures import LOST
from schemas.errors import StoreError

MAX_BYTES = 16 << 20
"""Bytes of a list: some 100,000 artefacts."""
_MARKED = "# sha256 "


def marks_text(lines: Sequence[str]) -> str:
    """The text of current/<name>.txt: a path a line, and a digest of them at the end."""
    paths = "".join(f"{line}\n" for line in lines)
    return f"{paths}{_MARKED}{hashlib.sha256(paths.encode()).hexdigest()}\n"


def read_mark(file: Path) -> list[str]:
    """The paths, relative to the workspace, that a file current/<name>.txt lists as live.

    Raises:
        StoreError: naming the file, where its digest is missing or differs, for more than MAX_BYTES, and for
            what is no file.
    """
    cure = (
        f"Rename it to {file}{LOST}, and give the command again that made its artefacts; gc removes nothing "
        "while a list is lost"
    )
    try:
        text = regular_files.read(file, most=MAX_BYTES, follow_links=True).decode(errors="replace")
    except regular_files.IrregularFileError as refused:
        raise StoreError(str(file), cause=str(refused), cure=cure) from None
    lines = text.splitlines()
    paths = [line for line in lines if not line.startswith("#")]
    if marks_text(paths).splitlines() != lines:
        raise StoreError(
            str(file),
            cause="its last line isn't the digest of the paths before: it was changed since it was written",
            cure=cure,
        )
    return paths
