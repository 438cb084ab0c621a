"""Parquet files that may come from somebody else, with a bound on what they decode to before they do.

A file of some kilobytes can decode to gigabytes: runs of one value, pages compressed a thousandfold, one
long text that every value refers to. The sizes in its footer are claims, and a reader that takes a batch at
a time still decompresses whole pages. The headers of the pages are what decoders go by: a page allocates
its uncompressed size, and no more values come of it than its header counts. Their sum is an upper bound on
memory, for some microseconds a page. Sum, per column chunk:

    pages' uncompressed sizes + values · (width + levels) + values of a dictionary · its longest text

Texts that are stored as differences are decoded a few at a time, and counted.

A file may decode to LEAST_BYTES, or to RATIO times its own size where that is more; each row group to
GROUP_BYTES. Only the columns that are read count.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.page_headers import DICTIONARY, Page, pages_of
from schemas.errors import StoreError

LEAST_BYTES = 1 << 30
"""That any file may decode to."""
GROUP_BYTES = 1 << 29
"""That a row group may decode to; writers of this project end one after some MB."""
RATIO = 32
"""Bytes that a file may decode to for each of its own."""
LEAST_FOOTER, FOOTER_SHARE = 4 << 20, 16
"""Bytes of a footer, and a share of its file beside; parsed it takes up to some hundred times as many."""
_ROW_BYTES = 8
"""The least that a row counts for, whatever its columns."""
_DECODED = 1 << 26
"""Bytes that texts by differences may take at a time while they are counted."""
_CHEAP = 1 << 26
"""A dictionary whose size times its values is below this isn't decompressed for its longest text."""
_MAGIC, _TAIL_BYTES = b"PAR1", 8
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_CODECS: dict[str, Literal["zstd", "snappy", "gzip", "brotli", "lz4_raw"]] = {
    "ZSTD": "zstd",
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "BROTLI": "brotli",
    "LZ4": "lz4_raw",
}


Filter = tuple[str, str, Any]
"""A column, how it is compared, and with what; of several all hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Leaf:
    """A column of a file, down to its primitive values."""

    number: int
    name: str
    value_bytes: int
    """Of a value in memory: its width, its levels, and the offsets of the lists around it."""
    is_text: bool


class File(pq.ParquetFile):
    """A file whose row groups are bounded before they are read: a drop-in for `pyarrow.parquet.ParquetFile`.

    Raises:
        StoreError: naming the file, where it decodes to more than a file may, when it is opened or read.
    """

    def __init__(
        self,
        path: Path,
        source: pa.NativeFile | None = None,
        *,
        metadata: pq.FileMetaData | None = None,
        **options: Any,
    ) -> None:
        self._path = path
        self._num_bytes = path.stat().st_size
        if metadata is None:
            _require_footer(path)
        super().__init__(path if source is None else source, metadata=metadata, **options)
        if metadata is None:
            _require_rows(path, self._num_bytes, self.metadata)
        self._leaves: dict[tuple[str, ...] | None, list[_Leaf]] = {}

    def read_row_group(
        self,
        i: int,
        columns: list[Any] | None = None,
        use_threads: bool = True,
        use_pandas_metadata: bool = False,
    ) -> pa.Table:
        """A row group, within GROUP_BYTES."""
        self._require(columns, [i])
        return super().read_row_group(i, columns, use_threads, use_pandas_metadata)

    def iter_batches(
        self,
        batch_size: int = 65_536,
        row_groups: list[Any] | None = None,
        columns: list[Any] | None = None,
        use_threads: bool = True,
        use_pandas_metadata: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of row groups, each of them within GROUP_BYTES."""
        groups = list(range(self.num_row_groups)) if row_groups is None else row_groups
        self._require(columns, groups)
        return super().iter_batches(batch_size, groups, columns, use_threads, use_pandas_metadata)

    def require(self, columns: Sequence[str] | None = None) -> None:
        """Refuse a file of which these columns, by default all, decode to more than it may."""
        most = max(LEAST_BYTES, RATIO * self._num_bytes)
        if self._require(columns, range(self.num_row_groups)) > most:
            raise _too_large(self._path, most)

    def require_groups(self, columns: Sequence[str] | None = None) -> None:
        """Refuse a file of which a row group decodes to more than GROUP_BYTES."""
        self._require(columns, range(self.num_row_groups))

    def _require(self, columns: Sequence[str] | None, groups: Sequence[int]) -> int:
        """Refuse row groups that decode to too much; the bytes that all of them decode to at most."""
        leaves = self._chosen(columns)
        total = 0
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for group in groups:
                for size in itertools.accumulate(self._sizes(fd, group, leaves), initial=0):
                    if size > GROUP_BYTES:
                        raise _too_large(self._path, GROUP_BYTES)
                total += size
        finally:
            os.close(fd)
        return total

    def _sizes(self, fd: int, group: int, leaves: Sequence[_Leaf]) -> Iterator[int]:
        described = self.metadata.row_group(group)
        for leaf in leaves:
            chunk = described.column(leaf.number)
            try:
                size, longest_page = _decoded(fd, chunk, leaf)
                yield size
                if longest_page and size <= GROUP_BYTES:
                    yield from self._counted(group, leaf, longest_page)
            except ValueError as wrong:
                raise StoreError(
                    str(self._path),
                    leaf.name,
                    cause=f"its pages can't be read: {wrong}",
                    cure=f"Delete {self._path.parent} and build again",
                ) from None

    def _counted(self, group: int, leaf: _Leaf, longest_page: int) -> Iterator[int]:
        """The bytes of texts that are differences, decoded so few at a time that none can be too many."""
        at_once = max(1, _DECODED // longest_page)
        for batch in super().iter_batches(at_once, [group], [leaf.name], use_threads=False):
            yield batch.nbytes

    def _chosen(self, columns: Sequence[str] | None) -> list[_Leaf]:
        key = None if columns is None else tuple(columns)
        if key not in self._leaves:
            self._leaves[key] = list(_leaves(self.schema, key))
        return self._leaves[key]


def read_table(
    files: Path | Sequence[Path],
    columns: Sequence[str] | None = None,
    *,
    filters: Sequence[Filter] | None = None,
    schema: pa.Schema | None = None,
    page_checksum_verification: bool = False,
) -> pa.Table:
    """Columns of files, by default all: `pyarrow.parquet.read_table` within the bounds.

    The columns that filters compare are read too, and count.

    Raises:
        StoreError: naming the file that decodes to more than a file may.
    """
    listed = [files] if isinstance(files, Path) else list(files)
    compared = [name for name, _, _ in filters or ()]
    all_of: Any = None if filters is None else list(filters)
    require(listed, None if columns is None else [*columns, *compared])
    return pq.read_table(
        files if isinstance(files, Path) else listed,
        columns=None if columns is None else list(columns),
        partitioning=None,
        filters=all_of,
        schema=schema,
        page_checksum_verification=page_checksum_verification,
    )


def read_metadata(file: Path) -> pq.FileMetaData:
    """The footer of a file, within the bounds on its bytes and on the rows that it promises.

    Raises:
        StoreError: naming the file.
    """
    _require_footer(file)
    found = pq.read_metadata(file)
    _require_rows(file, file.stat().st_size, found)
    return found


def read_schema(file: Path) -> pa.Schema:
    """The columns of a file, whose footer is within the bounds.

    Raises:
        StoreError: naming the file.
    """
    return read_metadata(file).schema.to_arrow_schema()


def require(files: Sequence[Path], columns: Sequence[str] | None = None) -> None:
    """Refuse files of which these columns, by default all, decode to more than files may.

    Raises:
        StoreError: naming the first.
    """
    for file in files:
        with File(file) as opened:
            opened.require(columns)


def require_groups(files: Sequence[Path], columns: Sequence[str] | None = None) -> None:
    """Refuse files with a row group of which these columns decode to more than a row group may.

    Raises:
        StoreError: naming the first.
    """
    for file in files:
        with File(file) as opened:
            opened.require_groups(columns)


def _leaves(schema: pq.ParquetSchema, columns: Sequence[str] | None) -> Iterator[_Leaf]:
    for number in range(len(schema)):
        column = schema.column(number)
        name = column.path
        if columns is not None and not any(
            name == each or name.startswith(f"{each}.") for each in columns
        ):
            continue
        nulls, lists = column.max_definition_level, column.max_repetition_level
        levels = 2 * (nulls > 0) + 2 * (lists > 0) + 8 * lists + (nulls + 7) // 8
        yield _Leaf(
            number=number,
            name=name,
            value_bytes=_width(column) + levels,
            is_text=column.physical_type == "BYTE_ARRAY",
        )


def _width(column: Any) -> int:
    """Of a value; of a text its offset, or its view."""
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return max(16, int(column.length))
    return 16 if "Decimal" in str(column.logical_type) else _WIDTHS.get(column.physical_type, 16)


def _decoded(fd: int, chunk: Any, leaf: _Leaf) -> tuple[int, int]:
    """The bytes that a column chunk decodes to at most, and the longest page of texts by differences.

    Those texts aren't in the first.

    Raises:
        ValueError: for pages that aren't those of the chunk.
    """
    start, first = int(chunk.data_page_offset), chunk.dictionary_page_offset
    if first is not None and chunk.has_dictionary_page:
        if not 0 < first <= start:
            raise ValueError("a dictionary lies behind its values")
        start = int(first)
    end = start + int(chunk.total_compressed_size)
    total, referring, longest_page, dictionary = 0, 0, 0, None
    for page in pages_of(fd, start, end):
        total += page.uncompressed
        if page.kind == DICTIONARY:
            dictionary = page
        else:
            total += page.values * leaf.value_bytes
            referring += page.values * page.by_dictionary
            longest_page = max(longest_page, page.uncompressed * page.repeats)
    if leaf.is_text and dictionary is not None and referring:
        total += referring * _longest(fd, dictionary, referring, chunk.compression)
    return total, longest_page * leaf.is_text


def _longest(fd: int, page: Page, referring: int, compression: str) -> int:
    """The bytes of the longest text of a dictionary, or an upper bound on them that is good enough."""
    size = page.uncompressed
    if referring * size <= _CHEAP or size > GROUP_BYTES >> 3:
        return size
    raw = os.pread(fd, page.compressed, page.content)
    if compression != "UNCOMPRESSED":
        if compression not in _CODECS:
            raise ValueError(f"{compression} is no codec of this project")
        try:
            raw = pa.decompress(raw, size, _CODECS[compression]).to_pybytes()
        except (pa.ArrowException, OSError) as broken:
            raise ValueError(str(broken).partition("\n")[0]) from None
    return _longest_of(raw)


def _longest_of(texts: bytes) -> int:
    """The longest of texts that each stand behind four bytes of its length."""
    first = int.from_bytes(texts[:4], "little")
    if len(texts) % (4 + first) == 0:
        lengths = np.frombuffer(texts, np.uint8).reshape(-1, 4 + first)[:, :4]
        if (lengths == lengths[0]).all():
            return first
    at, longest, end = 0, 0, len(texts) - 3
    while at < end:
        size = int.from_bytes(texts[at : at + 4], "little")
        at += 4 + size
        if size > longest:
            longest = size
    return longest


def _require_footer(file: Path) -> None:
    """Refuse a footer that is large for its file before it is parsed; what isn't Parquet is the parser's."""
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        if size < _TAIL_BYTES:
            return
        opened.seek(size - _TAIL_BYTES)
        tail = opened.read(_TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    most = LEAST_FOOTER + size // FOOTER_SHARE
    if tail[4:] == _MAGIC and most < length < size:
        raise StoreError(
            str(file),
            f"a footer of {length:,} bytes",
            cause=f"of a file of {size:,} bytes it has at most {most:,}",
            cure=f"Delete {file.parent} and build again",
        )


def _require_rows(file: Path, size: int, metadata: pq.FileMetaData) -> None:
    most = max(LEAST_BYTES, RATIO * size) // _ROW_BYTES
    groups = [metadata.row_group(each).num_rows for each in range(metadata.num_row_groups)]
    if min(groups, default=0) < 0 or sum(groups) != metadata.num_rows or sum(groups) > most:
        raise StoreError(
            str(file),
            f"{metadata.num_rows:,} rows",
            cause=f"its row groups have {sum(groups):,}; a file of {size:,} bytes has at most {most:,}",
            cure=f"Delete {file.parent} and build again",
        )


def _too_large(file: Path, most: int) -> StoreError:
    return StoreError(
        str(file),
        cause=f"it may decode to more than {most >> 20:,} MiB",
        cure=f"Delete {file.parent} and build again, or use another copy of the workspace",
    )
