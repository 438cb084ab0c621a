"""Rows come back in order, or one at a time by (shard, row), from thousands of files with little memory.

What is stored is trusted here; row_check.py is what doubts it.

A footer describes each column of each row group: 2 MB of a file of 1,024 groups, which take 20 MB and 20 ms
to be parsed. The first files stay open with theirs. Of others the footer is cut: its bytes are one Thrift
structure in which row groups stand one after the other, so that what is around them makes a footer of one
group with the bytes of any, which are read again at need: 3 KB and 8 bytes a group stay of 2 MB.

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
from schemas.errors import SchemaError
from schemas.json_text import version_fault
from schemas.packed_row import RowFormat

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
        if self._open is not None:
            return _read(self._open, group, columns)
        with parquet.naming(self.path), pa.OSFile(str(self.path), "r") as file:
            if self._cut is None:
                return _read(parquet.File(self.path, file), group, columns)
            metadata = self._cut.one(file, group)
            rows = int(self.first_rows[group + 1] - self.first_rows[group])
            assert metadata.row_group(0).num_rows == rows, f"{self.path} has changed"
            return _read(parquet.File(self.path, file, metadata=metadata), 0, columns)


class Footers:
    """The files that are open: the first `most`, as far as their footers take `limit` bytes together."""

    def __init__(self, *, limit: int = FOOTER_BYTES, most: int = OPEN_FILES) -> None:
        self.num_bytes, self.num_open = 0, 0
        self._limit, self._most = limit, most

    def of(self, path: Path) -> tuple[GroupFile, pa.Schema]:
        """A file, which stays open if there is room for it, and its schema."""
        file = parquet.File(path)
        whole = file.metadata
        rows = [whole.row_group(group).num_rows for group in range(whole.num_row_groups)]
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


DERIVABLE = {
    "target_ids": ("input_ids", "loss_mask"),
    "doc_ids": ("doc_starts", "valid_token_count", "input_ids"),
}
"""Columns that may be absent, and those that they are derived from."""
TRAINING_COLUMNS = ("input_ids", "loss_mask", "target_ids", "doc_ids")
BATCH_TOKENS = 1 << 18
CACHE_BYTES = 1 << 26
"""Bytes of decoded row groups that a `RowReader` keeps where it isn't given a cache."""


class Decoded(Protocol):
    """A row group in memory."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""


G = TypeVar("G", bound=Decoded)


class GroupCache:
    """The row groups that were asked for last, decoded: at most `limit` bytes of them, or a single one.

    Several readers may share one, so that their number multiplies neither memory nor open files.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self.num_bytes = 0
        self.footers = Footers()
        """Footers of the files of its readers."""
        self._groups: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, read: Callable[[], G]) -> G:
        """The group of a key, read if it isn't kept; a key stands for one kind of G."""
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
    """A file of rows, whose row groups are read at random."""

    file: GroupFile
    row_format: RowFormat
    columns: list[str]


class RowReader:
    """Random access by (shard, row); a shard is the number of a file in name order.

    Reading one row decodes its row group, some 65,536 positions; the last groups stay in `cache`. A file is
    opened when a row of it is first asked for, and few of them stay open.
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
        """Rows of a shard.

        Raises:
            SchemaError: for a file without a row format, or without a column that is read.
        """
        return int(self._shard(shard).file.first_rows[-1])

    def row(self, shard: int, row: int) -> RowBatch:
        """A batch of one row.

        Raises:
            SchemaError: for a file without a row format, or without a column that is read.
        """
        group, at = self.place(shard, row)
        key = (self._paths[shard], self._columns, group)
        return self._cache.get(key, lambda: self.group(shard, group)).slice(at)

    def place(self, shard: int, row: int) -> tuple[int, int]:
        """The number of a row's group, and its place in it."""
        first_rows = self._shard(shard).file.first_rows
        assert 0 <= row < first_rows[-1], f"row {row} of {first_rows[-1]} in shard {shard}"
        return parquet.place(first_rows, row)

    def group(self, shard: int, group: int) -> RowBatch:
        """The rows of a row group, read anew."""
        found = self._shard(shard)
        return RowBatch(row_format=found.row_format, table=found.file.read(group, found.columns))

    def _shard(self, number: int) -> _Shard:
        known = self._shards.get(number)
        if known is None:
            path = self._paths[number]
            file, schema = self._cache.footers.of(path)
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
    """All rows of the files in order, some 262,144 positions at a time.

    `row_format` is for rows of others, whose files don't carry one. Leave target_ids out of `columns` to
    have them derived, which is faster than reading them.
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
    """The format of a file of rows, or of a folder of them.

    Raises:
        SchemaError: where there is none, or one of another major version.
    """
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    if not files:
        raise SchemaError(
            str(path), cause="there are no Parquet files", cure="Give a folder that holds rows"
        )
    return format_of(parquet.read_schema(files[0]), files[0].name)


def format_of(schema: pa.Schema, name: str) -> RowFormat:
    """The format in a file's metadata.

    Raises:
        SchemaError: where it is missing, broken or of another major version.
    """
    metadata = schema.metadata or {}
    version = metadata.get(b"schema_version", b"").decode()
    if version and (fault := version_fault(version)):
        raise SchemaError(
            name,
            cause=fault,
            cure="Use the version that wrote it, or build the rows again",
        )
    try:
        return RowFormat.from_metadata(metadata)
    except (KeyError, ValueError) as broken:
        raise SchemaError(
            name,
            f"metadata: {broken}",
            cause="row_length, vocab_size, pad_id, bos_id and eos_id say how to read rows",
            cure="Give the row format, or write RowFormat.metadata() into the file",
        ) from None


def stored_columns(schema: pa.Schema, columns: Sequence[str], name: str) -> list[str]:
    """The columns to read for those asked: a derivable one that is absent gives way to its sources.

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
                cause=f"the column is not stored; there are {', '.join(schema.names)}",
                cure="Build the rows again, or ask for other columns",
            )
    return list(wanted)
