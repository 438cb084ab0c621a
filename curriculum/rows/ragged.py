"""A column of variable-length entries on disk: values end to end in one file, byte offsets in another."""

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Values = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]


class RaggedWriter:
    """Appends entries; memory doesn't grow with them."""

    def __init__(self, path: Path) -> None:
        self._values: BinaryIO = path.with_suffix(".values").open("wb")
        self._offsets: BinaryIO = path.with_suffix(".offsets").open("wb")
        self._end = 0
        np.zeros(1, dtype=np.int64).tofile(self._offsets)

    def append(self, values: Values, counts: Int64s) -> None:
        """Add entries of `counts` items, laid end to end along the first axis of `values`."""
        assert int(counts.sum()) == len(values), "counts and values of one batch belong together"
        np.ascontiguousarray(values).tofile(self._values)
        item_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:]))
        ends = self._end + np.cumsum(counts) * item_bytes
        ends.astype(np.int64).tofile(self._offsets)
        self._end += len(values) * item_bytes

    def close(self) -> None:
        """Everything that was added is in the files."""
        self._values.close()
        self._offsets.close()


class Ragged:
    """Reads entries by number; the files are mapped, not loaded."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int = 1) -> None:
        self._values = mapped(path.with_suffix(".values"), np.uint8)
        self._offsets = mapped(path.with_suffix(".offsets"), np.int64)
        self._dtype = np.dtype(dtype)
        self._width = width

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def counts(self, entries: Int64s | slice = slice(None)) -> Int64s:
        """Items of the given entries, or of all."""
        item_bytes = self._dtype.itemsize * self._width
        if isinstance(entries, slice):
            return np.diff(self._offsets) // item_bytes
        counts: Int64s = (self._offsets[entries + 1] - self._offsets[entries]) // item_bytes
        return counts

    def take(self, entries: Int64s) -> Values:
        """The items of the given entries end to end, [sum] or [sum, width]: one memcpy an entry.

        Entries [[7 8] [9]], taken in the order 1 0, are [9 7 8].
        """
        # Arrow copies a binary entry as a block, where numpy would index item by item.
        everything = pa.Array.from_buffers(
            pa.large_binary(),
            len(self),
            [None, as_buffer(self._offsets), as_buffer(self._values)],
        )
        data = everything.take(entries).buffers()[2]
        flat = np.frombuffer(memoryview(data) if data else b"", dtype=self._dtype)
        return flat if self._width == 1 else flat.reshape(-1, self._width)


def mapped(path: Path, dtype: npt.DTypeLike) -> Values:
    """A file as an array that the kernel pages in; an empty file, which can't be mapped, is empty."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


def as_buffer(array: Values) -> pa.Buffer:
    """An array's bytes as Arrow sees them, without a copy."""
    return pa.py_buffer(array.data)
