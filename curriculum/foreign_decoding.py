"""Checks of foreign Parquet files: each file is decoded completely once in a sandbox, and then trusted.

A file of a few kilobytes can decode to gigabytes, have false metadata or crash its reader. The sandbox
limits memory and processor time. The decoded bytes are counted while the files are decoded: all files
together may decode to MAX_BYTES, or to RATIO times their own size if that is more.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curriculum.sandbox import Sandbox, code_paths
from curriculum.sandboxed_process import (
    SandboxedProcess,
    answer,
    enter_sandbox,
    fault_of,
    stored_bytes,
    usual_memory,
    usual_seconds,
)
from schemas.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MAX_BYTES = 1 << 30
"""Number of bytes that files may decode to, however small they are."""
RATIO = 100
"""Maximum number of decoded bytes per stored byte; rows of real text have about 30."""
_MIN_ROW_BYTES = 8
"""Minimum number of bytes that a row counts for, whatever its columns."""
_ROWS = 1 << 14
_OTHER_ROWS = "its row groups hold other rows than its columns read as a whole"
_MAX_FAULT = 500
"""Maximum number of characters to show of a reader's error."""


def decode_foreign(files: Sequence[Path], *, unsandboxed: bool = False) -> None:
    """Decode foreign Parquet files completely in a sandbox, and discard their contents.

    Raises:
        StoreError: naming the first file that can't be decoded, decodes to too many bytes, or takes too
        much memory or processor time; and for a kernel without sandbox.
    """
    if not files:
        return
    paths = [str(file.absolute()) for file in files]
    size = stored_bytes(files)
    sandbox = Sandbox(
        read=(*paths, *code_paths()), memory=usual_memory(size), cpu_seconds=usual_seconds(size)
    )
    request = {"files": paths, "max_bytes": max(MAX_BYTES, RATIO * size)}
    with SandboxedProcess(__name__, sandbox, request, unsandboxed=unsandboxed) as process:
        for file in files:
            found = process.next_answer()
            fault = process.end_reason() if found is None else found.get("fault")
            if fault is not None:
                raise StoreError(
                    str(file),
                    str(fault)[:_MAX_FAULT],
                    cause="its reader, which runs in a sandbox, couldn't decode the whole file",
                    cure="Ask its sender for another copy, or leave it out",
                )


def _serve() -> None:
    """Decode the files of a request, and answer with the fault of each."""
    request = enter_sandbox()
    room = int(request["max_bytes"])
    for file in request["files"]:
        try:
            room -= _decoded_bytes(file, room)
            fault = None
        except Exception as broken:
            fault = fault_of(broken)
        answer({"fault": fault})
        if fault is not None:
            return


def _decoded_bytes(file: str, room: int) -> int:
    """Return the number of bytes that a file decodes to.

    Raises:
        ValueError: for more than `room` bytes, for a number of rows that the footer doesn't confirm, and for
        row groups that hold other rows than a reader of the whole file gets.
    """
    import pyarrow.parquet as pq

    from curriculum.parquet_footers import min_decoded_bytes

    with pq.ParquetFile(file, page_checksum_verification=True) as opened:
        counted = opened.metadata.num_rows
        num_bytes, rows = counted * _MIN_ROW_BYTES, 0
        if min_decoded_bytes(opened.metadata) > room:
            num_bytes = room + 1
        batches = _same_rows(_batches(opened), _batches_by_group(opened))
        while num_bytes <= room and (batch := next(batches, None)) is not None:
            rows += len(batch)
            num_bytes += sum(_size(column) for column in batch.columns)
    if num_bytes > room:
        raise ValueError(f"it decodes to more than {room >> 20:,} MiB")
    if rows != counted:
        raise ValueError(f"its footer counts {counted:,} rows, but it has {rows:,}")
    return num_bytes


def _batches(opened: "pq.ParquetFile") -> Iterator["pa.RecordBatch"]:
    return opened.iter_batches(_ROWS, use_threads=False)


def _batches_by_group(opened: "pq.ParquetFile") -> Iterator["pa.RecordBatch"]:
    for group in range(opened.num_row_groups):
        yield from opened.iter_batches(_ROWS, row_groups=[group], use_threads=False)


def _same_rows(
    whole: Iterator["pa.RecordBatch"], by_group: Iterator["pa.RecordBatch"]
) -> Iterator["pa.RecordBatch"]:
    """Yield the batches of `whole`, and compare them with the rows of `by_group`.

    A reader of whole columns and a reader of row groups get different rows from a file whose column chunks
    hold more rows than their row groups count. A check that reads one way would miss what training reads the
    other way.

    Raises:
        ValueError: if both give different rows.
    """
    left = None
    for batch in whole:
        batch.validate(full=True)
        start = 0
        while start < len(batch):
            if left is None or not len(left):
                left = next(by_group, None)
                if left is None:
                    raise ValueError(_OTHER_ROWS)
                left.validate(full=True)
            count = min(len(left), len(batch) - start)
            if not _are_equal(batch.slice(start, count), left.slice(0, count)):
                raise ValueError(_OTHER_ROWS)
            start, left = start + count, left.slice(count)
        yield batch
    if left or any(map(len, by_group)):
        raise ValueError(_OTHER_ROWS)


def _are_equal(one: "pa.RecordBatch", other: "pa.RecordBatch") -> bool:
    # Arrow counts a NaN as unequal to itself.
    return one.equals(other) or repr(one.to_pylist()) == repr(other.to_pylist())


def _size(column: Any) -> int:
    """Return the size of an array in bytes; a value in a dictionary counts each time it is referred to."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return int(column.dictionary_decode().nbytes)
    if pa.types.is_struct(column.type):
        return sum(_size(part) for part in column.flatten()) + len(column)
    if pa.types.is_map(column.type):
        return _size(column.keys) + _size(column.items) + 8 * len(column)
    if pa.types.is_nested(column.type):
        return _size(column.flatten()) + 8 * len(column)
    return int(column.nbytes)


if __name__ == "__main__":
    _serve()
