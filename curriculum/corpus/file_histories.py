"""Histories of files: when each file first appeared in the log, and all versions that it ever had.

Originals can't be told from copies by documents alone. Of a frequently changed file only the newest versions
are read, so a rarely updated copy of the file may have older documents.
"""

from array import array
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import frames
from schemas.document import FILE_HISTORIES_SCHEMA

FILE_HISTORIES_NAME = "file_histories.parquet"
BLOB_DIGITS = 15
"""Number of leading hex digits of a blob id that identify the blob; they fit into 63 bits."""


class FileHistories:
    """Collector of the histories of files while the log is read; 16 bytes of memory per version."""

    def __init__(self) -> None:
        self._born: dict[str, int] = {}
        self._versions: dict[str, tuple[array[int], array[int]]] = {}
        self._wanted: set[str] = set()

    def add(self, lineage: str, timestamp: int, blob: str) -> None:
        """Add the next version of a file in log order; an empty `blob` means that the file was deleted."""
        self._born.setdefault(lineage, timestamp)
        if blob:
            blobs, since = self._versions.setdefault(lineage, (array("q"), array("q")))
            blobs.append(int(blob[:BLOB_DIGITS], 16))
            since.append(timestamp)

    def want(self, lineage: str) -> None:
        """Mark a file whose history `write` will include."""
        self._wanted.add(lineage)

    def write(self, folder: Path) -> None:
        """Write the histories of the marked files into `folder`, sorted by lineage."""
        names = sorted(self._wanted)
        firsts = [self._firsts(name) for name in names]
        columns = {
            "lineage": names,
            "born": [self._born[name] for name in names],
            "blobs": [list(first) for first in firsts],
            "since": [list(first.values()) for first in firsts],
        }
        table = pa.table(columns, schema=FILE_HISTORIES_SCHEMA)
        pq.write_table(table, folder / FILE_HISTORIES_NAME, compression="zstd")

    def _firsts(self, lineage: str) -> dict[int, int]:
        """Return the first timestamp of each version of a file, by blob number, sorted by number."""
        blobs, since = self._versions.get(lineage, ((), ()))
        # Reversed, because the last value of a key wins, and the earliest timestamp must remain.
        firsts = dict(zip(reversed(blobs), reversed(since), strict=True))
        return dict(sorted(firsts.items()))


def read_histories(folders: Iterable[Path]) -> pl.DataFrame:
    """Return the histories in `folders` as a table with the columns lineage, born, blobs and since."""
    files = [folder / FILE_HISTORIES_NAME for folder in folders]
    numbers = pl.List(pl.Int64)
    schema = pl.Schema(
        {"lineage": pl.String(), "born": pl.Int64(), "blobs": numbers, "since": numbers}
    )
    tables = [frames.read(file) for file in files if file.is_file()]
    return pl.concat([pl.DataFrame(schema=schema), *tables])


def blob_mark(blob: pl.Expr) -> pl.Expr:
    """Return the number that stands for a blob in histories; null if the value is not a blob id."""
    return blob.str.head(BLOB_DIGITS).str.to_integer(base=16, strict=False)
