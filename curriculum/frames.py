"""Parquet files as polars frames, by their own names: no path is a pattern, and no folder a column.

Each file is compared with its bound, and one of an artefact with the published one, before polars, which
compares no checksums, opens it.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from curriculum import parquet
from curriculum.page_checksums import require_pages


def scan(files: Path | list[Path], columns: Sequence[str]) -> pl.LazyFrame:
    """Columns of one or several files, in the order of their rows, read when they are collected.

    Raises:
        StoreError: naming the file whose columns decode to more than a file may, or were changed.
    """
    listed = [files] if isinstance(files, Path) else files
    parquet.require(listed, columns)
    _require_pages(listed, columns)
    return pl.scan_parquet(files, glob=False, hive_partitioning=False).select(columns)


def stream(files: Path | list[Path], columns: Sequence[str]) -> pl.LazyFrame:
    """Scan columns for queries that hold a few row groups at a time: each of them is bounded, not the file.

    Raises:
        StoreError: naming the file with a row group that decodes to more than one may, or that was changed.
    """
    listed = [files] if isinstance(files, Path) else files
    parquet.require_groups(listed, columns)
    _require_pages(listed, columns)
    return pl.scan_parquet(files, glob=False, hive_partitioning=False).select(columns)


def read(file: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """The rows of a file.

    Raises:
        StoreError: naming the file, where it decodes to more than it may, or was changed.
    """
    parquet.require([file], columns)
    _require_pages([file], columns)
    return pl.read_parquet(file, columns=columns, glob=False, hive_partitioning=False)


def _require_pages(files: Sequence[Path], columns: Sequence[str] | None) -> None:
    for file in files:
        require_pages(file, columns)
