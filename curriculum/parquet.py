"""Readers and writers of the Parquet files of a workspace.

Files of artefacts are compared with the published ones: their footers when they are opened, and then the
checksums of the pages that are read. A file without page checksums is compared as a whole. Page headers
aren't covered by checksums; a changed header causes an error, or fewer rows than the footer counts.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.published_files import compare_once, damaged, published_record, require_footer
from schemas.cures import cure_of
from schemas.document import PARTS
from schemas.errors import DamagedFileError, StoreError

_BATCH = 1 << 16
_NUMBER = rb"[\x80-\xff]*[\x00-\x7f]"
_WITH_CHECKSUM = re.compile(rb"(?:\x15%b){3}\x15" % _NUMBER)
"""Pattern of a page header in Thrift's compact protocol: page type, two sizes, and then a checksum."""
_ROW = "row of its group"

Filter = tuple[str, str, Any]
"""Column, operator and value; several filters are combined by AND."""


class File(pq.ParquetFile):
    """A Parquet file. Its page checksums are compared when pages are read, and its errors name the file.

    Raises:
        StoreError: naming the file, if it isn't the published one when opened, or if pages that are read
        are damaged or lack a column.
    """

    def __init__(
        self,
        path: Path,
        source: pa.NativeFile | None = None,
        *,
        metadata: pq.FileMetaData | None = None,
        **options: Any,
    ) -> None:
        """Open the file at a path, or read it from `source` if it is already open.

        If `metadata`, its footer, is given, the footer isn't compared again.
        """
        self._path = path
        if metadata is None:
            metadata = read_metadata(path, source)
        record = published_record(path)
        if record is not None and (record.footer is None or not has_checksums(path, metadata)):
            compare_once(path, record)
        super().__init__(
            path if source is None else source,
            metadata=metadata,
            page_checksum_verification=True,
            **options,
        )

    def read_row_group(
        self,
        i: int,
        columns: list[Any] | None = None,
        use_threads: bool = True,
        use_pandas_metadata: bool = False,
    ) -> pa.Table:
        """Return the rows of a row group."""
        with naming(self._path):
            table = super().read_row_group(i, columns, use_threads, use_pandas_metadata)
        if columns is not None and table.num_columns < len(columns):
            self._require_columns(columns)
        self._require_rows(len(table), self.metadata.row_group(i).num_rows)
        return table

    def iter_batches(
        self,
        batch_size: int = _BATCH,
        row_groups: list[Any] | None = None,
        columns: list[Any] | None = None,
        use_threads: bool = True,
        use_pandas_metadata: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of rows from some row groups, by default from all."""
        self._require_columns(columns)
        groups = range(self.num_row_groups) if row_groups is None else row_groups
        counted, rows = sum(self.metadata.row_group(group).num_rows for group in groups), 0
        batches = super().iter_batches(
            batch_size, [*groups], columns, use_threads, use_pandas_metadata
        )
        while True:
            with naming(self._path):
                batch = next(batches, None)
            if batch is None:
                break
            rows += len(batch)
            yield batch
        self._require_rows(rows, counted)

    def read(
        self,
        columns: list[Any] | None = None,
        use_threads: bool = True,
        use_pandas_metadata: bool = False,
    ) -> pa.Table:
        """Return the rows of the whole file."""
        with naming(self._path):
            table = super().read(columns, use_threads, use_pandas_metadata)
        if columns is not None and table.num_columns < len(columns):
            self._require_columns(columns)
        self._require_rows(len(table), self.metadata.num_rows)
        return table

    def _require_columns(self, wanted: Sequence[str] | None) -> None:
        """Raise unless the file has the columns `wanted`; a wanted field of a struct needs only the struct.

        pyarrow silently omits missing columns.
        """
        there = {*self.schema_arrow.names}
        for name in wanted or ():
            if name not in there and name.partition(".")[0] not in there:
                raise StoreError(
                    str(self._path),
                    f"columns {', '.join(self.schema_arrow.names)}",
                    cause=f"the file has no column {name}",
                    cure=cure_of(self._path),
                )

    def _require_rows(self, rows: int, counted: int) -> None:
        if rows != counted:
            raise damaged(
                self._path, f"its pages have {rows:,} rows, but its footer counts {counted:,}"
            )


def place(first_rows: npt.NDArray[np.integer[Any]], row: int) -> tuple[int, int]:
    """Return the row group that contains `row`, and the index of the row in this group.

    `first_rows` has the first row of each group, and then the number of rows.

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
    """Return columns of files, by default all; the files are concatenated, with the types of the first one.

    Raises:
        StoreError: naming the file that isn't the published one, or is damaged.
    """
    names = None if columns is None else list(columns)
    tables: list[pa.Table] = []
    for path in [files] if isinstance(files, Path) else files:
        with File(path) as file:
            table = file.read(names) if filters is None else _filtered(file, names, filters)
        wanted = schema or (tables[0].schema if tables else table.schema)
        with naming(path):
            tables.append(table if table.schema.equals(wanted) else table.cast(wanted))
    return pa.concat_tables(tables)


def _filtered(file: File, columns: list[str] | None, filters: Sequence[Filter]) -> pa.Table:
    """Return the rows of a file that match `filters`.

    The columns of the filters are read first, and the other columns only for row groups with matches.
    """
    # pyarrow.dataset imports pandas if it is installed, which would take most of a short command's time.
    compared: Any = [*filters]
    holds = pq.filters_to_expression(compared)
    names = file.schema_arrow.names if columns is None else columns
    tables: list[pa.Table] = [file.schema_arrow.empty_table().select(names)]
    for group in range(file.num_row_groups):
        keys = file.read_row_group(group, [*{name for name, _, _ in filters}])
        numbers = pa.array(np.arange(len(keys)))
        rows = keys.append_column(_ROW, numbers).filter(holds)[_ROW]
        if len(rows):
            tables.append(file.read_row_group(group, names).select(names).take(rows))
    return pa.concat_tables(tables)


@contextlib.contextmanager
def naming(file: Path) -> Iterator[None]:
    """Add the name of `file` to errors about its footer and pages, because Arrow omits it.

    Raises:
        DamagedFileError: naming the file, if its content can't be decoded or a checksum differs.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as failed:
        # Arrow's own errors have no errno; errors of the operating system aren't damage.
        is_plain = type(failed) is OSError and failed.errno is None
        if isinstance(failed, OSError | MemoryError) and not is_plain:
            raise
        found = str(failed).splitlines()[0]
        cause = "the file is damaged"
        raise DamagedFileError(str(file), found, cause=cause, cure=cure_of(file)) from failed


def parse_table(content: bytes) -> pa.Table:
    """Return the table of a Parquet file whose bytes are in memory, using no thread except this one.

    If an Arrow thread releases memory of Python while the interpreter exits, it aborts the process (pyarrow
    26: about one of 75 builds on two busy cores).
    """
    return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)


def read_metadata(file: Path, source: pa.NativeFile | None = None) -> pq.FileMetaData:
    """Return the footer of a file, read from `source` if the file is already open.

    Raises:
        StoreError: naming the file, if it isn't Parquet, or its footer isn't the published one.
    """
    if (record := published_record(file)) is not None:
        require_footer(file, record)
    with naming(file):
        return pq.read_metadata(file if source is None else source)


def read_schema(file: Path) -> pa.Schema:
    """Return the columns of a file.

    Raises:
        StoreError: naming the file.
    """
    return read_metadata(file).schema.to_arrow_schema()


def has_checksums(file: Path, metadata: pq.FileMetaData) -> bool:
    """Return True if the first page of a file has a checksum."""
    if not (metadata.num_row_groups and metadata.num_columns):
        return False
    chunk = metadata.row_group(0).column(0)
    with file.open("rb") as opened:
        opened.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
        return _WITH_CHECKSUM.match(opened.read(32)) is not None


def shards_of(folder: Path) -> list[Path]:
    """Return the shards that a ShardWriter wrote into a folder, in order."""
    return sorted(folder.glob(f"{PARTS}*.parquet"))


class ShardWriter:
    """Writer of tables into data/part-00000.parquet, data/part-00001.parquet … of a folder.

    Equal tables give equal bytes. Pages have checksums only if `encoding` requests them.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, *, group_rows: int, **encoding: Any
    ) -> None:
        """Write into `folder` with zstd at level 1; `encoding` is passed to pyarrow's ParquetWriter."""
        self.count = 0
        """Number of shards that were started."""
        self._folder, self._schema = folder, schema
        self._group_rows, self._encoding = group_rows, encoding
        self._file: pq.ParquetWriter | None = None

    @property
    def is_open(self) -> bool:
        """True between `begin` and `close`."""
        return self._file is not None

    def begin(self) -> None:
        """Finish the open shard and start the next one."""
        self.close()
        path = self._folder / f"{PARTS}{self.count:05d}.parquet"
        path.parent.mkdir(exist_ok=True)
        self._file = pq.ParquetWriter(
            path, self._schema, compression="zstd", compression_level=1, **self._encoding
        )
        self.count += 1

    def append(self, table: pa.Table) -> None:
        """Add rows to the open shard, in row groups of at most `group_rows`."""
        assert self._file is not None, "begin a shard first"
        self._file.write_table(table, row_group_size=self._group_rows)

    def close(self) -> None:
        """Finish the open shard; without this, the file has no footer and can't be read."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
