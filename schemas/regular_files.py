"""Access to regular files from untrusted sources that is limited in size and never waits.

A named pipe or device in place of a file is refused at once. Symbolic links are refused unless the caller
allows them: a path given by the user may contain links, a path below a workspace may not.
"""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Annotated, BinaryIO

from pydantic import AfterValidator


def is_plain(path: str) -> bool:
    """Return True for a relative path without `.`, `..`, empty components or NUL.

    >>> is_plain("rows/part-00000.parquet"), is_plain("../rows"), is_plain("/rows"), is_plain("a//b")
    (True, False, False, False)
    """
    return "\0" not in path and not {"", ".", ".."} & {*path.split("/")}


def expanded(path: str | Path) -> Path:
    """Return a path with `~` replaced by the home folder; `~name` of an unknown user stays unchanged.

    >>> expanded("~no-such-user/corpus.yaml")
    PosixPath('~no-such-user/corpus.yaml')
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _plain(path: str) -> str:
    if not is_plain(path):
        raise ValueError(f"{path!r} must be a relative path without .. and empty components")
    return path


PlainPath = Annotated[str, AfterValidator(_plain)]
"""A relative path without `..`."""
PlainPathOrNone = Annotated[str, AfterValidator(lambda path: path and _plain(path))]
"""A relative path without `..`, or an empty string."""


MAX_BYTES = 64 << 20
"""Maximum size of a file that is read as a whole: a manifest of 100,000 shards, or twice the largest
tokenizer.json.
"""
_PART_BYTES = 1 << 20
_BLOBS, _SNAPSHOTS = "blobs", "snapshots"
"""Folders of a repository in the Hugging Face cache. Files in snapshots are links to blobs."""
_AT_ONCE = os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = {
    errno.ELOOP: "it is a symbolic link",
    errno.EISDIR: "it is a folder",
    errno.ENXIO: "it is not a regular file",
    errno.ENODEV: "it is not a regular file",
}
"""Reasons by errno for files that the system refuses to open."""

_NOUNS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class IrregularFileError(OSError, ValueError):
    """A path that isn't a regular file, or a file that is too large. str() is the reason alone."""

    def __str__(self) -> str:
        return str(self.strerror)


def status(path: Path | str) -> os.stat_result | None:
    """Return the status of a regular file, or None for anything else, including links."""
    try:
        there = os.lstat(path)
    except OSError:
        return None
    return there if stat.S_ISREG(there.st_mode) else None


def kind_at(path: Path | str, *, follow_links: bool = True) -> str:
    """Return a noun for what is at a path: a file, a folder, a pipe, a device … or nothing.

    >>> kind_at("/dev/null"), kind_at("/"), kind_at("/nowhere")
    ('a device', 'a folder', 'nothing')
    """
    try:
        mode = Path(path).stat(follow_symlinks=follow_links).st_mode
    except PermissionError:
        return "an inaccessible path"
    except OSError:
        return "a broken link" if Path(path).is_symlink() else "nothing"
    return _NOUNS.get(stat.S_IFMT(mode), "not a regular file")


def folder(path: Path | str, *, beside: int | None = None) -> int:
    """Open a folder that isn't a link, and return its descriptor.

    If `beside` is the descriptor of a folder, the path is relative to that folder.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, dir_fd=beside)


def opened(
    path: Path | str,
    flags: int = os.O_RDONLY,
    *,
    beside: int | None = None,
    follow_links: bool = False,
) -> int:
    """Open a regular file and return its descriptor.

    If `beside` is the descriptor of a folder, the path is relative to that folder.

    Raises:
        IrregularFileError: if the path isn't a regular file.
        OSError: if the system refuses to open it.
    """
    links = 0 if follow_links else os.O_NOFOLLOW
    try:
        handle = os.open(path, flags | _AT_ONCE | links, 0o644, dir_fd=beside)
    except OSError as refused:
        if refused.errno not in _KINDS:
            raise
        raise IrregularFileError(refused.errno, _KINDS[refused.errno], str(path)) from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kind = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
        raise IrregularFileError(kind, _KINDS[kind], str(path))
    return handle


def opened_below(root: Path, name: str) -> int:
    """Open a regular file below `root` without following links, and return its descriptor.

    Raises:
        IrregularFileError: if the path isn't a regular file.
        OSError: if a folder is a link, or the system refuses to open the file.
    """
    *folders, leaf = PurePath(name).parts
    passed = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    above = os.open(root, passed)
    try:
        for part in folders:
            below = os.open(part, passed | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = below
        return opened(leaf, beside=above)
    finally:
        os.close(above)


def linked_folders(folder: Path) -> tuple[Path, ...]:
    """Return the resolved folders into which the links in a downloaded folder may lead.

    These are the folder itself and, for a snapshot in the Hugging Face cache, the cache's blobs.
    """
    found = folder.resolve()
    for above in found.parents:
        if (above / _BLOBS).is_dir() and found.is_relative_to(above / _SNAPSHOTS):
            return found, above / _BLOBS
    return (found,)


def opened_inside(path: Path, folders: Iterable[Path]) -> int:
    """Open a regular file by a path whose links stay inside `folders`, and return its descriptor.

    A link that is created on the path in the meantime isn't followed.

    Args:
        path: may contain links.
        folders: resolved paths.

    Raises:
        IrregularFileError: if the path isn't a regular file, or a link leaves the folders.
        OSError: if a link was created in the meantime, or the system refuses to open the file.
    """
    try:
        target = path.resolve(strict=True)
    except RuntimeError:
        raise IrregularFileError(errno.ELOOP, "its links form a cycle", str(path)) from None
    if not any(target.is_relative_to(folder) for folder in folders):
        raise IrregularFileError(
            errno.ELOOP, f"it is a link to {target}, outside of its folder", str(path)
        )
    return opened_below(Path("/"), str(target.relative_to("/")))


def read_inside(path: Path, folders: Iterable[Path], *, most: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file that `opened_inside` opens; errors are those of `read`."""
    content, _ = _whole(opened_inside(path, folders), path, most)
    return content


def read(
    path: Path | str,
    *,
    most: int = MAX_BYTES,
    beside: int | None = None,
    follow_links: bool = False,
) -> bytes:
    """Return the bytes of a regular file with at most `most` bytes.

    Raises:
        IrregularFileError: if the path isn't a regular file, or is too large.
        OSError: if the system refuses to open it.
    """
    content, _ = read_with_status(path, most=most, beside=beside, follow_links=follow_links)
    return content


def read_with_status(
    path: Path | str,
    *,
    most: int = MAX_BYTES,
    beside: int | None = None,
    follow_links: bool = False,
) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a file, and its status when it was opened; errors are those of `read`."""
    return _whole(opened(path, beside=beside, follow_links=follow_links), path, most)


def _whole(handle: int, path: Path | str, most: int) -> tuple[bytes, os.stat_result]:
    with open(handle, "rb") as file:
        there = os.fstat(handle)
        content = b"" if there.st_size > most else _read(file, there.st_size, most)
    if max(there.st_size, len(content)) > most:
        raise IrregularFileError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return content, there


def _read(file: BinaryIO, size: int, most: int) -> bytes:
    """Read a file that reports `size` bytes, but at most one byte beyond `most`.

    Memory is only allocated for `size` bytes at first. A file may grow in the meantime, and files of the
    kernel report no size.
    """
    content = file.read(size + 1)
    parts = [content]
    while content and len(content) > size and (room := most + 1 - sum(map(len, parts))) > 0:
        if not (more := file.read(min(room, _PART_BYTES))):
            break
        parts.append(more)
    return b"".join(parts)
