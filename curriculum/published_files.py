"""Files of published artefacts, compared with what their manifests record as they are opened.

Every reader opens the files of artefacts in one of these ways, so that no changed byte is read:

    curriculum.parquet, curriculum.frames   Parquet files: the footer, and the checksums of the pages that
                                            are read; the whole file where its pages have no checksums
    require_published                       any other file

A comparison holds for a process and for the inode, size and time of change that the system gives a file. A
file outside of artefacts, or of one that isn't published yet, has no record and passes.
"""

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from schemas.cures import cure_of, is_lost
from schemas.errors import StoreError
from schemas.manifest import MANIFEST_NAME, FileRecord, read_manifest
from schemas.run_folders import ATTEMPT
from schemas.whole_numbers import MAX_DIGITS

_MAGIC, _TAIL_BYTES = b"PAR1", 8
"""A Parquet file ends with the length of its footer and four letters."""
_ARTEFACT = re.compile(rf"[0-9a-f]{{12}}|{ATTEMPT}[0-9]{{1,{MAX_DIGITS}}}")
"""Names of the folders of artefacts."""
_MANIFESTS, _FOOTERS = 1024, 1 << 16
"""Manifests, and comparisons of footers, that stay in memory."""
_LEAVES_WHOLE: ContextVar[bool] = ContextVar("leaves_whole", default=False)


class Identity(NamedTuple):
    """The identity of a file, the same at two looks if it didn't change."""

    inode: int
    changed: int
    """The system's own time of the last change, which can't be set."""
    size: int


def identity_of(found: os.stat_result) -> Identity:
    """Return the identity that the system gives a file."""
    return Identity(found.st_ino, found.st_ctime_ns, found.st_size)


_compared: dict[Path, Identity] = {}
"""Files that this process found equal to the published ones, whole."""


@contextlib.contextmanager
def leaving_whole_files() -> Iterator[None]:
    """Leave the comparison of whole files to the process that gave out this one's work."""
    before = _LEAVES_WHOLE.set(True)
    try:
        yield
    finally:
        _LEAVES_WHOLE.reset(before)


def published_record(file: Path) -> FileRecord | None:
    """Return what the manifest of its artefact records of a file; None where it isn't published.

    Raises:
        SchemaError: for a manifest that can't be read.
    """
    absolute = file.absolute()
    for folder in absolute.parents:
        manifest = folder / MANIFEST_NAME
        if _ARTEFACT.fullmatch(folder.name) and (identity := _identity(manifest)):
            return _records(manifest, identity).get(absolute.relative_to(folder).as_posix())
    return None


@functools.lru_cache(maxsize=_MANIFESTS)
def _records(manifest: Path, _: Identity) -> Mapping[str, FileRecord]:
    """Return the records of an artefact's files, by name."""
    return {record.name: record for record in read_manifest(manifest).files}


def require_published(file: Path) -> None:
    """Raise unless a file of an artefact is the one that was published, by its sha256, or lost.

    Raises:
        StoreError: naming the file, where it differs or is missing.
        SchemaError: for a manifest that can't be read.
    """
    if (record := published_record(file)) is not None:
        compare_once(file, record)


def compare_once(file: Path, record: FileRecord) -> None:
    """Verify a file whole, unless this process did or leaves that to another.

    Raises:
        StoreError: naming the file, where it differs or is missing.
    """
    identity = _identity(file)
    is_compared = identity is not None and _compared.get(file.absolute()) == identity
    if not (is_compared or _LEAVES_WHOLE.get()):
        verify_file(file, record)


def require_footer(file: Path, record: FileRecord) -> None:
    """Raise unless the footer of a Parquet file of an artefact is the published one, or the file is lost.

    Raises:
        StoreError: naming the file.
    """
    if record.footer is not None:
        _compare_footer(file, identity_of(file.stat()), record.footer)


@functools.lru_cache(maxsize=_FOOTERS)
def _compare_footer(file: Path, _: Identity, published: str) -> None:
    found = footer_of(file)
    if found == published or is_lost(file):
        return
    if found is None:
        raise damaged(file, "it is no Parquet file")
    raise damaged(file, f"its footer isn't the published one: {_differ(found, published)}")


def verify_file(file: Path, record: FileRecord) -> None:
    """Read a file whole and compare its sha256 with the recorded one.

    A file of a run that is marked as lost passes.

    Raises:
        StoreError: naming the file, where it differs or is missing.
    """
    before = _identity(file)
    found = "missing" if before is None else sha256_of(file)
    if found != record.sha256 and not (is_lost(file) and not record.in_content):
        raise damaged(file, f"its bytes aren't those published: {_differ(found, record.sha256)}")
    if before is not None:
        _compared[file.absolute()] = before


def note_published(folder: Path, records: Iterable[FileRecord]) -> None:
    """Take the files of an artefact for compared: they were hashed as this process published them."""
    for record in records:
        if (identity := _identity(folder / record.name)) is not None:
            _compared[(folder / record.name).absolute()] = identity


def _identity(file: Path) -> Identity | None:
    return identity_of(file.stat()) if file.is_file() else None


def sha256_of(file: Path) -> str:
    """Return the sha256 of a file's bytes; 1.5 GB a second on one core."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def footer_of(file: Path) -> str | None:
    """Return the sha256 of a Parquet file's footer, which says where its pages lie; None for other files."""
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        if size < _TAIL_BYTES:
            return None
        opened.seek(size - _TAIL_BYTES)
        tail = opened.read()
        length = int.from_bytes(tail[:4], "little") + _TAIL_BYTES
        if tail[4:] != _MAGIC or length > size:
            return None
        opened.seek(size - length)
        return hashlib.file_digest(opened, "sha256").hexdigest()


def damaged(file: Path, found: str) -> StoreError:
    """Return the error of a file that isn't what was published."""
    return StoreError(
        str(file),
        found,
        cause="the artefact isn't what its manifest says",
        cure=cure_of(file),
    )


def _differ(found: str, expected: str) -> str:
    return f"sha256 {found[:12]}, not {expected[:12]}"
