"""The plain files and folders inside a workspace, none of them reached through a link.

A workspace may come from somebody else, so it is data. Its root lies wherever its user put it, also behind
links; from there on a folder is a folder and a file is a file, so that whatever is read, written or removed
by a path below the root is in the workspace.

    require_plain    at opening: the root's own entries, and all of the folders that are written in place
    Inside.require   on the way to an artefact: each folder above it
    files_of         in a directory: its files
    lock, append     files that are written in place
    remove, move     by descriptors of folders, which no link can lead elsewhere
"""

import contextlib
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from pydantic import ValidationError

from schemas import regular_files
from schemas.corpus import is_name
from schemas.errors import StoreError
from schemas.json_text import Model
from schemas.regular_files import IrregularFileError, is_plain
from schemas.stages import STAGES

WORKSPACE_NAME = "workspace.json"
LOCKS, DRAFTS, TRASH, CLONES = ".locks", ".drafts", ".trash", "repositories"
FILES = frozenset({WORKSPACE_NAME, "README.md", "catalog.sql"})
SMALL = frozenset(
    {
        *("approvals", "catalog", "corpora", "current", "diets", "gates", "leakchecks"),
        *("leases", "orders", "phases", "prefect", "reports", "slots", "told"),
    }
)
"""Folders that are looked through whole when a workspace is opened."""
FOLDERS = frozenset(
    {
        *SMALL,
        *(LOCKS, DRAFTS, TRASH, CLONES),
        *STAGES,
    }
)


def missing_workspace(home: Path) -> str | None:
    """The words for a workspace whose folder isn't there; None where it is."""
    if home.exists():
        return None
    return f"No workspace is at {home}; --home or CURRICULUM_HOME names another"


def require_plain(root: Path) -> None:
    """Open a workspace: at its root, and in its small folders, there are plain files and folders only.

    One that isn't there yet passes. Reads the names of some folders, and no file.

    Raises:
        StoreError: naming the first link, device, pipe or socket, or a file in a folder's place.
    """
    for entry in _entries(root):
        if _is_folder(entry):
            if entry.name in FILES:
                raise _refused(entry.path, "a folder", "a file of the workspace has that name")
            if entry.name in SMALL:
                require_tree(Path(entry.path))
            if entry.name == CLONES:
                require_entries(Path(entry.path), None)
        elif entry.name in FOLDERS:
            raise _refused(entry.path, "a file", "a folder of the workspace has that name")


def require_tree(folder: Path) -> None:
    """Check that below a folder there are plain files and folders only.

    Raises:
        StoreError: naming the first link, device, pipe or socket.
    """
    for _ in files_of(folder):
        pass


def folders(folder: Path, named: re.Pattern[str]) -> Iterator[Path]:
    """The folders in a folder whose names match, in any order.

    Raises:
        StoreError: for a link, device, pipe or socket with such a name.
    """
    for entry in _entries(folder, named):
        if _is_folder(entry):
            yield Path(entry.path)


def require_entries(folder: Path, names: Iterable[str] | None) -> None:
    """Check that of a folder's entries those with these names, and the hidden ones, are plain; None: all.

    Raises:
        StoreError: naming the first link, device, pipe or socket.
    """
    ours = None if names is None else re.compile("|".join([r"\..*", *map(re.escape, names)]))
    for _ in _entries(folder, ours):
        pass


def files_of(folder: Path) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """All files below a folder, by their paths in it; what vanishes meanwhile is left out.

    Raises:
        StoreError: naming the first link, device, pipe or socket.
    """
    folders = [(folder, "")]
    while folders:
        where, before = folders.pop()
        for entry in _entries(where):
            if _is_folder(entry):
                folders.append((Path(entry.path), f"{before}{entry.name}/"))
            else:
                yield f"{before}{entry.name}", entry


class PlainFolders:
    """The folders of a workspace that are known to be reached through no link."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._plain = {self._root}

    def require(self, path: Path) -> None:
        """Check each folder from the root down to a path, once; what isn't there passes.

        Raises:
            StoreError: for a link on the way, and for a path that leaves the workspace.
        """
        text = str(path if path.is_absolute() else path.absolute())
        if text == self._root:
            return
        if not text.startswith(f"{self._root}/") or ("/.." in text and _leaves(path, self._root)):
            raise StoreError(
                text,
                cause=f"it lies outside of the workspace {self._root}",
                cure="Name a path inside it",
            )
        self._folder(text.rpartition("/")[0])
        _require_no_link(text)

    def status(self, name: str) -> os.stat_result:
        """Return the status of a file by its path relative to the root.

        Raises:
            StoreError: for a path that isn't plain, a link on the way, and what is no file.
            FileNotFoundError: where there is none.
        """
        if not is_plain(name) or "\\" in name:
            raise _refused(name, None, "its path isn't a plain relative one")
        path = f"{self._root}/{name}"
        self._folder(path.rpartition("/")[0])
        there = os.lstat(path)
        if not stat.S_ISREG(there.st_mode):
            raise _unlike(path, there.st_mode)
        return there

    def _folder(self, folder: str) -> None:
        if folder not in self._plain:
            self._folder(folder.rpartition("/")[0])
            if _require_no_link(folder):
                self._plain.add(folder)


def lock(root: Path, name: str) -> Path:
    """The file of a lock in a workspace, to be held by whoever opens it; its folder is made.

    Raises:
        StoreError: for a name that leads elsewhere, a link, or a file with another name that has content.
    """
    if not is_name(name):
        raise StoreError(name, cause="it is no name of a lock", cure="Run the command again")
    file = root / LOCKS / name
    with contextlib.suppress(FileExistsError):
        file.parent.mkdir()
    _require_no_link(str(file.parent))
    with contextlib.suppress(FileNotFoundError):
        there = file.lstat()
        if not stat.S_ISREG(there.st_mode):
            raise _unlike(file, there.st_mode)
        if there.st_nlink > 1 and there.st_size:
            raise _refused(file, "a hard link", "a lock has no content and no other name")
    return file


def read(model: type[Model], file: Path) -> Model | None:
    """Parse a small file that another process may be writing; None where it is missing or damaged.

    Raises:
        StoreError: for a link, what is no file, and one of too many bytes.
    """
    try:
        return model.model_validate_json(regular_files.read(file))
    except (FileNotFoundError, ValidationError):
        return None
    except IrregularFileError as refused:
        mode = file.lstat().st_mode
        if stat.S_ISREG(mode):
            raise _refused(file, "a file", str(refused)) from None
        raise _unlike(file, mode) from None


def open_lock(file: Path, *, make: bool = True, fresh: bool = False) -> int:
    """Open a file to be locked; a descriptor for reading and writing.

    It is made where it isn't there, unless `make` is False; `fresh` asks for one that isn't there.

    Raises:
        StoreError: for a link or what is no file.
        FileNotFoundError, FileExistsError: by what is asked.
    """
    how = os.O_RDWR | (os.O_CREAT if make or fresh else 0) | (os.O_EXCL if fresh else 0)
    return _opened(file, how)


def open_to_read(file: Path) -> int:
    """Open a file for reading; a descriptor, which a shared lock can be asked of on a read-only mount too.

    Raises:
        StoreError: for a link or what is no file.
        FileNotFoundError: where there is none.
    """
    return _opened(file, os.O_RDONLY)


def append(file: Path) -> int:
    """Open a log for appending, and make it where it isn't there; a descriptor.

    One that has another name too, such as in a copy of the workspace that shares its files, is copied first.

    Raises:
        StoreError: for a link or what is no file.
    """
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    log = _opened(file, how)
    if os.fstat(log).st_nlink < 2:
        return log
    os.close(log)
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}.draft")
    shutil.copyfile(file, draft)
    draft.replace(file)
    return _opened(file, how)


def remove(root: Path, path: Path) -> None:
    """Remove a file, a folder with all in it, or a link itself; nothing where it isn't there.

    Raises:
        StoreError: where a folder above it is a link.
    """
    with contextlib.suppress(FileNotFoundError), _folder_of(root, path) as folder:
        if stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(path.name, dir_fd=folder)
        else:
            os.unlink(path.name, dir_fd=folder)


def move(root: Path, path: Path, target: Path) -> None:
    """Rename within a workspace.

    Raises:
        StoreError: where a folder above one of the two is a link.
    """
    with _folder_of(root, path) as here, _folder_of(root, target) as there:
        os.rename(path.name, target.name, src_dir_fd=here, dst_dir_fd=there)


@contextlib.contextmanager
def _folder_of(root: Path, path: Path) -> Iterator[int]:
    """A descriptor of the folder that a path lies in, reached from the root through no link."""
    steps = path.relative_to(root).parts[:-1]
    assert ".." not in (*steps, path.name), path
    here = regular_files.folder(root, follow_links=True)
    where = root
    try:
        for step in steps:
            where /= step
            below = _step(here, step, where)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _step(here: int, name: str, where: Path) -> int:
    try:
        return regular_files.folder(name, beside=here)
    except FileNotFoundError:
        raise
    except OSError:
        raise _unlike(where, os.stat(name, dir_fd=here, follow_symlinks=False).st_mode) from None


def _opened(file: Path, how: int) -> int:
    try:
        return regular_files.opened(file, how)
    except IrregularFileError:
        raise _unlike(file, file.lstat().st_mode) from None


def _entries(folder: Path, named: re.Pattern[str] | None = None) -> "Iterator[os.DirEntry[str]]":
    """The entries of a folder, all or those whose names match; those that vanish meanwhile are left out.

    Raises:
        StoreError: for a link, a device, a pipe or a socket, and where the folder is none.
    """
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if (named is None or named.fullmatch(entry.name)) and _kind(entry) is not None:
                    yield entry
    except FileNotFoundError:
        return
    except NotADirectoryError:
        if not folder.exists():
            raise  # It is a folder above that is none.
        raise _refused(folder, "a file", "a folder is expected there") from None


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir(follow_symlinks=False)


def _kind(entry: "os.DirEntry[str]") -> bool | None:
    """True for a folder, False for a plain file, None for what vanished."""
    if _is_folder(entry):
        return True
    if entry.is_file(follow_symlinks=False):
        return False
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    raise _unlike(entry.path, mode)


def _leaves(path: Path, root: str) -> bool:
    """Return True where a path climbs out of the folder that it begins with, on the whole or on its way."""
    depth = 0
    for step in path.relative_to(root).parts:
        depth += -1 if step == ".." else 1
        if depth < 1:
            return True
    return False


def _require_no_link(path: str) -> bool:
    """Check a path's last part; whether it is there."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise _unlike(path, mode)
    return True


def _unlike(path: str | PurePath, mode: int) -> StoreError:
    """The error of what is neither the file nor the folder that is expected there."""
    if stat.S_ISLNK(mode):
        return _refused(
            path, "a link", "it may lead out of the workspace, so nothing goes through it"
        )
    if stat.S_ISDIR(mode):
        return _refused(path, "a folder", "a file is expected there")
    if stat.S_ISREG(mode):
        return _refused(path, "a file", "a folder is expected there")
    return _refused(path, "a device, a pipe or a socket", "a workspace has files and folders only")


def _refused(path: str | PurePath, found: str | None, cause: str) -> StoreError:
    return StoreError(
        str(path), found, cause=cause, cure="Move it away, or put what belongs there in its place"
    )
