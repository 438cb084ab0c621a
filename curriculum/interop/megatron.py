"""Megatron-LM's index of a .bin of token ids: which are one sequence, which sequences one document.

    9 bytes   MMIDIDX, two zeros        8  version, 1        1  code of the dtype
    8         sequences                 8  document indices, one more than documents
    int32     tokens of each sequence   int64  where each begins, in bytes   int64  document indices

All little-endian. We write a sequence a document; sequences of others are joined to their documents.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from schemas.errors import SchemaError

Int64s = npt.NDArray[np.int64]
MAGIC, VERSION = b"MMIDIDX\x00\x00", 1
HEADER = struct.Struct("<9sQBQQ")
CODES: dict[int, str] = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
"""Codes of whole numbers."""
SMALL_VOCABULARY = 65_500
"""Below it Megatron stores uint16, from it on int32."""
DOCUMENTS_AT_ONCE = 1 << 20
"""Documents."""


def dtype_of(vocab_size: int) -> str:
    """The dtype that Megatron stores ids of a vocabulary in."""
    return "uint16" if vocab_size < SMALL_VOCABULARY else "int32"


def write_index(file: Path, edges: Int64s, dtype: str) -> None:
    """Write the index of documents that lie end to end; memory is flat where `edges` is mapped.

    Edges [0 3 5] of uint16 -> lengths [3 2], pointers [0 6], document indices [0 1 2].
    """
    documents, size = len(edges) - 1, np.dtype(dtype).itemsize
    code = next(code for code, name in CODES.items() if name == dtype)
    with file.open("wb") as index:
        index.write(HEADER.pack(MAGIC, VERSION, code, documents, documents + 1))
        for part in _parts(documents):
            np.diff(edges[part.start : part.stop + 1]).astype("<i4").tofile(index)
        for part in _parts(documents):
            (edges[part.start : part.stop] * size).astype("<i8").tofile(index)
        for part in _parts(documents + 1):
            np.arange(part.start, part.stop, dtype="<i8").tofile(index)


def read_index(file: Path) -> tuple[Int64s, str]:
    """Edges of the documents in tokens, and the dtype of the ids; 16 bytes a sequence.

    Raises:
        SchemaError: for a file that isn't an index, is cut off, or whose sequences don't lie end to end.
    """
    with file.open("rb") as index:
        sequences, indices, dtype = _header(file, index)
        lengths = _read(file, index, "<i4", sequences).astype(np.int64)
        pointers = _read(file, index, "<i8", sequences)
        documents = _read(file, index, "<i8", indices)
    edges = np.concatenate([[0], np.cumsum(lengths)])
    if (lengths < 0).any() or not np.array_equal(edges[:-1] * np.dtype(dtype).itemsize, pointers):
        raise SchemaError(
            file.name,
            cause="its sequences don't lie end to end in the .bin",
            cure="Write both anew with Megatron's IndexedDatasetBuilder",
        )
    ends = len(edges) - 1
    whole = len(documents) and documents[0] == 0 and documents[-1] == ends
    # Their differences might overflow.
    if not whole or (documents[1:] < documents[:-1]).any():
        raise SchemaError(
            file.name,
            f"document indices {_shown(documents)} over {ends:,} sequences",
            cause="they begin with 0, rise, and end with the last sequence",
            cure="Write it anew: the last document was never ended",
        )
    return edges[documents], dtype


def _header(file: Path, index: BinaryIO) -> tuple[int, int, str]:
    found = index.read(HEADER.size)
    if len(found) < HEADER.size or not found.startswith(MAGIC):
        raise SchemaError(
            file.name,
            found[: len(MAGIC)],
            cause="an index begins with MMIDIDX",
            cure="Give the .idx that lies beside the .bin",
        )
    _, version, code, sequences, indices = HEADER.unpack(found)
    if version != VERSION:
        raise SchemaError(
            file.name, f"version {version}", cause="only version 1 is known", cure="Write it anew"
        )
    if code not in CODES:
        raise SchemaError(
            file.name,
            f"dtype code {code}",
            cause="token ids are whole numbers: codes 1 to 5, and 8",
            cure="Give an index of tokens",
        )
    return sequences, indices, CODES[code]


def _read(file: Path, index: BinaryIO, kind: str, count: int) -> npt.NDArray[np.int64]:
    room = file.stat().st_size - index.tell()
    if count * np.dtype(kind).itemsize > room:
        raise SchemaError(
            file.name,
            f"{room:,} bytes where {count:,} numbers should be",
            cause="the index is cut off",
            cure="Copy it again",
        )
    values: npt.NDArray[np.int64] = np.fromfile(index, dtype=kind, count=count)
    return values


def _parts(count: int) -> Iterator[range]:
    return (
        range(first, min(first + DOCUMENTS_AT_ONCE, count))
        for first in range(0, count, DOCUMENTS_AT_ONCE)
    )


def _shown(numbers: Int64s) -> str:
    return f"{numbers[0]} … {numbers[-1]}" if len(numbers) else "none"
