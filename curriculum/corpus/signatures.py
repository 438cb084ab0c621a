"""MinHash signatures of files: 125 slots of 16 bits.

The share of equal slots in two signatures estimates the share of common shingles. A signature is one row of
signatures.parquet, 250 bytes regardless of the file's size. A band is a group of slots. Two signatures are
candidates for a comparison if they have a band in common. The size of bands decides which similar files are
found:

- Bands of BAND_SLOTS slots find files with a Jaccard similarity of 0.7 in 99 of 100 cases, of 0.3 in 6.
- Bands of LARGE_BAND_SLOTS slots find files with a similarity of 0.3 in 99 of 100 cases, of 0.2 in 92, of
  0.03 in 5. They are used for large files, which are few.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import rensa

from curriculum import parquet
from curriculum.splitmix import mixed_words
from schemas.document import SIGNATURE_BYTES, SIGNATURES_SCHEMA

UInt64s = npt.NDArray[np.uint64]
Slots = npt.NDArray[np.uint16]
"""Slots of signatures, [signatures, slots]."""

SLOTS = 125
BAND_SLOTS, LARGE_BAND_SLOTS = 5, 2
SEED = 1
SIGNATURES_NAME = "signatures.parquet"
MAX_HASHES = 1 << 21
"""Number of shingles in a batch of signatures, 8 bytes each."""
ROWS_PER_GROUP = 1 << 16

assert SLOTS * 2 == SIGNATURE_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedVersion:
    """A version of a file that gets a signature, with its sorted shingles."""

    lineage: str
    document_id: str
    shingles: UInt64s


def minhash_version() -> str:
    """Return the version of the MinHash library's algorithm, which enters the keys of artefacts."""
    return str(rensa.RMinHash.ALGORITHM_VERSION)


def minhash(shingles: Iterable[UInt64s]) -> Slots:
    """Return the signatures of files, [files, SLOTS]; every file must have shingles.

    >>> one, other = np.arange(100, dtype=np.uint64), np.arange(20, 120, dtype=np.uint64)
    >>> slots = minhash([mixed_words(one), mixed_words(other)])
    >>> bool(0.5 < (slots[0] == slots[1]).mean() < 0.8)
    True
    """
    listed = list(shingles)
    offsets = np.zeros(len(listed) + 1, dtype=np.uint64)
    offsets[1:] = np.cumsum([len(hashes) for hashes in listed])
    digests = rensa.RMinHash.digest_matrix_from_flat_token_hashes(
        np.concatenate(listed), offsets, SLOTS, SEED
    )
    # The minimum of many hashes is a small number. After mixing, any 16 bits are uniform.
    words = mixed_words(np.array(digests.to_rows(), dtype=np.uint64))
    return (words & np.uint64(0xFFFF)).astype(np.uint16)


def band_keys(slots: Slots, band: int, *, size: int = BAND_SLOTS) -> UInt64s:
    """Return a hash of band number `band` in each signature, [signatures].

    A band has `size` slots, so there are SLOTS // size bands.
    """
    keys = np.zeros(len(slots), dtype=np.uint64)
    for at in range(band * size, (band + 1) * size):
        keys = mixed_words((keys << np.uint64(16)) ^ (keys >> np.uint64(48)) ^ slots[:, at])
    return keys


class SignatureWriter:
    """Writer of signatures, in the order in which versions are added.

    Versions without shingles are skipped.
    """

    def __init__(self, file: Path) -> None:
        self._writer = pq.ParquetWriter(
            file, SIGNATURES_SCHEMA, compression="zstd", write_page_checksum=True
        )
        self._waiting: list[SignedVersion] = []
        self._hashes = 0

    def add(self, version: SignedVersion) -> None:
        """Add the signature of a version."""
        if not len(version.shingles):
            return
        self._waiting.append(version)
        self._hashes += len(version.shingles)
        if self._hashes >= MAX_HASHES or len(self._waiting) == ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            slots = minhash(version.shingles for version in self._waiting)
            columns = {
                "lineage": [version.lineage for version in self._waiting],
                "document_id": [version.document_id for version in self._waiting],
                "shingles": [len(version.shingles) for version in self._waiting],
                "slots": [row.tobytes() for row in slots],
            }
            self._writer.write_table(pa.table(columns, schema=SIGNATURES_SCHEMA))
        self._waiting, self._hashes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()


def read_slots(file: Path, *, at_once: int = ROWS_PER_GROUP) -> Iterator[Slots]:
    """Yield the slots of all signatures of a file in batches."""
    with parquet.File(file) as signatures:
        for batch in signatures.iter_batches(batch_size=at_once, columns=["slots"]):
            column: Any = batch["slots"]
            data = np.frombuffer(column.buffers()[1], dtype=np.uint16)
            start = column.offset * SLOTS
            yield data[start : start + len(column) * SLOTS].reshape(len(column), SLOTS)
