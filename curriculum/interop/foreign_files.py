"""Reading of foreign Parquet files, with errors that name the file."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.interop.packed_columns import FOREIGN
from curriculum.interop.publish import CURE
from curriculum.packing.packed_rows import KNOWN
from curriculum.parquet_footers import longest_list
from schemas.errors import SchemaError
from schemas.packed_row import MAX_ROW_LENGTH

TYPES = {**KNOWN, **FOREIGN}
"""Columns that are read from foreign files, each with the type that it is read as."""
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Errors that Arrow raises for invalid files.

UnicodeDecodeError, for example, is raised for column names that aren't UTF-8.
"""


@contextlib.contextmanager
def opened(file: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for the `with` block; read errors in the block name the file.

    Raises:
        SchemaError: if the file can't be read.
    """
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as content:
            yield content
    except MemoryError:
        raise
    except UNREADABLE as unreadable:
        raise _broken(file, unreadable) from None


def batches(
    content: pq.ParquetFile, columns: Sequence[str], rows: int = 65_536
) -> Iterator[pa.RecordBatch]:
    """Yield `columns` in batches of at most `rows` rows; every value of a batch is validated.

    Raises:
        ArrowInvalid: if a text isn't UTF-8, or a list's offsets lie outside its values.
    """
    for batch in content.iter_batches(rows, columns=list(columns), use_threads=False):
        batch.validate(full=True)
        yield batch


def schema_of(file: Path) -> pa.Schema:
    """Return the schema of a file after checks that read only the file's footer.

    Raises:
        SchemaError: if the file can't be read, a column name occurs twice, or rows are too long.
    """
    try:
        footer = pq.read_metadata(file)
        schema: pa.Schema = footer.schema.to_arrow_schema()
        names = schema.names
    except UNREADABLE as unreadable:
        raise _broken(file, unreadable) from None
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise SchemaError(
            file.name,
            f"{twice!r} names several columns",
            cause="a column is found by its name, so which of them counts isn't known",
            cure=CURE,
        )
    _require_short_lists(file, footer)
    return schema


def _require_short_lists(file: Path, footer: pq.FileMetaData) -> None:
    longest = longest_list(footer, frozenset(TYPES))
    # If every document of a row has one token, the row has one more offset than tokens.
    if longest is not None and longest[1] > MAX_ROW_LENGTH + 1:
        raise SchemaError(
            file.name,
            f"a row has at least {longest[1]:,} values in {longest[0]}",
            cause=f"a row has at most {MAX_ROW_LENGTH:,} tokens",
            cure="Pack the documents, or import them as --format flat",
        )


def _broken(file: Path, unreadable: Exception) -> SchemaError:
    if isinstance(unreadable, PermissionError):
        return SchemaError(
            file.name,
            str(unreadable).splitlines()[0],
            cause="you may not read the file, or its owner replaced it by a link to another file",
            cure="Copy the file into a folder of yours, and import it from there",
        )
    return SchemaError(
        file.name,
        str(unreadable).splitlines()[0],
        cause="the file is damaged, or is not Parquet at all",
        cure="Copy it again, or leave it out",
    )
