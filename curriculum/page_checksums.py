"""Checksums of the pages of Parquet files, compared without decoding anything."""

import contextlib
import functools
import os
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from curriculum.parquet import File, chunk_pages, headers_fault, read_metadata
from curriculum.published_files import Identity, damaged, identity_of, published_record


def pages_fault(file: Path, skipped: Collection[str]) -> str | None:
    """Compare the stored pages of a file's columns, some skipped, with their checksums; nothing is decoded.

    The result is the first fault; None where there is none. Headers, which no checksum covers, are compared
    with the footer.

    Raises:
        LookupError: where a page has no checksum.
    """
    metadata = read_metadata(file)
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            for number in range(row_group.num_columns):
                chunk = row_group.column(number)
                name = chunk.path_in_schema.partition(".")[0]
                if name in skipped:
                    continue
                if fault := _chunk_fault(fd, chunk):
                    return f"column {name}: {fault}"
    except ValueError as wrong:
        return f"its pages can't be read: {wrong}"
    finally:
        os.close(fd)
    return None


def _chunk_fault(fd: int, chunk: Any) -> str | None:
    """Return the first fault of the pages of a column chunk."""
    pages = list(chunk_pages(fd, chunk))
    for page in pages:
        if page.checksum is None:
            raise LookupError("a page has no checksum")
        if zlib.crc32(os.pread(fd, page.compressed, page.content)) != page.checksum:
            return "a page isn't what was written"
    return headers_fault(pages, chunk)


def require_pages(file: Path, columns: Collection[str] | None = None) -> None:
    """Raise unless columns of a file of an artefact, by default all, are the published ones.

    For readers that compare no checksums. A file whose pages have none was compared whole as it was opened.

    Raises:
        StoreError: naming the file.
    """
    if published_record(file) is not None:
        names = None if columns is None else frozenset(columns)
        _compare_pages(file, identity_of(file.stat()), names)


@functools.lru_cache(maxsize=4096)
def _compare_pages(file: Path, _: Identity, columns: frozenset[str] | None) -> None:
    with contextlib.suppress(LookupError), File(file) as opened:
        names = {*opened.schema_arrow.names}
        if fault := pages_fault(file, names - (names if columns is None else columns)):
            raise damaged(file, fault)
