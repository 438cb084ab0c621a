"""Regular files that may come from somebody else: none is waited for, and none is read without a bound.

A named pipe or a device in a file's place is refused at once, and so is a symbolic link, unless the caller
allows links: a path that a user gave may lead over them, one below a workspace may not.
"""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Annotated, BinaryIO

from pydantic import AfterValidator


def is_plain(path: str) -> bool:
    """Return True for a relative path without `.`, `..`, an empty step or a NUL.

    >>> is_plain("rows/part-00000.parquet"), is_plain("../rows"), is_plain("/rows"), is_plain("a//b")
    (True, False, False, False)
    """
    return "\0" not in path and not {"", ".", ".."} & {*path.split("/")}


def expanded(path: str | Path) -> Path:
    """Return a path with the home folder in place of `~`; a `~name` of no user stays as it is.

    >>> expanded("~no-such-user/corpus.yaml")
    PosixPath('~no-such-user/corpus.yaml')
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _plain(path: str) -> str:
    if not is_plain(path):
        raise ValueError(f"{path!r} doesn't lead down from the folder that it is relative to")
    return path


PlainPath = Annotated[str, AfterValidator(_plain)]
"""A relative path that leads down."""
PlainPathOrNone = Annotated[str, AfterValidator(lambda path: path and _plain(path))]
"""A relative path that leads down; empty for none."""


MAX_BYTES = 64 << 20
"""The bytes of a file that is read whole: a manifest of 100,000 shards, twice the largest tokenizer.json."""
_PART_BYTES = 1 << 20
_BLOBS, _SNAPSHOTS = "blobs", "snapshots"
"""Folders of a repository in a cache of Hugging Face: files of snapshots are links to blobs."""
_AT_ONCE = os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = {
    errno.ELOOP: "it is a symbolic link",
    errno.EISDIR: "it is a folder",
    errno.ENXIO: "it is no regular file",
    errno.ENODEV: "it is no regular file",
}
"""Reasons by the error of a system that refuses to open a file."""

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
    """The refusal of something else than a regular file within the bound; its text is the reason alone."""

    def __str__(self) -> str:
        return str(self.strerror)


def status(path: Path | str) -> os.stat_result | None:
    """Return the status of a regular file; None for anything else, such as a link to one."""
    try:
        there = os.lstat(path)
    except OSError:
        return None
    return there if stat.S_ISREG(there.st_mode) else None


def kind_at(path: Path | str, *, follow_links: bool = True) -> str:
    """Return what lies at a path as a noun: a file, a folder, a pipe, a device … or nothing.

    >>> kind_at("/dev/null"), kind_at("/"), kind_at("/nowhere")
    ('a device', 'a folder', 'nothing')
    """
    try:
        mode = Path(path).stat(follow_symlinks=follow_links).st_mode
    except PermissionError:
        return "what we may not look at"
    except OSError:
        return "a link that leads nowhere" if Path(path).is_symlink() else "nothing"
    return _NOUNS.get(stat.S_IFMT(mode), "no regular file")


def folder(path: Path | str, *, beside: int | None = None) -> int:
    """Open a folder that isn't a link; a descriptor, relative to the folder `beside` where that is given."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, dir_fd=beside)


def opened(
    path: Path | str,
    flags: int = os.O_RDONLY,
    *,
    beside: int | None = None,
    follow_links: bool = False,
) -> int:
    """Open a regular file; a descriptor, relative to the folder `beside` where that is given.

    Raises:
        IrregularFileError: for anything else in its place.
        OSError: where the system refuses.
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
    """Open a regular file of a folder or of folders in it, over no link below `root`; a descriptor.

    Raises:
        IrregularFileError: for anything else in its place.
        OSError: for a link in place of a folder, and where the system refuses.
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
    """Return where links of a folder from elsewhere may lead, as paths without links.

    That is the folder itself, and the blobs of the cache of Hugging Face that it is a snapshot of.
    """
    found = folder.resolve()
    for above in found.parents:
        if (above / _BLOBS).is_dir() and found.is_relative_to(above / _SNAPSHOTS):
            return found, above / _BLOBS
    return (found,)


def opened_inside(path: Path, folders: Iterable[Path]) -> int:
    """Open a regular file behind links that stay inside of some folders; a descriptor.

    A link that is put on the way meanwhile isn't followed.

    Args:
        path: may lead over links.
        folders: paths without links.

    Raises:
        IrregularFileError: for anything else in its place, and for a link out of the folders.
        OSError: for a link that is put there meanwhile, and where the system refuses.
    """
    try:
        target = path.resolve(strict=True)
    except RuntimeError:
        raise IrregularFileError(errno.ELOOP, "its links lead in a circle", str(path)) from None
    if not any(target.is_relative_to(folder) for folder in folders):
        raise IrregularFileError(
            errno.ELOOP, f"it is a link to {target}, out of its folder", str(path)
        )
    return opened_below(Path("/"), str(target.relative_to("/")))


def read_inside(path: Path, folders: Iterable[Path], *, most: int = MAX_BYTES) -> bytes:
    """Read a file of at most `most` bytes whole, opened as `opened_inside` does; errors as `read`."""
    content, _ = _whole(opened_inside(path, folders), path, most)
    return content


def read(
    path: Path | str,
    *,
    most: int = MAX_BYTES,
    beside: int | None = None,
    follow_links: bool = False,
) -> bytes:
    """Read a regular file of at most `most` bytes whole.

    Raises:
        IrregularFileError: for anything else in its place, and for more bytes.
        OSError: where the system refuses.
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
    """Read a file as `read` does, with its status when it was opened; it raises the same."""
    return _whole(opened(path, beside=beside, follow_links=follow_links), path, most)


def _whole(handle: int, path: Path | str, most: int) -> tuple[bytes, os.stat_result]:
    with open(handle, "rb") as file:
        there = os.fstat(handle)
        content = b"" if there.st_size > most else _read(file, there.st_size, most)
    if max(there.st_size, len(content)) > most:
        raise IrregularFileError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return content, there


def _read(file: BinaryIO, size: int, most: int) -> bytes:
    """Read a file of `size` bytes, in memory of that size, and at most a byte beyond `most`.

    A file may grow meanwhile, and those of the system have no size.
    """
    content = file.read(size + 1)
    parts = [content]
    while content and len(content) > size and (room := most + 1 - sum(map(len, parts))) > 0:
        if not (more := file.read(min(room, _PART_BYTES))):
            break
        parts.append(more)
    return b"".join(parts)
