"""Files of a workspace that no symbolic link leads to: a workspace may come from somebody else."""

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 64 << 20
"""Of a JSON file that is read whole."""
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LINK = "it is a symbolic link, which a workspace may not have"


class Inside:
    """The regular files of a workspace; each folder on the way to them is looked at once."""

    def __init__(self, home: Path) -> None:
        self._home = str(home)
        self._folders: set[str] = set()

    def stat(self, file: str) -> os.stat_result:
        """Return the status of a file by its path relative to the workspace.

        Raises:
            OSError: where the path leads out of the workspace or over a link, and where it names something
                else than a regular file; `strerror` says which.
        """
        folder, _, name = file.rpartition("/")
        if not _is_plain(name) or "\\" in file or "\0" in file:
            raise OSError(errno.EINVAL, "its path isn't a plain relative one", file)
        if folder not in self._folders:
            self._require_folders(folder)
        there = os.lstat(f"{self._home}/{file}")
        if not stat.S_ISREG(there.st_mode):
            raise OSError(errno.EINVAL, _kind(there), file)
        return there

    def _require_folders(self, folder: str) -> None:
        path = self._home
        for part in folder.split("/") if folder else ():
            if not _is_plain(part):
                raise OSError(errno.EINVAL, "its path isn't a plain relative one", folder)
            path = f"{path}/{part}"
            there = os.lstat(path)
            if not stat.S_ISDIR(there.st_mode):
                words = LINK if stat.S_ISLNK(there.st_mode) else "it isn't a folder"
                raise OSError(
                    errno.ENOTDIR, f"{path.removeprefix(self._home + '/')}: {words}", path
                )
        self._folders.add(folder)


def _is_plain(part: str) -> bool:
    return part not in ("", ".", "..")


def _kind(there: os.stat_result) -> str:
    if stat.S_ISLNK(there.st_mode):
        return LINK
    return "it is a folder" if stat.S_ISDIR(there.st_mode) else "it is no regular file"


def folder(path: Path | str, *, beside: int | None = None) -> int:
    """Open a folder that isn't a link; a descriptor, relative to the folder `beside` where that is given."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=beside)


def read(path: Path | str, *, most: int = MOST_BYTES, beside: int | None = None) -> bytes:
    """Read a regular file of at most so many bytes whole; no link is followed, and no pipe waited for.

    Raises:
        OSError: for anything else.
    """
    content, _ = read_with_status(path, most=most, beside=beside)
    return content


def read_with_status(
    path: Path | str, *, most: int = MOST_BYTES, beside: int | None = None
) -> tuple[bytes, os.stat_result]:
    """Read a file as `read` does, with its status when it was opened."""
    with os.fdopen(os.open(path, os.O_RDONLY | _NO_LINK, dir_fd=beside), "rb") as opened:
        there = os.fstat(opened.fileno())
        if not stat.S_ISREG(there.st_mode):
            raise OSError(errno.EINVAL, _kind(there), str(path))
        if there.st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
        return opened.read(most), there


def write_new(name: str, content: bytes, *, beside: int) -> None:
    """Write a file that isn't there yet into an open folder."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
    with os.fdopen(os.open(name, flags, 0o666, dir_fd=beside), "wb") as opened:
        opened.write(content)
