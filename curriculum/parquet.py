"""Parquet files that may come from somebody else: what they decode to is bounded before it is decoded.

A file of some kilobytes can decode to gigabytes: runs of one value, pages compressed a thousandfold, one
long text that every value refers to. The sizes in its footer are claims, and a reader that takes a batch at
a time still decompresses whole pages. The headers of the pages are what decoders go by: a page allocates
its uncompressed size, and no more values come of it than its header counts. Their sum is an upper bound on
memory, for some microseconds a page. A column chunk decodes to at most

    uncompressed sizes of pages + values · (width + levels) + texts that stand for others

The last are texts that refer to a dictionary or repeat the text before. Where there may be many bytes of
them they are counted exactly, without decoding them all.

The files of artefacts are the published ones, as they are opened: their footers are compared, and then the
checksums of the pages that are read. A file whose pages have no checksums is compared whole.

A file, and files that are read together, may decode to MOST_BYTES, or to RATIO times their own size where
that is more; where row groups are read one by one, each of them may. Only the columns that are read count.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.page_headers import DICTIONARY, Page, pages_of
from curriculum.published_files import (
    compare_once,
    damaged,
    identity_of,
    published_record,
    require_footer,
)
from schemas.cures import cure_of
from schemas.document import PARTS
from schemas.errors import DamagedFileError, StoreError

MOST_BYTES = 1 << 30
"""Decoded, of files of any size; a row group of this project's writers takes some MB."""
RATIO = 100
"""Decoded bytes for each stored byte; rows of real text have some 30."""
LEAST_FOOTER, FOOTER_SHARE = 8 << 20, 4
"""Bytes of a footer, and a share of its file beside; parsed it takes up to 250 times as many."""
_ROW_BYTES = 8
"""The least that a row counts for, whatever its columns."""
_BATCH = 1 << 16
_MAGIC, _TAIL_BYTES = b"PAR1", 8
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}

Filter = tuple[str, str, Any]
"""A column, how it is compared, and with what; of several all hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Leaf:
    """A column of a file, down to its primitive values."""

    number: int
    name: str
    value_bytes: int
    """Bytes of a value in memory: its width, its levels, and the offsets of the lists around it."""
    is_text: bool
    in_lists: bool


class File(pq.ParquetFile):
    """A file whose row groups are bounded before they are read: a drop-in for `pyarrow.parquet.ParquetFile`.

    Raises:
        StoreError: naming the file, when it is opened for its footer, and when a row group is read that
            decodes to more than a file may, or whose pages are damaged or aren't the published ones.
    """

    def __init__(
        self,
        path: Path,
        source: pa.NativeFile | None = None,
        *,
        metadata: pq.FileMetaData | None = None,
        **options: Any,
    ) -> None:
        """Open a file, or what is open as `source`; a footer that is given isn't checked again."""
        self._path = path
        self._most = _most([path])
        if metadata is None:
            metadata = read_metadata(path, source)
        self._has_known_headers = _require_known(path, metadata)
        super().__init__(
            path if source is None else source,
            metadata=metadata,
            page_checksum_verification=True,
            **options,
        )
        self._bounded: dict[tuple[str, ...] | None, bytearray] = {}
        """Flags by columns: a byte a row group, 1 where it is known to be within its bound."""

    def read_row_group(
        self,
        i: int,
        columns: list[Any] | None = None,
        use_threads: bool = True,
        use_pandas_metadata: bool = False,
    ) -> pa.Table:
        """Read a row group within its bound."""
        self._require(columns, [i])
        with _naming(self._path):
            return super().read_row_group(i, columns, use_threads, use_pandas_metadata)

    def iter_batches(
        self,
        batch_size: int = _BATCH,
        row_groups: list[Any] | None = None,
        columns: list[Any] | None = None,
        use_threads: bool = True,
        use_pandas_metadata: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Read batches of row groups, each group within its bound."""
        groups = list(range(self.num_row_groups)) if row_groups is None else row_groups
        self._require(columns, groups)
        return self._named(
            super().iter_batches(batch_size, groups, columns, use_threads, use_pandas_metadata)
        )

    def _named(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Name the file in errors of the pages that each batch is read from."""
        while True:
            with _naming(self._path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def read_row_groups(self, *_: Any, **__: Any) -> pa.Table:
        """Refuse: together groups have no bound."""
        raise NotImplementedError("read_table reads whole files, read_row_group one group")

    read = read_row_groups

    def size(self, columns: Sequence[str] | None = None, *, exact: bool = False) -> int:
        """The bytes that columns, by default all, decode to at most; `exact` counts texts, and takes longer.

        Raises:
            StoreError: where a row group decodes to more than a file may.
        """
        return sum(self._sizes(columns, range(self.num_row_groups), exact=exact))

    def _require(self, columns: Sequence[str] | None, groups: Sequence[int]) -> None:
        """Refuse row groups that decode to too much; each is measured once."""
        key = None if columns is None else tuple(columns)
        known = self._bounded.setdefault(key, bytearray(self.num_row_groups))
        new = [group for group in groups if not known[group]]
        for group, _ in zip(new, self._sizes(columns, new), strict=True):
            known[group] = 1

    def _sizes(
        self, columns: Sequence[str] | None, groups: Sequence[int], *, exact: bool = False
    ) -> Iterator[int]:
        """The bytes that each row group decodes to at most."""
        if not groups:
            return
        leaves = list(_leaves(self.schema, columns))
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for group in groups:
                size = self._group_size(fd, group, leaves, exact=exact)
                if size > self._most and not exact:
                    size = self._group_size(fd, group, leaves, exact=True)
                if size > self._most:
                    raise _too_large(self._path, self._most)
                yield size
        finally:
            os.close(fd)

    def _group_size(self, fd: int, group: int, leaves: Sequence[_Leaf], *, exact: bool) -> int:
        """Decoded bytes of a row group, counted up to what a file may decode to and a column more."""
        size = 0
        for leaf in leaves:
            if size > self._most:
                break
            try:
                chunk = self.metadata.row_group(group).column(leaf.number)
                pages = list(chunk_pages(fd, chunk))
                if self._has_known_headers and (fault := headers_fault(pages, chunk)):
                    raise ValueError(fault)
                size += sum(page.uncompressed + page.values * leaf.value_bytes for page in pages)
                if leaf.is_text and size <= self._most:
                    size += self._texts_size(group, leaf, pages, exact=exact)
            except ValueError as wrong:
                raise StoreError(
                    str(self._path),
                    leaf.name,
                    cause=f"its pages can't be read: {wrong}",
                    cure=cure_of(self._path),
                ) from None
        return size

    def _texts_size(self, group: int, leaf: _Leaf, pages: Sequence[Page], *, exact: bool) -> int:
        """The bytes of texts that refer to a dictionary or repeat the text before.

        None is longer than all that is stored of them.
        """
        if leaf.in_lists and any(page.repeats for page in pages):
            raise ValueError("texts in lists can't be stored by their differences")
        dictionary = sum(page.uncompressed for page in pages if page.kind == DICTIONARY)
        before = sum(page.uncompressed for page in pages if page.repeats)
        longest = [page.by_dictionary * dictionary + page.repeats * before for page in pages]
        size = sum(page.values * each for page, each in zip(pages, longest, strict=True))
        if size and exact:
            return self._counted(group, leaf, max(1, (MOST_BYTES >> 2) // max(longest)))
        return size

    def _counted(self, group: int, leaf: _Leaf, at_once: int) -> int:
        """The bytes of texts, decoded so few at a time that they can't be too many.

        A row may hold any number of them in lists: those are decoded as references to their dictionary.
        """
        size, references = 0, [leaf.name] if leaf.in_lists else None
        with pq.ParquetFile(self._path, metadata=self.metadata, read_dictionary=references) as file:
            rows = min(at_once, _BATCH)
            for batch in file.iter_batches(rows, [group], [leaf.name], use_threads=False):
                size += _texts_in(batch.column(0))
                if size > self._most:
                    break
        return size


def place(first_rows: npt.NDArray[np.integer[Any]], row: int) -> tuple[int, int]:
    """The row group of a row, and its place in it; groups begin at `first_rows`, and the last one ends.

    >>> place(np.array([0, 4, 8, 10]), 5)
    (1, 1)
    """
    group = int(np.searchsorted(first_rows, row, side="right")) - 1
    return group, row - int(first_rows[group])


def read_table(
    files: Path | Sequence[Path],
    columns: Sequence[str] | None = None,
    *,
    filters: Sequence[Filter] | None = None,
    schema: pa.Schema | None = None,
) -> pa.Table:
    """Read columns of files, by default all: `pyarrow.parquet.read_table` within the bounds.

    The columns that filters compare are read too, and count.

    Raises:
        StoreError: naming the file, or the folder of the files, that decode to more than they may.
    """
    listed = [files] if isinstance(files, Path) else list(files)
    compared = [name for name, _, _ in filters or ()]
    names = None if columns is None else list(columns)
    require(listed, None if names is None else [*names, *compared])
    if filters is None and schema is None and listed:
        # pyarrow.dataset imports pandas where that is installed: most of the time of a short command.
        return _read_whole(listed, names)
    all_of: Any = None if filters is None else list(filters)
    with _naming(listed[0]) if len(listed) == 1 else contextlib.nullcontext():
        return pq.read_table(
            files if isinstance(files, Path) else listed,
            columns=names,
            partitioning=None,
            filters=all_of,
            schema=schema,
            page_checksum_verification=True,
        )


def _read_whole(files: Sequence[Path], columns: list[str] | None) -> pa.Table:
    """Read files one after another, each as the columns of the first."""
    tables: list[pa.Table] = []
    for file in files:
        with _naming(file), pq.ParquetFile(file, page_checksum_verification=True) as opened:
            table = opened.read(columns)
        same = not tables or table.schema.equals(tables[0].schema)
        tables.append(table if same else table.cast(tables[0].schema))
    return pa.concat_tables(tables)


@contextlib.contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Name the file in errors of its footer and its pages, which Arrow leaves out.

    Arrow reports damage by an OSError without a number; whoever catches that catches the named error.
    """
    try:
        yield
    except OSError as failed:
        if type(failed) is not OSError or failed.errno is not None:
            raise
        raise DamagedFileError(
            str(file),
            str(failed).splitlines()[0],
            cause="the file is damaged",
            cure=cure_of(file),
        ) from failed


def parse_table(content: bytes) -> pa.Table:
    """Read all of a file from memory, in the calling thread alone, without bounds.

    One of Arrow's threads that releases memory of Python's while the interpreter ends aborts the process
    (pyarrow 26: about one of 75 builds on two busy cores).
    """
    return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)


def read_metadata(file: Path, source: pa.NativeFile | None = None) -> pq.FileMetaData:
    """Parse the footer of a file, within the bounds on its bytes and on the rows that it promises.

    It is read from what is open as `source`, by default from the file. What isn't Parquet is the parser's.

    Raises:
        StoreError: naming the file, also where it isn't the published one's.
    """
    if (record := published_record(file)) is not None:
        require_footer(file, record)
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        opened.seek(max(0, size - _TAIL_BYTES))
        tail = opened.read(_TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    most = LEAST_FOOTER + size // FOOTER_SHARE
    if tail[4:] == _MAGIC and most < length < size:
        raise StoreError(
            str(file),
            f"a footer of {length:,} bytes",
            cause=f"of a file of {size:,} bytes it has at most {most:,}",
            cure=cure_of(file),
        )
    with _naming(file):
        metadata = pq.read_metadata(file if source is None else source)
    most = _most([file]) // _ROW_BYTES
    groups = [metadata.row_group(each).num_rows for each in range(metadata.num_row_groups)]
    if min(groups, default=0) < 0 or sum(groups) != metadata.num_rows or sum(groups) > most:
        raise StoreError(
            str(file),
            f"{metadata.num_rows:,} rows",
            cause=f"its row groups have {sum(groups):,}; a file of its size has at most {most:,}",
            cure=cure_of(file),
        )
    return metadata


def read_schema(file: Path) -> pa.Schema:
    """Parse the columns of a file, whose footer is within the bounds.

    Raises:
        StoreError: naming the file.
    """
    return read_metadata(file).schema.to_arrow_schema()


def _require_known(file: Path, metadata: pq.FileMetaData) -> bool:
    """Compare a file of an artefact whole, unless its pages have checksums; True where they have.

    Raises:
        StoreError: naming the file, where it isn't the published one.
    """
    record = published_record(file)
    if record is None:
        return False
    if record.footer is not None and _has_checksums(file, metadata):
        return True
    compare_once(file, record)
    return False


def _has_checksums(file: Path, metadata: pq.FileMetaData) -> bool:
    """Return True where the first page of a file has a checksum."""
    if not (metadata.num_row_groups and metadata.num_columns):
        return False
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        page = next(chunk_pages(fd, metadata.row_group(0).column(0)), None)
    except ValueError:
        return False
    finally:
        os.close(fd)
    return page is not None and page.checksum is not None


@contextlib.contextmanager
def reading_pages(file: Path) -> Iterator[None]:
    """Read pages of a file.

    Raises:
        StoreError: naming the file, where its content can't be decoded or a checksum differs.
    """
    try:
        yield
    except StoreError:
        raise
    except (pa.ArrowException, OSError) as failed:
        # Arrow's own errors have no number; those of the operating system aren't damage.
        if getattr(failed, "errno", None) is not None:
            raise
        raise damaged(file, str(failed).splitlines()[0]) from failed


def require(files: Sequence[Path], columns: Sequence[str] | None = None) -> None:
    """Refuse files of which these columns, by default all, decode together to more than they may.

    Raises:
        StoreError: naming the file, or the folder of the files.
    """
    most = _most(files)
    for exact in (False, True):
        if sum(_size(file, columns, exact=exact) for file in files) <= most:
            return
    raise _too_large(files[0] if len(files) == 1 else files[0].parent, most)


def require_groups(files: Sequence[Path], columns: Sequence[str] | None = None) -> None:
    """Refuse files with a row group of which these columns decode to more than a file may.

    Raises:
        StoreError: naming the first.
    """
    for file in files:
        _size(file, columns, exact=False)


def _size(file: Path, columns: Sequence[str] | None, *, exact: bool) -> int:
    """A file is measured once a process, as long as it is the same."""
    found = file.stat()
    identity = (found.st_dev, *identity_of(found))
    return _measured(file, identity, None if columns is None else tuple(columns), exact)


@functools.lru_cache(maxsize=4096)
def _measured(
    file: Path, identity: tuple[int, ...], columns: tuple[str, ...] | None, exact: bool
) -> int:
    with File(file) as opened:
        return opened.size(columns, exact=exact)


def _leaves(schema: pq.ParquetSchema, columns: Sequence[str] | None) -> Iterator[_Leaf]:
    """The columns of a file, by default all, down to their primitive values."""
    for number in range(len(schema)):
        column = schema.column(number)
        name = column.path
        if columns is not None and not any(
            name == each or name.startswith(f"{each}.") for each in columns
        ):
            continue
        nulls, lists = column.max_definition_level, column.max_repetition_level
        levels = 2 * (nulls > 0) + 2 * (lists > 0) + 8 * lists + (nulls + 7) // 8
        # Of a text it is the width of its offset, or its view.
        width = (
            16 if "Decimal" in str(column.logical_type) else _WIDTHS.get(column.physical_type, 16)
        )
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
            width = max(16, int(column.length or 0))
        yield _Leaf(
            number=number,
            name=name,
            value_bytes=width + levels,
            is_text=column.physical_type == "BYTE_ARRAY",
            in_lists=lists > 0,
        )


def chunk_pages(fd: int, chunk: Any) -> Iterator[Page]:
    """The pages of a column chunk.

    Raises:
        ValueError: for pages that aren't those of the chunk.
    """
    start, first = int(chunk.data_page_offset), chunk.dictionary_page_offset
    if first is not None and chunk.has_dictionary_page:
        # Where no values are, Arrow writes a dictionary and an offset of 0 for them.
        if first <= 0 or (first > start and chunk.num_values):
            raise ValueError("a dictionary lies behind its values")
        start = int(first)
    return pages_of(fd, start, start + int(chunk.total_compressed_size))


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


def headers_fault(pages: Sequence[Page], chunk: Any) -> str | None:
    """Compare the headers of a chunk's pages, which no checksum covers, with what the footer counts."""
    if any(page.checksum is None for page in pages):
        return "a page has no checksum"
    values = sum(page.values for page in pages if page.kind != DICTIONARY)
    num_bytes = sum(page.uncompressed - page.compressed for page in pages)
    # What headers take is counted in both sizes of a chunk.
    same = (chunk.num_values, chunk.total_uncompressed_size - chunk.total_compressed_size)
    known = {_ENCODINGS[each] for each in chunk.encodings}
    if (values, num_bytes) != same or not {page.encoding for page in pages} <= known:
        return "the headers of its pages aren't those that the footer counts"
    return None


def _texts_in(values: Any) -> int:
    """The bytes of the texts of an array, once it is taken out of its lists and structures."""
    while pa.types.is_nested(values.type):
        values = values.flatten()[0] if pa.types.is_struct(values.type) else values.flatten()
    if not pa.types.is_dictionary(values.type):
        return int(values.nbytes)
    # It documents each of its functions when it is imported; few files need it.
    import pyarrow.compute as pc

    lengths = pc.binary_length(values.dictionary)
    return pc.sum(lengths.take(values.indices)).as_py() or 0


def _most(files: Sequence[Path]) -> int:
    """The bytes that files may decode to."""
    return max(MOST_BYTES, RATIO * sum(file.stat().st_size for file in files))


def _too_large(file: Path, most: int) -> StoreError:
    return StoreError(
        str(file),
        f"more than {most >> 20:,} MiB",
        cause="its pages may decode to so much",
        cure=cure_of(file),
    )


def shards_of(folder: Path) -> list[Path]:
    """Return the shards that a ShardWriter wrote into a folder, in their order."""
    return sorted(folder.glob(f"{PARTS}*.parquet"))


class ShardWriter:
    """Writes tables into data/part-00000.parquet, data/part-00001.parquet … of a folder, as they come.

    Equal tables give equal bytes; pages have checksums only where `encoding` asks for them.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, *, group_rows: int, **encoding: Any
    ) -> None:
        """Write into `folder`, zstd at level 1; `encoding` goes to pyarrow's ParquetWriter."""
        self.count = 0
        """Shards that were begun."""
        self._folder, self._schema = folder, schema
        self._group_rows, self._encoding = group_rows, encoding
        self._file: pq.ParquetWriter | None = None

    @property
    def is_open(self) -> bool:
        """True between `begin` and `close`."""
        return self._file is not None

    def begin(self) -> None:
        """Finish the shard that is open and open the next."""
        self.close()
        path = self._folder / f"{PARTS}{self.count:05d}.parquet"
        path.parent.mkdir(exist_ok=True)
        self._file = pq.ParquetWriter(
            path, self._schema, compression="zstd", compression_level=1, **self._encoding
        )
        self.count += 1

    def append(self, table: pa.Table) -> None:
        """Add rows to the open shard, in row groups of `group_rows` at most."""
        assert self._file is not None, "begin a shard first"
        self._file.write_table(table, row_group_size=self._group_rows)

    def close(self) -> None:
        """Finish the shard that is open; without it that file has no footer and no reader."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
