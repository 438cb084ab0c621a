"""Parquet files as polars frames, by their own names: no path is a pattern, and no folder a column."""

from pathlib import Path

import polars as pl


def scan(files: Path | list[Path]) -> pl.LazyFrame:
    """The rows of one or several files, in their order, read when they are collected."""
    return pl.scan_parquet(files, glob=False, hive_partitioning=False)


def read(file: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """The rows of a file."""
    return pl.read_parquet(file, columns=columns, glob=False, hive_partitioning=False)
