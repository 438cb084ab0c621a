"""Files of a workspace: their names, locks and removal; and the look through one that isn't trusted.

Who opens a workspace trusts it, or reads it in a sandbox after `require_plain`. So nothing here looks for
links again: what a path below the root leads to is the workspace's.
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from curriculum.exposure import leaves_below
from schemas import regular_files
from schemas.errors import StoreError
from schemas.json_text import Model
from schemas.visible import one_line

WORKSPACE_NAME = "workspace.json"
LOCKS, DRAFTS, TRASH, CLONES = ".locks", ".drafts", ".trash", "repositories"
MAX_DEPTH = 32
"""Folders above a file of a workspace that isn't trusted; those that commands make have ten at most."""


def missing_workspace(home: Path) -> str | None:
    """The words for a workspace whose folder isn't there; None where it is."""
    if home.exists():
        return None
    return f"No workspace is at {one_line(str(home))}; --home or CURRICULUM_HOME names another"


def require_plain(root: Path) -> None:
    """Raise unless a workspace holds plain files and folders only, not too deep, whose names can be shown.

    A name that can be shown is UTF-8 and has no control or invisible characters. What is in a clone may be
    of any kind and name: git reads it by rules of its own.

    Raises:
        StoreError: naming the first link, device, pipe or socket, a name that can't be shown, a folder below
            MAX_DEPTH others, or what can't be listed.
    """
    clones = root / CLONES
    _require_shown(root)
    for folder, entry in _entries_below(root):
        if clones not in folder.parents:
            _require_plain(entry)


def require_plain_below(root: Path, folder: Path) -> None:
    """Raise unless a folder of a workspace holds plain files and folders only, and no link leads to it.

    Raises:
        StoreError: as `require_plain`.
    """
    for above in (folder, *folder.parents):
        if above == root:
            break
        if above.is_symlink():
            raise _refused(str(above), "a link")
    require_plain(folder)


def require_shallow(folder: Path) -> None:
    """Raise unless a folder outside of workspaces can be searched: its folders aren't nested too deep.

    Raises:
        StoreError: naming a folder below MAX_DEPTH others, or what can't be listed.
    """
    for _ in _entries_below(folder):
        pass


def _entries_below(root: Path) -> Iterator[tuple[Path, "os.DirEntry[str]"]]:
    """Yield what lies below a folder, each with the folder that it is in; no link is followed."""
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError as refused:
            raise _refused(str(folder), str(refused.strerror)) from None
        for entry in found:
            yield folder, entry
            if entry.is_dir(follow_symlinks=False):
                if depth == MAX_DEPTH:
                    raise _refused(str(folder), f"folders nested deeper than {MAX_DEPTH}")
                pending.append((Path(entry.path), depth + 1))


def _require_plain(entry: "os.DirEntry[str]") -> None:
    """Raise unless an entry is a plain file or a folder whose name can be shown."""
    _require_shown(Path(entry.path))
    if entry.is_symlink():
        raise _refused(entry.path, "a link")
    if not (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)):
        raise _refused(entry.path, "a device, a pipe or a socket")


def _require_shown(path: Path) -> None:
    """Raise unless the name of a file or folder is UTF-8 without control or invisible characters."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise _refused(os.fsencode(path).decode(errors="replace"), "no UTF-8 name") from None
    if one_line(path.name) != path.name:
        raise _refused(str(path), "a name with control or invisible characters")


def _refused(path: str, found: str) -> StoreError:
    return StoreError(
        path,
        found,
        cause="a workspace that isn't yours may hold plain files and folders only, with names that can be "
        f"shown, below {MAX_DEPTH} folders at most",
        cure="Move it out of the workspace",
    )


def lock(root: Path, name: str) -> Path:
    """The file of a lock in a workspace, to be held by whoever opens it; its folder is made."""
    file = root / LOCKS / name
    file.parent.mkdir(exist_ok=True)
    return file


def read(model: type[Model], file: Path) -> Model | None:
    """Parse a small file that another process may be writing; None where it can't be read."""
    try:
        return model.model_validate_json(regular_files.read(file, follow_links=True))
    except (OSError, ValidationError):
        return None


def open_lock(file: Path, *, fresh: bool = False) -> int:
    """Open a file to be locked, and make it where it isn't there; a descriptor.

    A `fresh` one, which must not be there, can be written. Another user of a shared folder may have planted
    something in its place, or made the lock, which may then be read-only: the system locks it all the same.

    Raises:
        FileExistsError: for a fresh one that is there.
        StoreError: for a link, a folder, a pipe, a device or a socket in its place, and for a lock that this
            user may not read.
    """
    try:
        if fresh:
            return regular_files.opened(file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        with contextlib.suppress(PermissionError):
            return regular_files.opened(file, os.O_RDWR | os.O_CREAT)
        return _opened_by_all(file)
    except regular_files.IrregularFileError as refused:
        raise StoreError(
            str(file), cause=f"{refused}, and a lock is a regular file", cure="Remove it"
        ) from None


def _opened_by_all(lock: Path) -> int:
    try:
        return regular_files.opened(lock)
    except PermissionError:
        cause = "its owner lets no other user open it"
        raise StoreError(str(lock), cause=cause, cure="Have it removed") from None


def append(file: Path) -> int:
    """Open a log for appending, and create it if it doesn't exist; return a descriptor.

    A log with several names, for example in a copy of the workspace that shares its files, is copied first.

    Raises:
        StoreError: for a link, a folder, a pipe, a device or a socket in its place.
    """
    log = _opened_log(file)
    if os.fstat(log).st_nlink < 2:
        return log
    os.close(log)
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}.draft")
    shutil.copyfile(file, draft)
    draft.replace(file)
    return _opened_log(file)


def _opened_log(file: Path) -> int:
    try:
        return regular_files.opened(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except regular_files.IrregularFileError as refused:
        raise StoreError(
            str(file), cause=f"{refused}, and a log is a regular file", cure="Remove it"
        ) from None


def remove(path: Path) -> None:
    """Remove a file, a folder with all in it, or a link itself; nothing where it isn't there."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def files_of(folder: Path) -> Iterator[str]:
    """The files below a folder, by their paths in it."""
    for leaf in leaves_below(folder):
        yield leaf.relative_to(folder).as_posix()
