"""Histories of files: when each file first appeared in the log, and all its versions.

Documents alone can't tell an original from its copies: only the newest versions of a frequently changed file
are read, so the documents of a rarely updated copy may be older.
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
"""Leading hex digits of a blob id that identify it; they fit into 63 bits."""


class FileHistories:
    """Collects the histories of files during a walk of the log; 16 bytes per version."""

    def __init__(self) -> None:
        self._born: dict[str, int] = {}
        self._versions: dict[str, tuple[array[int], array[int]]] = {}
        self._wanted: set[str] = set()

    def add(self, lineage: str, timestamp: int, blob: str) -> None:
        """Add a version of a file, in log order; an empty blob id means that the file doesn't exist."""
        self._born.setdefault(lineage, timestamp)
        if blob:
            blobs, since = self._versions.setdefault(lineage, (array("q"), array("q")))
            blobs.append(int(blob[:BLOB_DIGITS], 16))
            since.append(timestamp)

    def want(self, lineage: str) -> None:
        """Mark a file so that its history is written."""
        self._wanted.add(lineage)

    def write(self, folder: Path) -> None:
        """Write the histories of the marked files, sorted by lineage."""
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
        """Return the first timestamp of each blob of a file, sorted by blob number."""
        blobs, since = self._versions.get(lineage, ((), ()))
        # Reversed, because the last value of a key wins: the earliest timestamp must stay.
        firsts = dict(zip(reversed(blobs), reversed(since), strict=True))
        return dict(sorted(firsts.items()))


def read_histories(folders: Iterable[Path]) -> pl.DataFrame:
    """Return (lineage, born, blobs, since) from all document folders with histories."""
    files = [folder / FILE_HISTORIES_NAME for folder in folders]
    numbers = pl.List(pl.Int64)
    schema = pl.Schema(
        {"lineage": pl.String(), "born": pl.Int64(), "blobs": numbers, "since": numbers}
    )
    tables = [frames.read(file) for file in files if file.is_file()]
    return pl.concat([pl.DataFrame(schema=schema), *tables])


def blob_mark(blob: pl.Expr) -> pl.Expr:
    """Return the number that identifies a blob in histories; null if the value is not a blob id."""
    return blob.str.head(BLOB_DIGITS).str.to_integer(base=16, strict=False)
