"""Checksums of the pages of Parquet files, compared without decoding anything."""

import os
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from curriculum.page_headers import DICTIONARY
from curriculum.parquet import chunk_pages, read_metadata

_ENCODINGS = {
    "PLAIN": 0,
    "PLAIN_DICTIONARY": 2,
    "RLE": 3,
    "BIT_PACKED": 4,
    "DELTA_BINARY_PACKED": 5,
    "DELTA_LENGTH_BYTE_ARRAY": 6,
    "DELTA_BYTE_ARRAY": 7,
    "RLE_DICTIONARY": 8,
    "BYTE_STREAM_SPLIT": 9,
}
"""Numbers of encodings in headers of pages, by pyarrow's names."""


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
    values = num_bytes = 0
    pages = list(chunk_pages(fd, chunk))
    for page in pages:
        if page.checksum is None:
            raise LookupError("a page has no checksum")
        if zlib.crc32(os.pread(fd, page.compressed, page.content)) != page.checksum:
            return "a page isn't what was written"
        values += page.values * (page.kind != DICTIONARY)
        num_bytes += page.uncompressed - page.compressed
    # What headers take is counted in both sizes of a chunk.
    same = (chunk.num_values, chunk.total_uncompressed_size - chunk.total_compressed_size)
    known = {_ENCODINGS[each] for each in chunk.encodings}
    if (values, num_bytes) != same or not {page.encoding for page in pages} <= known:
        return "the headers of its pages aren't those that the footer counts"
    return None
