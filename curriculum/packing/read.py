"""Reading of rows, in order or at random by (shard, row), from thousands of files with little memory.

This module trusts stored values; row_check.py checks them.

A Parquet footer describes every column of every row group: 2 MB for a file of 1,024 groups. Parsing it takes
20 MB and 20 ms. The first files that are read stay open with their parsed footers. The footers of other files
are cut: a footer is one Thrift structure with the row groups in sequence. Therefore, the bytes before and
after the groups, joined with the bytes of one group, are a valid footer with one group. The bytes of the
group are read from the file when they are needed. Of a footer of 2 MB, 3 KB and 8 bytes per group stay in
memory.

    [version schema num_rows] [row groups: n] [group 0] … [group n - 1] [metadata …]
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.packing.packed_rows import RowBatch
from schemas.errors import SchemaError, StoreError
from schemas.json_text import version_fault
from schemas.packed_row import RowFormat

Int32s = npt.NDArray[np.int32]
MAX_OPEN_FILES = 128
MAX_FOOTER_BYTES = 3 << 27
"""Maximum memory of the footers of open files; enough for 19 full shards of 2^26 positions."""
_EXPANDS = 10
"""Memory of a parsed footer divided by its number of bytes in the file."""
_MAGIC = b"PAR1"
# Thrift's compact protocol: the element type of a list of structures, and the header of a list field whose
# id is one above the previous field's.
_STRUCTS, _LIST = 0x0C, b"\x19"
_VARINT = rb"[\x80-\xff]*[\x00-\x7f]"
_AFTER_ROWS = re.compile(rb"\x26%b\x16%b(?:\x14%b)?\x00" % (_VARINT, _VARINT, _VARINT))
"""Pattern of the last fields of a row group: file offset, compressed bytes and, optionally, ordinal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cut:
    """Parquet footer from which the row groups are removed."""

    head: bytes
    tail: bytes
    start: int
    """Offset of the footer in the file."""
    bounds: Int32s
    """[groups + 1]: offset of each row group in the footer, then the end of the last group."""

    def with_group(self, file: pa.NativeFile, group: int) -> pq.FileMetaData:
        """Return the footer of `file` as if the file had only the row group `group`."""
        start, end = self.bounds[group : group + 2].tolist()
        file.seek(self.start + start)
        return _parsed(self.head + _list(1) + file.read(end - start) + self.tail)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupFile:
    """Parquet file whose row groups can be read at random."""

    path: Path
    first_rows: Int32s
    """[groups + 1]: first row of each row group, then the number of rows."""
    _open: parquet.File | None = None
    _cut: _Cut | None = None
    """Cut footer; None for an open file.

    It is also None if the row groups weren't found in the footer; then every read parses the whole footer.
    """

    def read(self, group: int, columns: list[str]) -> pa.Table:
        """Read the given columns of a row group, as one chunk per column.

        Raises:
            StoreError: names the file if a page doesn't match its checksum.
        """
        if self._open is not None:
            return _read(self._open, group, columns)
        with parquet.naming(self.path), pa.OSFile(str(self.path), "r") as file:
            if self._cut is None:
                return _read(parquet.File(self.path, file), group, columns)
            metadata = self._cut.with_group(file, group)
            rows = int(self.first_rows[group + 1] - self.first_rows[group])
            assert metadata.row_group(0).num_rows == rows, f"{self.path} has changed"
            return _read(parquet.File(self.path, file, metadata=metadata), 0, columns)


class Footers:
    """Files that stay open with parsed footers: at most `max_files` files and `limit` bytes of footers."""

    def __init__(self, *, limit: int = MAX_FOOTER_BYTES, max_files: int = MAX_OPEN_FILES) -> None:
        self.num_bytes, self.num_open = 0, 0
        self._limit, self._max_files = limit, max_files

    def open(self, path: Path) -> tuple[GroupFile, pa.Schema]:
        """Return a file and its schema. The file stays open if the limits allow it."""
        file = parquet.File(path)
        whole = file.metadata
        rows = [whole.row_group(group).num_rows for group in range(whole.num_row_groups)]
        size = _EXPANDS * whole.serialized_size
        stays = self.num_open < self._max_files and self.num_bytes + size <= self._limit
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


def require_same_groups(path: Path) -> None:
    """Raise unless every row group that a cut footer describes equals the row group of the whole footer.

    A foreign footer may hold bytes that look like the start of its row groups.

    Raises:
        StoreError: naming the first row group that differs.
    """
    whole = parquet.read_metadata(path)
    cut = _cut(path, whole)
    if cut is None:
        return
    with pa.OSFile(str(path), "r") as file:
        for group in range(whole.num_row_groups):
            if not cut.with_group(file, group).row_group(0).equals(whole.row_group(group)):
                raise StoreError(
                    str(path),
                    f"row group {group}",
                    cause="its description isn't where the footer of another file has it",
                    cure="Ask its sender for another copy, or move it out of the workspace",
                )


def _bounds(raw: bytes, whole: pq.FileMetaData) -> list[int] | None:
    """Return the offsets of the row groups in a footer; None if the sizes of a group aren't found there."""
    groups = [whole.row_group(number) for number in range(whole.num_row_groups)]
    opening = _LIST + _list(len(groups))
    bounds = [raw.find(opening + _LIST + _list(whole.num_columns)) + len(opening)]
    for group in groups:
        sizes = [b"\x16" + _varint(2 * size) for size in (group.total_byte_size, group.num_rows)]
        at = raw.find(b"".join(sizes), bounds[-1])
        end = _AFTER_ROWS.match(raw, at + sum(map(len, sizes))) if at >= 0 else None
        if end is None:
            return None
        bounds.append(end.end())
    return bounds


def _list(number: int) -> bytes:
    """Return the header of a Thrift list of `number` structures."""
    if number < 15:
        return bytes([number << 4 | _STRUCTS])
    return bytes([0xF0 | _STRUCTS]) + _varint(number)


def _varint(value: int) -> bytes:
    """Encode a number as a Thrift varint: seven bits per byte, lowest bits first.

    >>> _varint(300).hex()
    'ac02'
    """
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


DERIVABLE = {
    "target_ids": ("input_ids", "loss_mask"),
    "doc_ids": ("doc_starts", "valid_token_count", "input_ids"),
}
"""For each column that may be missing, the columns from which it is derived."""
TRAINING_COLUMNS = ("input_ids", "loss_mask", "target_ids", "doc_ids")
BATCH_TOKENS = 1 << 18
CACHE_BYTES = 1 << 26
"""Default maximum bytes of a cache of decoded row groups."""


class Decoded(Protocol):
    """Decoded row group."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""


G = TypeVar("G", bound=Decoded)


class GroupCache:
    """LRU cache of decoded row groups. It has at most `limit` bytes, but always at least one group.

    Several readers may share a cache, so that memory and open files don't grow with the number of readers.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self.num_bytes = 0
        self.footers = Footers()
        """Footers of the files of all readers that share this cache."""
        self._groups: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, read: Callable[[], G]) -> G:
        """Return the group with the key `key`; if it isn't cached, call `read` to get it.

        All groups with one key must have the same type.
        """
        found: G | None = self._groups.get(key)
        if found is not None:
            self._groups.move_to_end(key)
            return found
        found = read()
        self._groups[key] = found
        self.num_bytes += found.nbytes
        while self.num_bytes > self.limit and len(self._groups) > 1:
            _, dropped = self._groups.popitem(last=False)
            self.num_bytes -= dropped.nbytes
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shard:
    """File of rows whose row groups can be read at random."""

    file: GroupFile
    row_format: RowFormat
    columns: list[str]


class RowReader:
    """Random access to rows by (shard, row); a shard is the index of a file in `files`.

    Reading a row decodes its row group of about 65,536 positions. The most recently read groups stay in
    `cache`. A file is opened when one of its rows is read for the first time, and few files stay open.
    """

    def __init__(
        self,
        files: Sequence[Path],
        *,
        columns: Sequence[str] = TRAINING_COLUMNS,
        row_format: RowFormat | None = None,
        cache: GroupCache | None = None,
    ) -> None:
        self._paths = list(files)
        self._columns = tuple(columns)
        self._row_format = row_format
        self._cache = cache or GroupCache()
        self._shards: dict[int, _Shard] = {}

    def num_rows(self, shard: int) -> int:
        """Return the number of rows of a shard.

        Raises:
            SchemaError: if the file lacks a row format or a requested column.
        """
        return int(self._shard(shard).file.first_rows[-1])

    def row(self, shard: int, row: int) -> RowBatch:
        """Return a batch of one row.

        Raises:
            SchemaError: if the file lacks a row format or a requested column.
        """
        group, at = self.place(shard, row)
        key = (self._paths[shard], self._columns, group)
        return self._cache.get(key, lambda: self.group(shard, group)).slice(at)

    def place(self, shard: int, row: int) -> tuple[int, int]:
        """Return the index of the row group that contains a row, and the row's index in this group."""
        first_rows = self._shard(shard).file.first_rows
        assert 0 <= row < first_rows[-1], f"row {row} of {first_rows[-1]} in shard {shard}"
        return parquet.place(first_rows, row)

    def group(self, shard: int, group: int) -> RowBatch:
        """Read a row group without the cache."""
        found = self._shard(shard)
        return RowBatch(row_format=found.row_format, table=found.file.read(group, found.columns))

    def _shard(self, number: int) -> _Shard:
        known = self._shards.get(number)
        if known is None:
            path = self._paths[number]
            file, schema = self._cache.footers.open(path)
            known = self._shards[number] = _Shard(
                file=file,
                row_format=self._row_format or format_of(schema, path.name),
                columns=stored_columns(schema, self._columns, path.name),
            )
        return known


def read_rows(
    files: Sequence[Path],
    columns: Sequence[str] = TRAINING_COLUMNS,
    *,
    row_format: RowFormat | None = None,
) -> Iterator[RowBatch]:
    """Yield all rows of the files in order, in batches of about 262,144 positions.

    Args:
        files: Parquet files of rows.
        columns: columns to read. Leave target_ids out to derive them, which is faster than reading them.
        row_format: for imported rows, whose files don't contain it.
    """
    for path in files:
        file = parquet.File(path)
        layout = row_format or format_of(file.schema_arrow, path.name)
        stored = stored_columns(file.schema_arrow, columns, path.name)
        rows = max(1, BATCH_TOKENS // layout.row_length)
        batches = file.iter_batches(rows, columns=stored, use_threads=False)
        for batch in batches:
            yield RowBatch(row_format=layout, table=pa.Table.from_batches([batch]))


def load_format(path: Path) -> RowFormat:
    """Return the row format of a Parquet file or of the first file in a folder.

    Raises:
        SchemaError: if no format is found, or its major version is another one.
    """
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    if not files:
        raise SchemaError(
            str(path), cause="it contains no Parquet files", cure="Give a folder that contains rows"
        )
    return format_of(parquet.read_schema(files[0]), files[0].name)


def format_of(schema: pa.Schema, name: str) -> RowFormat:
    """Return the row format in a file's metadata.

    Raises:
        SchemaError: if the format is missing, invalid or of another major version.
    """
    metadata = schema.metadata or {}
    version = metadata.get(b"schema_version", b"").decode()
    if version and (fault := version_fault(version)):
        raise SchemaError(
            name,
            cause=fault,
            cure="Use the version that wrote the file, or build the rows again",
        )
    try:
        return RowFormat.from_metadata(metadata)
    except (KeyError, ValueError) as broken:
        raise SchemaError(
            name,
            f"metadata: {broken}",
            cause="rows can't be read without row_length, vocab_size, pad_id, bos_id and eos_id",
            cure="Pass the row format, or write RowFormat.metadata() into the file",
        ) from None


def stored_columns(schema: pa.Schema, columns: Sequence[str], name: str) -> list[str]:
    """Return the columns to read; a missing column is replaced by those from which it is derived.

    Raises:
        SchemaError: for a column that is neither stored nor derivable.
    """
    wanted: dict[str, None] = {}
    for column in columns:
        if column in schema.names:
            wanted[column] = None
        elif column in DERIVABLE:
            wanted.update(dict.fromkeys(c for c in DERIVABLE[column] if c in schema.names))
        else:
            raise SchemaError(
                name,
                column,
                cause=f"the column is not stored; available: {', '.join(schema.names)}",
                cure="Build the rows again, or request other columns",
            )
    return list(wanted)
