"""Files of a workspace: names, locks and removal; and checks of an untrusted workspace.

Users either trust a workspace, or read it in a sandbox after `require_plain` has checked it for links. So
the other functions don't check for links again: every path below the root belongs to the workspace.
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
"""Maximum depth of folders in an untrusted workspace; our commands create at most ten levels."""


def missing_workspace(home: Path) -> str | None:
    """Return an error message if the folder of a workspace doesn't exist, or None if it exists."""
    if home.exists():
        return None
    return f"No workspace at {one_line(str(home))}. Set --home or CURRICULUM_HOME to another folder"


def require_plain(root: Path) -> None:
    """Raise unless a workspace has only regular files and folders, with displayable names, not too deep.

    Displayable names are UTF-8 without control characters and invisible characters. Contents of clones
    aren't checked, since git reads them by its own rules.

    Raises:
        StoreError: naming the first link, device, pipe, socket, undisplayable name, unreadable folder, or
        folder that is deeper than MAX_DEPTH.
    """
    clones = root / CLONES
    _require_shown(root)
    for folder, entry in _entries_below(root):
        if clones not in folder.parents:
            _require_plain(entry)


def require_plain_below(root: Path, folder: Path) -> None:
    """Raise unless `folder`, which lies in a workspace, has only regular files and folders.

    No part of the path from `root` to the folder may be a link.

    Raises:
        StoreError: as for `require_plain`.
    """
    for above in (folder, *folder.parents):
        if above == root:
            break
        if above.is_symlink():
            raise _refused(str(above), "a link")
    require_plain(folder)


def _entries_below(root: Path) -> Iterator[tuple[Path, "os.DirEntry[str]"]]:
    """Yield all entries below a folder, each with its parent folder, without following links."""
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
    """Raise unless an entry is a regular file or a folder with a displayable name."""
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
        cause=(
            "an untrusted workspace may only contain regular files and folders with displayable "
            f"names, nested at most {MAX_DEPTH} folders deep"
        ),
        cure="Move it out of the workspace",
    )


def lock(root: Path, name: str) -> Path:
    """Return the path of a lock file in a workspace, after creating its folder."""
    file = root / LOCKS / name
    file.parent.mkdir(exist_ok=True)
    return file


def read(model: type[Model], file: Path) -> Model | None:
    """Return the model in a small file, or None if the file can't be read.

    Another process may be writing the file at the same time.
    """
    try:
        return model.model_validate_json(regular_files.read(file, follow_links=True))
    except (OSError, ValidationError):
        return None


def open_lock(file: Path, *, fresh: bool = False) -> int:
    """Open a lock file, creating it if necessary, and return its descriptor.

    With `fresh`, the file must not exist yet. In a shared folder, another user may have created the lock,
    so that this user can only read it; a process can lock it all the same.

    Raises:
        FileExistsError: if `fresh` is True and the file exists.
        StoreError: if the path isn't a regular file, or this user may not read it.
    """
    try:
        if fresh:
            return regular_files.opened(file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        with contextlib.suppress(PermissionError):
            return regular_files.opened(file, os.O_RDWR | os.O_CREAT)
        return _opened_by_all(file)
    except regular_files.IrregularFileError as refused:
        raise StoreError(
            str(file), cause=f"{refused}, but a lock must be a regular file", cure="Remove it"
        ) from None


def _opened_by_all(lock: Path) -> int:
    try:
        return regular_files.opened(lock)
    except PermissionError:
        cause = "other users may not open it"
        raise StoreError(str(lock), cause=cause, cure="Ask its owner to remove it") from None


def append(file: Path) -> int:
    """Open a log for appending, creating it if necessary, and return its descriptor.

    A log with several hard links, for example in a copy of the workspace, is replaced by a copy first, so
    that the other links don't change.

    Raises:
        StoreError: if the path isn't a regular file.
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
    """Remove a file, a link itself, or a folder with its contents; ignore a missing path."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def files_of(folder: Path) -> Iterator[str]:
    """Yield the paths of all files below a folder, relative to it."""
    for leaf in leaves_below(folder):
        yield leaf.relative_to(folder).as_posix()
