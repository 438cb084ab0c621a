"""Files that an import may read: those of the folder that the user names, and no others.

The owner of the folder may change it at any time. So the returned paths contain no links, and the
import's sandbox opens them again without following links (`Sandbox.foreign`).
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from curriculum.interop.tokens_out import TOKENS_NAME
from curriculum.store.inside import MAX_DEPTH
from schemas.errors import SchemaError
from schemas.regular_files import kind_at, linked_folders

_PARQUET = ".parquet"
_OF_TOKENS = frozenset((".bin", ".idx", ".json", _PARQUET))


def received_files(path: Path, *, parquet: bool) -> list[Path]:
    """Return `path` and the files that its import may read, all with links resolved.

    The path itself may be a link. A link inside a folder must lead to a file of the same folder, or of the
    blobs of the Hugging Face cache whose snapshot the folder is.

    Raises:
        SchemaError: if a link leads elsewhere, a pipe, device or socket is found instead of a file, or
            folders are nested deeper than MAX_DEPTH.
    """
    kind = kind_at(path)
    # The user may give the path of a token file without its suffix.
    if kind not in ("a file", "a folder") and (parquet or kind != "nothing"):
        raise SchemaError(str(path), cause=f"{kind} is at this path", cure="Check the path")
    folder = path if path.is_dir() else path.parent
    named = sorted(_named(path, parquet=parquet))
    found = [_resolve_inside(folder, file) for file in named if kind_at(file) != "a folder"]
    return [path.resolve(), *found] if path.exists() else found


def _named(path: Path, *, parquet: bool) -> Iterator[Path]:
    """Yield the paths besides `path` that the reader may open by name."""
    suffixes = frozenset((_PARQUET,)) if parquet else _OF_TOKENS
    if path.is_dir():
        yield from (file for file in _below(path) if file.suffix in suffixes)
    elif not parquet and path.parent.is_dir():
        # The files next to tokens.bin may have any name. Those next to another .bin file begin with its stem.
        begin = "" if f"{path.stem}.bin" == TOKENS_NAME else f"{path.stem}."
        for file in path.parent.iterdir():
            if file != path and file.suffix in suffixes and file.name.startswith(begin):
                yield file


def _below(folder: Path) -> Iterator[Path]:
    """Yield all paths below a folder without following links.

    Raises:
        SchemaError: if folders are nested deeper than MAX_DEPTH.
    """
    pending = [(folder, 0)]
    while pending:
        above, depth = pending.pop()
        found: list[os.DirEntry[str]] = []
        with contextlib.suppress(PermissionError), os.scandir(above) as entries:
            found += entries
        for entry in found:
            place = Path(entry.path)
            yield place
            if entry.is_dir(follow_symlinks=False):
                if depth == MAX_DEPTH:
                    cause = f"folders are nested deeper than {MAX_DEPTH}"
                    cure = "Give a folder with the files alone"
                    raise SchemaError(str(above), cause=cause, cure=cure)
                pending.append((place, depth + 1))


def _resolve_inside(folder: Path, file: Path) -> Path:
    """Return `file`, which must lie in `folder`, with links resolved.

    Raises:
        SchemaError: if a link leads out of the folder, or the path isn't a file.
    """
    kind = kind_at(file)
    if kind != "a file":
        raise SchemaError(
            str(file),
            cause=f"it is {kind}, not a file",
            cure="Put a file at this path, or leave the path out",
        )
    target = file.resolve()
    if not any(target.is_relative_to(root) for root in linked_folders(folder)):
        raise SchemaError(
            str(file),
            f"a link to {target}",
            cause="it leads out of the folder, where it could name any file of yours",
            cure="Take it out of the folder, or put the file itself there if it is meant",
        )
    return target
