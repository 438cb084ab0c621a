"""Births of files: when a history has each file first, to tell an original from its copies.

Documents alone can't tell: of a file that changes often only the newest versions are read, and those of a
copy that is seldom updated are older.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import frames
from schemas.change import FileChange
from schemas.document import BIRTHS_SCHEMA

BIRTHS_NAME = "births.parquet"


def noting_births(
    changes: Iterable[FileChange], births: MutableMapping[str, int]
) -> Iterator[FileChange]:
    """Yield changes as they are, and note in `births` when the lineage of each began."""
    for change in changes:
        if change.born is not None:
            births[change.lineage] = change.born
        yield change


def write_births(births: Mapping[str, int], folder: Path) -> None:
    """Write births into a folder of documents, sorted by lineage."""
    names = sorted(births)
    columns = {"lineage": names, "born": [births[name] for name in names]}
    table = pa.table(columns, schema=BIRTHS_SCHEMA)
    pq.write_table(table, folder / BIRTHS_NAME, compression="zstd")


def read_births(folders: Iterable[Path]) -> pl.DataFrame:
    """Return (lineage, born) of all folders of documents that have births."""
    files = [folder / BIRTHS_NAME for folder in folders]
    tables = [frames.read(file) for file in files if file.is_file()]
    none = pl.DataFrame(schema={"lineage": pl.String, "born": pl.Int64})
    return pl.concat([none, *tables])
