"""A plain directory as a corpus: one snapshot of its files, and nothing from outside it."""

import contextlib
import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from curriculum.corpus.paths import language_of
from schemas import regular_files

UNREADABLE = "0" * 40
CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file in a language that we know; `raw` is its path under the directory as the system has it."""

    raw: bytes
    is_link: bool


def files(root: Path) -> Iterator[File]:
    """Regular files and links in languages that we know, in the order of their paths.

    Links are named but never followed; `.git` folders are passed over.
    """
    for raw in sorted(_walk(os.fsencode(root))):
        if language_of(os.fsdecode(raw), headers="c") is None:
            continue
        mode = (root / os.fsdecode(raw)).lstat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            yield File(raw=raw, is_link=stat.S_ISLNK(mode))


def everything(root: Path) -> Iterator[tuple[bytes, bytes]]:
    """Path and bytes of every regular file that the system lets us read, in the order of paths."""
    for raw in sorted(_walk(os.fsencode(root))):
        if regular_files.status(root / os.fsdecode(raw)) is None:
            continue
        with contextlib.suppress(OSError):
            content = read(root, raw, largest=sys.maxsize)[1]
            assert content is not None
            yield raw, content


def read(root: Path, raw: bytes, *, largest: int) -> tuple[str, bytes | None]:
    """The id that git gives a file's bytes, and the bytes where they are at most `largest`.

    Raises:
        OSError: if the system won't let us read it.
    """
    handle = regular_files.opened(root / os.fsdecode(raw))
    with open(handle, "rb") as file:  # noqa: PTH123
        size = os.fstat(handle).st_size
        digest = hashlib.sha1(f"blob {size}\0".encode())
        if size <= largest:
            content = file.read(size)
            digest.update(content)
            return digest.hexdigest(), content
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest(), None


class Digest:
    """The digest of a directory, built file by file: 40 hex digits, like a commit's."""

    def __init__(self) -> None:
        self._sha1 = hashlib.sha1()

    def add(self, raw: bytes, blob_id: str) -> None:
        """Take in a file."""
        self._sha1.update(blob_id.encode() + b" " + raw + b"\0")

    def __str__(self) -> str:
        return self._sha1.hexdigest()


def digest(root: Path) -> str:
    """The digest of all files in languages that we know; a file that can't be read counts as such."""
    built = Digest()
    for file in files(root):
        if not file.is_link:
            built.add(file.raw, _id(root, file.raw))
    return str(built)


def _id(root: Path, raw: bytes) -> str:
    try:
        return read(root, raw, largest=0)[0]
    except OSError:
        return UNREADABLE


def _walk(root: bytes) -> Iterator[bytes]:
    """Paths of everything that is no directory, relative to the root; `.git` folders are passed over."""
    for folder, names, leaves in os.walk(root, followlinks=False):
        names[:] = [name for name in names if name != b".git"]
        for leaf in leaves:
            yield (folder + b"/" + leaf)[len(root) + 1 :]
