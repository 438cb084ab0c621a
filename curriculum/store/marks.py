"""Lists of live artefacts in current/, each with a digest of its lines."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from schemas import regular_files
from schemas.cures import LOST
from schemas.errors import StoreError

MAX_BYTES = 16 << 20
"""Maximum size of a list in bytes: about 100,000 artefacts."""
_MARKED = "# sha256 "


def marks_text(lines: Sequence[str]) -> str:
    """Return the text of current/<name>.txt: one path per line, and a digest of them at the end."""
    paths = "".join(f"{line}\n" for line in lines)
    return f"{paths}{_MARKED}{hashlib.sha256(paths.encode()).hexdigest()}\n"


def read_mark(file: Path) -> list[str]:
    """Return the paths in a file current/<name>.txt, relative to the workspace.

    Raises:
        StoreError: naming the file, if its digest is missing or differs, if it has more than MAX_BYTES, or
        if it isn't a regular file.
    """
    cure = (
        f"Rename it to {file}{LOST}, and run the command that built its artefacts again; gc removes "
        "nothing while a list is lost"
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
            cause="the list was changed since it was written: its last line isn't the digest of its paths",
            cure=cure,
        )
    return paths
