"""Rows come back as numpy views of what Parquet decoded: in order, or one at a time by (shard, row).

Reads rows that others wrote too: target_ids and doc_ids that aren't stored are derived, where the
contract allows it. What is stored is trusted here; `check` is what doubts it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum import parquet
from curriculum.packing.footers import Footers, GroupFile, opened
from curriculum.packing.rows import RowBatch
from curriculum.store.verify import reading_pages
from schemas.errors import SchemaError
from schemas.json_text import version_fault
from schemas.packed_row import RowFormat

Int32s = npt.NDArray[np.int32]
DERIVABLE = {
    "target_ids": ("input_ids", "loss_mask"),
    "doc_ids": ("doc_starts", "valid_token_count", "input_ids"),
}
"""Columns that may be absent, and those that they are derived from."""
TRAINING_COLUMNS = ("input_ids", "loss_mask", "target_ids", "doc_ids")
BATCH_TOKENS = 1 << 18
CACHE_BYTES = 1 << 26
"""Bytes of decoded row groups that a `RowReader` keeps where it isn't given a cache."""


class GroupCache:
    """The row groups that were asked for last, decoded: at most `limit` bytes of them, or a single one.

    Several readers may share one, so that their number multiplies neither memory nor open files.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self.num_bytes = 0
        self.footers = Footers()
        """Footers of the files of its readers."""
        self._groups: OrderedDict[Hashable, RowBatch] = OrderedDict()

    def get(self, key: Hashable, read: Callable[[], RowBatch]) -> RowBatch:
        """The group of a key, read if it isn't kept."""
        known = self._groups.get(key)
        if known is not None:
            self._groups.move_to_end(key)
            return known
        batch = self._groups[key] = read()
        self.num_bytes += batch.table.nbytes
        while self.num_bytes > self.limit and len(self._groups) > 1:
            _, oldest = self._groups.popitem(last=False)
            self.num_bytes -= oldest.table.nbytes
        return batch


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shard:
    """A file of rows, whose row groups are read at random."""

    file: GroupFile
    row_format: RowFormat
    columns: list[str]

    def read(self, group: int) -> RowBatch:
        """The rows of a row group."""
        return RowBatch(row_format=self.row_format, table=self.file.read(group, self.columns))


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
        found = self._shard(shard)
        first_rows = found.file.first_rows
        assert 0 <= row < first_rows[-1], f"row {row} of {first_rows[-1]} in shard {shard}"
        group = int(np.searchsorted(first_rows, row, side="right")) - 1
        key = (self._paths[shard], self._columns, group)
        batch = self._cache.get(key, lambda: found.read(group))
        return batch.slice(row - int(first_rows[group]))

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
        file = opened(path)
        layout = row_format or format_of(file.schema_arrow, path.name)
        stored = stored_columns(file.schema_arrow, columns, path.name)
        rows = max(1, BATCH_TOKENS // layout.row_length)
        batches = file.iter_batches(rows, columns=stored, use_threads=False)
        while True:
            with reading_pages(path):
                batch = next(batches, None)
            if batch is None:
                break
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
