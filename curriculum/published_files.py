"""Files of published artefacts, compared with their manifests when they are opened.

Every reader opens files of artefacts in one of these ways, so that changed bytes are never used:

    curriculum.parquet, curriculum.frames   Parquet files: the footer, and the checksums of the pages that
    are read; the whole file if its pages have no checksums
    require_published                       any other file

A process compares a file again only if its inode, size or change time differs. Files that don't belong to a
published artefact have no record, so they are accepted.
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
"""Last letters of a Parquet file, and the size in bytes of the footer's length and these letters."""
_ARTEFACT = re.compile(rf"[0-9a-f]{{12}}|{ATTEMPT}[0-9]{{1,{MAX_DIGITS}}}")
"""Pattern of the folder names of artefacts."""
_MANIFESTS, _FOOTERS = 1024, 1 << 16
"""Maximum number of manifests, and of compared footers, to keep in memory."""
_LEAVES_WHOLE: ContextVar[bool] = ContextVar("leaves_whole", default=False)


class Identity(NamedTuple):
    """Identity of a file: values that stay the same until somebody changes the file."""

    inode: int
    changed: int
    """Time of the last change (ctime), which programs can't set."""
    size: int


def identity_of(found: os.stat_result) -> Identity:
    """Return the identity of the file whose status is `found`."""
    return Identity(found.st_ino, found.st_ctime_ns, found.st_size)


_compared: dict[Path, Identity] = {}
"""Files that this process compared completely, and found equal to the published ones."""


@contextlib.contextmanager
def leaving_whole_files() -> Iterator[None]:
    """Skip comparisons of whole files within the block, because the coordinating process makes them."""
    before = _LEAVES_WHOLE.set(True)
    try:
        yield
    finally:
        _LEAVES_WHOLE.reset(before)


def published_record(file: Path) -> FileRecord | None:
    """Return the record of a file in its artefact's manifest; None if it isn't published.

    Raises:
        SchemaError: if the manifest can't be read.
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
    """Raise unless a file of an artefact has the published sha256, or its manifest marks it as lost.

    Raises:
        StoreError: naming the file, if it differs or is missing.
        SchemaError: if the manifest can't be read.
    """
    if (record := published_record(file)) is not None:
        compare_once(file, record)


def compare_once(file: Path, record: FileRecord) -> None:
    """Verify a whole file, unless this process has already done so or is within `leaving_whole_files`.

    Raises:
        StoreError: naming the file, if it differs or is missing.
    """
    identity = _identity(file)
    is_compared = identity is not None and _compared.get(file.absolute()) == identity
    if not (is_compared or _LEAVES_WHOLE.get()):
        verify_file(file, record)


def require_footer(file: Path, record: FileRecord) -> None:
    """Raise unless an artefact's Parquet file has the published footer, or is marked as lost.

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
        raise damaged(file, "it is not a Parquet file")
    raise damaged(file, f"its footer isn't the published one: {_differ(found, published)}")


def verify_file(file: Path, record: FileRecord) -> None:
    """Read a whole file and compare its sha256 with the recorded one.

    A file of a run that is marked as lost is accepted.

    Raises:
        StoreError: naming the file, if it differs or is missing.
    """
    before = _identity(file)
    found = "missing" if before is None else sha256_of(file)
    if found != record.sha256 and not (is_lost(file) and not record.in_content):
        raise damaged(
            file, f"its bytes differ from the published ones: {_differ(found, record.sha256)}"
        )
    if before is not None:
        _compared[file.absolute()] = before


def note_published(folder: Path, records: Iterable[FileRecord]) -> None:
    """Record that the files of an artefact need no comparison, because they were hashed when published."""
    for record in records:
        if (identity := _identity(folder / record.name)) is not None:
            _compared[(folder / record.name).absolute()] = identity


def _identity(file: Path) -> Identity | None:
    return identity_of(file.stat()) if file.is_file() else None


def sha256_of(file: Path) -> str:
    """Return the sha256 of a file's bytes. This takes a second per 1.5 GB on one core."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def footer_of(file: Path) -> str | None:
    """Return the sha256 of a Parquet file's footer, which says where its pages are; None for other files."""
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
    """Return the error for a file that differs from the published one: `found` says what was found."""
    return StoreError(
        str(file),
        found,
        cause="the artefact doesn't match its manifest",
        cure=cure_of(file),
    )


def _differ(found: str, expected: str) -> str:
    return f"sha256 {found[:12]} instead of {expected[:12]}"
