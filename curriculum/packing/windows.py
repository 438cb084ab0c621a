"""Windows of scored positions as 64-bit hashes, to count the training targets that are distinct.

    windows.pq   next to the shards of rows

The union of several such sets (of rows, shards, servings, objectives or phases) contains their distinct
hashes, which can be counted. Speed: about 10 Mtok/s per core; sorting takes most of the time.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.packing.boundaries import RowLayout
from curriculum.packing.packed_rows import RowBatch
from curriculum.packing.read import read_rows
from curriculum.splitmix import mixed_words
from schemas.reports import WindowsReport
from schemas.windows import (
    MAX_SAMPLED,
    WINDOW_SEED,
    WINDOW_TOKENS,
    WINDOWS_NAME,
    WINDOWS_SCHEMA,
)

Ids = npt.NDArray[np.integer[Any]]
Int64s = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_FACTOR, _WORD = 0xD6E8FEB86659FD93, (1 << 64) - 1
_COLUMNS = ("pack_id", "input_ids", "loss_mask", "doc_starts", "valid_token_count")


def write_windows(folder: Path, scored: int) -> WindowsReport:
    """Write the window hashes of all rows in a folder to windows.pq in this folder.

    Args:
        folder: folder of the shards.
        scored: number of scored positions of all rows, which determines the sampling threshold.
    """
    halvings = halvings_of(scored)
    sampled: list[Hashes] = [np.empty(0, dtype=np.uint64)]
    with pq.ParquetWriter(
        folder / WINDOWS_NAME, WINDOWS_SCHEMA, compression="zstd", write_page_checksum=True
    ) as writer:
        for batch in read_rows(parquet.shards_of(folder), _COLUMNS):
            rows, hashes = _sampled(batch, halvings)
            sampled.append(hashes)
            columns = {
                "pack_id": batch.table["pack_id"].take(rows),
                "hash": hashes,
                "halvings": np.full(len(rows), halvings, dtype=np.int32),
            }
            writer.write_table(pa.table(columns, schema=WINDOWS_SCHEMA))
    kept = len(np.unique(np.concatenate(sampled)))
    return WindowsReport(scored=scored, halvings=halvings, kept=kept)


def halvings_of(scored: int) -> int:
    """Return how often the threshold is halved so that at most MAX_SAMPLED windows are to be expected.

    >>> halvings_of(1_000_000), halvings_of(1_000_001), halvings_of(9_000_000)
    (0, 1, 4)
    """
    return max(0, (scored - 1) // MAX_SAMPLED).bit_length()


def window_hashes(ids: Ids, starts: Int64s, *, width: int = WINDOW_TOKENS) -> Hashes:
    """Return a hash of the window of `width` tokens that ends at each token, [n].

    Equal windows have equal hashes; two different windows share a hash with a probability of about 2^-64.

    Args:
        ids: tokens of all documents.
        starts: first token of each document, beginning with 0. A window doesn't reach into the document
            before.
        width: number of tokens of a window, a power of two.

    >>> hashes = window_hashes(np.array([5, 6, 5, 6, 5]), np.array([0, 3]), width=2)
    >>> (hashes[:, None] == hashes).sum(axis=1).tolist()  # [. 5] [5 6] [6 5] | [. 6] [6 5]
    [1, 1, 2, 1, 2]
    """
    age = np.arange(len(ids)) - _start_of(len(ids), starts)
    hashes = mixed_words(ids.astype(np.uint64) + np.uint64(1) ^ np.uint64(WINDOW_SEED))
    before = int(mixed_words(np.array([WINDOW_SEED], dtype=np.uint64))[0])
    factor, joined = _FACTOR, 1
    while joined < width:
        shifted = np.full(len(ids), before, dtype=np.uint64)
        inside = age >= joined
        shifted[inside] = hashes[np.flatnonzero(inside) - joined]
        hashes = hashes + shifted * np.uint64(factor)
        before = before * (factor + 1) & _WORD
        factor, joined = factor * factor & _WORD, joined * 2
    return mixed_words(hashes)


def _sampled(batch: RowBatch, halvings: int) -> tuple[Int64s, Hashes]:
    """Return those distinct window hashes of each row that are below the threshold, with their rows.

    They are sorted by row, then by hash.
    """
    starts, edges = batch.doc_starts(batch.valid_counts())
    layout = RowLayout.from_starts(
        starts, np.diff(edges), batch.valid_counts(), batch.row_format.row_length
    )
    # The last token of a row predicts nothing, so the target of a scored position is always the next token.
    scored = np.flatnonzero(batch.loss_mask.reshape(-1))
    hashes = window_hashes(batch.input_ids.reshape(-1), layout.flat_start)[scored + 1]
    rows = scored // batch.row_format.row_length
    if halvings:
        below = hashes >> np.uint64(64 - halvings) == 0
        rows, hashes = rows[below], hashes[below]
    order = np.lexsort((hashes, rows))
    rows, hashes = rows[order], hashes[order]
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (hashes[1:] != hashes[:-1])
    return rows[first], hashes[first]


def _start_of(count: int, starts: Int64s) -> Int64s:
    """Return the first token of the document to which each token belongs, [n].

    Documents that start at 0 and 2 of 3 tokens give [0 0 2].
    """
    first = np.zeros(count, dtype=np.int64)
    first[starts] = starts
    return np.maximum.accumulate(first)
