"""Comparison of Parquet page checksums, for readers that don't compare them."""

import contextlib
import functools
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from curriculum.parquet import File, has_checksums
from curriculum.published_files import Identity, damaged, identity_of, published_record
from schemas.errors import StoreError

_BATCH_ROWS = 64
"""Number of rows in memory at a time. It is small because texts can have megabytes, and dictionaries can
repeat them.
"""


def pages_fault(file: Path, skipped: Collection[str]) -> str | None:
    """Decode all columns of a file except `skipped`, and return the first fault, or None.

    Raises:
        LookupError: if the pages have no checksums.
    """
    with File(file) as opened:
        if opened.num_row_groups and not has_checksums(file, opened.metadata):
            raise LookupError("a page has no checksum")
        names = [name for name in opened.schema_arrow.names if name not in skipped]
        try:
            for _ in opened.iter_batches(_BATCH_ROWS, columns=names):
                pass
        except StoreError as damage:
            return str(damage.value)
        except pa.ArrowException as damage:
            return str(damage).splitlines()[0]
    return None


def require_pages(file: Path, columns: Collection[str] | None = None) -> None:
    """Raise unless the columns of an artefact's file, by default all, equal the published ones.

    Call this before a reader that doesn't compare checksums. A file without page checksums is compared as a
    whole.

    Raises:
        StoreError: naming the file.
    """
    if published_record(file) is not None:
        names = None if columns is None else frozenset(columns)
        _compare_pages(file, identity_of(file.stat()), names)


@functools.lru_cache(maxsize=4096)
def _compare_pages(file: Path, _: Identity, columns: frozenset[str] | None) -> None:
    with contextlib.suppress(LookupError), File(file) as opened:
        names = {*opened.schema_arrow.names}
        if fault := pages_fault(file, names - (names if columns is None else columns)):
            raise damaged(file, fault)
