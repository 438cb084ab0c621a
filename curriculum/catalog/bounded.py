"""Parquet files of somebody else's in bounded memory.

A file of some kilobytes can hold gigabytes: runs of one value, pages that are packed a thousandfold, one long
text that each line refers to. What the file says of its own size isn't to be believed, and a reader that
takes a batch at a time still unpacks whole pages. DuckDB counts all that it allocates against its
limit, pages included; the result is counted batch by batch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from curriculum.catalog.sql_text import CatalogError, pattern, quoted

MOST_BYTES = 128 << 20
"""Bytes of a table that is read."""
_WORKING_BYTES = 128 << 20
"""Memory that DuckDB may need beside it."""
_ROWS = 2048
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "temp_directory": "",
    "threads": "1",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def read(file: Path, columns: Sequence[str] | None = None, *, most: int = MOST_BYTES) -> pa.Table:
    """The rows of a file, by default all columns, in their order; at most so many bytes.

    Raises:
        CatalogError: for a file that holds more than that.
        OSError: for one that is no Parquet file, or lacks a column.
    """
    listed = "*" if columns is None else ", ".join(map(_name, columns))
    path = quoted(pattern(str(file)))
    # What is on its way into Arrow isn't counted; what lies in a table is.
    held = (
        f"CREATE TABLE held AS SELECT {listed} FROM read_parquet({path}, hive_partitioning = false)"
    )
    config = {**_CONFIG, "memory_limit": f"{most + _WORKING_BYTES}B"}
    with duckdb.connect(config=config) as connection:
        try:
            connection.execute(held)
            reader = connection.sql("FROM held").to_arrow_reader(_ROWS)
            return pa.Table.from_batches(_counted(reader, file, most), reader.schema)
        except (duckdb.OutOfMemoryException, MemoryError):
            raise _too_large(file, most) from None
        except (duckdb.Error, OSError) as refused:
            raise OSError(str(refused).partition("\n")[0]) from None


def _counted(reader: pa.RecordBatchReader, file: Path, most: int) -> Iterator[pa.RecordBatch]:
    there = 0
    for batch in reader:
        there += batch.nbytes
        if there > most:
            raise _too_large(file, most)
        yield batch


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _too_large(file: Path, most: int) -> CatalogError:
    return CatalogError(
        str(file),
        cause=f"it holds more than {most >> 20} MiB unpacked",
        cure="Remove it, or ask about it with curriculum query, which reads only what is asked",
    )
