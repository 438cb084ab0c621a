"""Parquet files as polars frames; paths are never globs, and folders never become columns.

polars compares no checksums, so a file of an artefact is compared with the published one first.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from curriculum.page_checksums import require_pages


def scan(files: Path | list[Path], columns: Sequence[str]) -> pl.LazyFrame:
    """Return a lazy scan of columns of one or several files, in row order.

    Raises:
        StoreError: naming the file whose columns were changed.
    """
    for file in [files] if isinstance(files, Path) else files:
        require_pages(file, columns)
    return pl.scan_parquet(files, glob=False, hive_partitioning=False).select(columns)


def read(file: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """Return the rows of a file.

    Raises:
        StoreError: naming the file, if it was changed.
    """
    require_pages(file, columns)
    return pl.read_parquet(file, columns=columns, glob=False, hive_partitioning=False)


def document_commit() -> pl.Expr:
    """Return an expression for a document's commit: that of its first source in `provenance`."""
    return pl.col("provenance").list.first().struct.field("commit")
