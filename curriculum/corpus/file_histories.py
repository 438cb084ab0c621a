"""Histories of files: when the log has each file first, and all versions that it ever had.

Documents alone can't tell an original from its copies: of a file that changes often only the newest versions
are read, and those of a copy that is seldom updated are older.
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
"""Hex digits of a blob's id that stand for it: they fit into 63 bits."""


class FileHistories:
    """Collects the histories of files while a log is walked; 16 bytes a version."""

    def __init__(self) -> None:
        self._born: dict[str, int] = {}
        self._versions: dict[str, tuple[array[int], array[int]]] = {}
        self._wanted: set[str] = set()

    def add(self, lineage: str, timestamp: int, blob: str) -> None:
        """Add a version of a file, in the order of the log; an empty id stands for no file."""
        self._born.setdefault(lineage, timestamp)
        if blob:
            blobs, since = self._versions.setdefault(lineage, (array("q"), array("q")))
            blobs.append(int(blob[:BLOB_DIGITS], 16))
            since.append(timestamp)

    def want(self, lineage: str) -> None:
        """Mark a file whose history is written."""
        self._wanted.add(lineage)

    def write(self, folder: Path) -> None:
        """Write the histories of wanted files, sorted by lineage."""
        names = sorted(self._wanted)
        firsts = [self._firsts(name) for name in names]
        columns = {
            "lineage": names,
            "born": [self._born[name] for name in names],
            "blobs": [list(each) for each in firsts],
            "since": [list(first.values()) for first in firsts],
        }
        table = pa.table(columns, schema=FILE_HISTORIES_SCHEMA)
        pq.write_table(table, folder / FILE_HISTORIES_NAME, compression="zstd")

    def _firsts(self, lineage: str) -> dict[int, int]:
        """Return when a file had each blob first, by its number, in order."""
        blobs, since = self._versions.get(lineage, ((), ()))
        # The first of several stays, since the last that is put in wins.
        firsts = dict(zip(reversed(blobs), reversed(since), strict=True))
        return dict(sorted(firsts.items()))


def read_histories(folders: Iterable[Path]) -> pl.DataFrame:
    """Return (lineage, born, blobs, since) of all folders of documents that have histories."""
    files = [folder / FILE_HISTORIES_NAME for folder in folders]
    numbers = pl.List(pl.Int64)
    schema = pl.Schema(
        {"lineage": pl.String(), "born": pl.Int64(), "blobs": numbers, "since": numbers}
    )
    tables = [frames.read(file) for file in files if file.is_file()]
    return pl.concat([pl.DataFrame(schema=schema), *tables])


def blob_mark(blob: pl.Expr) -> pl.Expr:
    """Return the number by which histories know a blob; null for what is no id."""
    return blob.str.head(BLOB_DIGITS).str.to_integer(base=16, strict=False)
