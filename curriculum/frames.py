"""Parquet files as polars frames; `*` in paths is literal, and names of folders never become columns.

polars doesn't compare checksums, so a file of an artefact is first compared with the published one.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from curriculum.page_checksums import require_pages


def scan(files: Path | list[Path], columns: Sequence[str]) -> pl.LazyFrame:
    """Return a lazy scan of `columns` of one or several files, in row order.

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
    """Return an expression for the commit of a document: the commit of its first source in `provenance`."""
    return pl.col("provenance").list.first().struct.field("commit")
