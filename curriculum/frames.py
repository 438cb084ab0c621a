"""Parquet files as polars frames, by their own names: no path is a pattern, and no folder a column.

A file of an artefact is compared with the published one before polars, which compares no checksums, opens it.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from curriculum.page_checksums import require_pages


def scan(files: Path | list[Path], columns: Sequence[str]) -> pl.LazyFrame:
    """Scan columns of one or several files, in the order of their rows, read when they are collected.

    Raises:
        StoreError: naming the file whose columns were changed.
    """
    for file in [files] if isinstance(files, Path) else files:
        require_pages(file, columns)
    return pl.scan_parquet(files, glob=False, hive_partitioning=False).select(columns)


def read(file: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """Read the rows of a file.

    Raises:
        StoreError: naming the file, where it was changed.
    """
    require_pages(file, columns)
    return pl.read_parquet(file, columns=columns, glob=False, hive_partitioning=False)


def document_commit() -> pl.Expr:
    """Return the commit of a document, that of its first source, of the column `provenance`."""
    return pl.col("provenance").list.first().struct.field("commit")
