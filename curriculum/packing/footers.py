"""Parquet files read at random by their row groups, thousands of them with few descriptors and little memory.

A footer describes each column of each row group: 2 MB of a file of 1,024 groups, which take 20 MB and 20 ms
to be parsed. The first files stay open with theirs. Of others the footer is cut: its bytes are one Thrift
structure in which row groups stand one after the other, so that what is around them makes a footer of one
group with the bytes of any, which are read again at need: 3 KB and 8 bytes a group stay of 2 MB.

    [version schema num_rows] [row groups: n] [group 0] … [group n - 1] [metadata …]
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.store.verify import reading_pages

Int32s = npt.NDArray[np.int32]
OPEN_FILES = 128
FOOTER_BYTES = 3 << 27
"""The most that footers of open files take: of full shards, with 2^26 positions, 19."""
_EXPANDS = 10
"""So many times as large as in its file a footer is in memory."""
_MAGIC = b"PAR1"
# Of Thrift's compact protocol: the type of a list's elements; a field that holds a list and is the next one
# of its structure.
_STRUCTS, _LIST = 0x0C, b"\x19"
_VARINT = rb"[\x80-\xff]*[\x00-\x7f]"
_AFTER_ROWS = re.compile(rb"\x26%b\x16%b(?:\x14%b)?\x00" % (_VARINT, _VARINT, _VARINT))
"""The end of a row group: its offset in the file, its compressed bytes, its number where that is written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cut:
    """A footer without its row groups."""

    head: bytes
    tail: bytes
    start: int
    """The offset in the file at which the footer begins."""
    bounds: Int32s
    """[groups + 1]: where in the footer the bytes of each group begin, and the last one's end."""

    def one(self, file: pa.NativeFile, group: int) -> pq.FileMetaData:
        """The footer that the file would have with this row group alone."""
        start, end = self.bounds[group : group + 2].tolist()
        file.seek(self.start + start)
        return _parsed(self.head + _list(1) + file.read(end - start) + self.tail)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupFile:
    """A file whose row groups are read at random."""

    path: Path
    first_rows: Int32s
    """[groups + 1]: where each row group begins, and the last one ends."""
    _open: parquet.File | None = None
    _cut: _Cut | None = None
    """None where the file is open, and where the bytes of its groups aren't found: then all is parsed."""

    def read(self, group: int, columns: list[str]) -> pa.Table:
        """Some columns of a row group, each in one chunk.

        Raises:
            StoreError: naming the file, for a page that isn't what was written.
        """
        with reading_pages(self.path):
            if self._open is not None:
                return _read(self._open, group, columns)
            with pa.OSFile(str(self.path), "r") as file:
                if self._cut is None:
                    return _read(_checked(self.path, file), group, columns)
                metadata = self._cut.one(file, group)
                rows = int(self.first_rows[group + 1] - self.first_rows[group])
                assert metadata.row_group(0).num_rows == rows, f"{self.path} has changed"
                return _read(_checked(self.path, file, metadata), 0, columns)


class Footers:
    """The files that are open: the first `most`, as far as their footers take `limit` bytes together."""

    def __init__(self, *, limit: int = FOOTER_BYTES, most: int = OPEN_FILES) -> None:
        self.num_bytes, self.num_open = 0, 0
        self._limit, self._most = limit, most

    def of(self, path: Path) -> tuple[GroupFile, pa.Schema]:
        """A file, which stays open if there is room for it, and its schema."""
        file = opened(path)
        whole = file.metadata
        rows = [whole.row_group(each).num_rows for each in range(whole.num_row_groups)]
        size = _EXPANDS * whole.serialized_size
        stays = self.num_open < self._most and self.num_bytes + size <= self._limit
        schema = file.schema_arrow
        found = GroupFile(
            path=path,
            first_rows=np.cumsum([0, *rows], dtype=np.int32),
            _open=file if stays else None,
            _cut=None if stays else _cut(path, whole),
        )
        if stays:
            self.num_bytes, self.num_open = self.num_bytes + size, self.num_open + 1
        else:
            file.close()
        return found, schema


def opened(path: Path) -> parquet.File:
    """Open a file whose page checksums are verified as it is read, where it has some.

    Raises:
        StoreError: naming the file, where its footer can't be read.
    """
    with reading_pages(path):
        return _checked(path)


def _checked(
    path: Path, source: pa.NativeFile | None = None, metadata: pq.FileMetaData | None = None
) -> parquet.File:
    """A file whose page checksums are verified as it is read, each row group within its bound."""
    return parquet.File(path, source, metadata=metadata, page_checksum_verification=True)


def _read(file: parquet.File, group: int, columns: list[str]) -> pa.Table:
    return file.read_row_group(group, columns=columns, use_threads=False).combine_chunks()


def _parsed(footer: bytes) -> pq.FileMetaData:
    size = len(footer).to_bytes(4, "little")
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer + size + _MAGIC))


def _cut(path: Path, whole: pq.FileMetaData) -> _Cut | None:
    with path.open("rb") as file:
        file.seek(-8, 2)
        size = int.from_bytes(file.read(4), "little")
        start = file.seek(-8 - size, 2)
        raw = file.read(size)
    bounds = _bounds(raw, whole)
    if bounds is None:
        return None
    before = bounds[0] - len(_list(whole.num_row_groups))
    return _Cut(
        head=raw[:before],
        tail=raw[bounds[-1] :],
        start=start,
        bounds=np.array(bounds, dtype=np.int32),
    )


def _bounds(raw: bytes, whole: pq.FileMetaData) -> list[int] | None:
    """The offsets of row groups: each behind the end of the one before, found by its bytes and rows."""
    groups = [whole.row_group(each) for each in range(whole.num_row_groups)]
    opening = _LIST + _list(len(groups))
    bounds = [raw.find(opening + _LIST + _list(whole.num_columns)) + len(opening)]
    for group in groups:
        sizes = [b"\x16" + _varint(2 * each) for each in (group.total_byte_size, group.num_rows)]
        at = raw.find(b"".join(sizes), bounds[-1])
        end = _AFTER_ROWS.match(raw, at + sum(map(len, sizes))) if at >= 0 else None
        if end is None:
            return None
        bounds.append(end.end())
    return bounds


def _list(number: int) -> bytes:
    """The length of a list of structures."""
    if number < 15:
        return bytes([number << 4 | _STRUCTS])
    return bytes([0xF0 | _STRUCTS]) + _varint(number)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first.

    >>> _varint(300).hex()
    'ac02'
    """
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])
