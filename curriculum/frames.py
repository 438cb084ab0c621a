"""Parquet files as polars frames, by their own names: no path is a pattern, and no folder a column.

Each file is held against its bound before polars opens it.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from curriculum import parquet


def scan(files: Path | list[Path], columns: Sequence[str]) -> pl.LazyFrame:
    """Columns of one or several files, in the order of their rows, read when they are collected.

    Raises:
        StoreError: naming the file whose columns decode to more than a file may.
    """
    parquet.require([files] if isinstance(files, Path) else files, columns)
    return pl.scan_parquet(files, glob=False, hive_partitioning=False).select(columns)


def stream(files: Path | list[Path], columns: Sequence[str]) -> pl.LazyFrame:
    """Scan columns for queries that hold a few row groups at a time: each of them is bounded, not the file.

    Raises:
        StoreError: naming the file with a row group that decodes to more than one may.
    """
    parquet.require_groups([files] if isinstance(files, Path) else files, columns)
    return pl.scan_parquet(files, glob=False, hive_partitioning=False).select(columns)


def read(file: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """The rows of a file.

    Raises:
        StoreError: naming the file, where it decodes to more than it may.
    """
    parquet.require([file], columns)
    return pl.read_parquet(file, columns=columns, glob=False, hive_partitioning=False)
