"""Limits of an import: values that a Parquet file may hold, and memory that reading it may take.

A megabyte of Parquet may decode to any number of gigabytes. Footers are held against the length of rows
before anything is decoded; a page that says other than its footer runs into the limit of memory.
"""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from curriculum.interop.decoded_rows import WIDE
from schemas.errors import SchemaError

LEAST_ROOM = 4 << 30
"""Bytes that an import may take on any machine; on larger ones half of their memory."""
MOST_VALUES = 16
"""Values of a column that has no value a token, as pieces and edges, for each token of a row."""
_STATUS = Path("/proc/self/status")


@contextlib.contextmanager
def bounded_memory(path: Path) -> Iterator[None]:
    """Let what is read from `path` take some gigabytes, whatever it says of itself.

    Raises:
        SchemaError: where it asks for more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    room = _memory_limit()
    limits = [_held() + room, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    except MemoryError:
        raise SchemaError(
            str(path),
            f"more than {room / 1e9:.0f} GB of memory",
            cause="a few of its rows decode to more than an import may take",
            cure="Write it anew with rows of one length and row groups of some MB",
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def require_room(file: Path, content: pq.ParquetFile, row_length: int) -> None:
    """Refuse a file whose footer promises more values than rows of a length have.

    Raises:
        SchemaError: naming the column.
    """
    for number in range(content.metadata.num_row_groups):
        group = content.metadata.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            name = column.path_in_schema.partition(".")[0]
            most = group.num_rows * row_length * (1 if name in WIDE else MOST_VALUES)
            if column.num_values > most:
                raise SchemaError(
                    file.name,
                    f"{column.num_values:,} values of {name} in {group.num_rows:,} rows",
                    cause=f"rows of {row_length:,} tokens have at most {most:,}",
                    cure="Write rows of one length, or leave the column out",
                )


def _memory_limit() -> int:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(LEAST_ROOM, machine // 2)


def _held() -> int:
    """Bytes of private memory of this process, as the kernel counts them; 0 where it doesn't say."""
    lines = _STATUS.read_text().splitlines() if _STATUS.is_file() else []
    found = (line.split() for line in lines if line.startswith("VmData:"))
    return next((int(words[1]) << 10 for words in found), 0)
