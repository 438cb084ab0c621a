"""Rows generated from seeds: packed rows, and padded rows with one document each."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from curriculum.train.batch import Batch, Row, collate

SIGMA = 1.0
"""Standard deviation of the logarithm of document lengths."""
MIN_ID, PAD_ID = 3, 0


def packed(rows: int, length: int, mean: int | None, *, vocab: int, seed: int = 0) -> Batch:
    """Return a batch of full rows with documents of `mean` tokens on average.

    If `mean` is None, one document fills each row.
    """
    lengths = (
        [length] if mean is None else lengths_of(length, mean, [seed, number])
        for number in range(rows)
    )
    return collate(
        [
            row_of(row_lengths, length, vocab, [seed, number])
            for number, row_lengths in enumerate(lengths)
        ]
    )


def unpacked(batch: Batch, *, vocab: int) -> Batch:
    """Return padded rows of the same shape as `batch`, with one document each.

    Every document is as long as the documents of `batch` on average. The padding is a separate segment: no
    document attends to it, and its targets are not scored.
    """
    rows, length = batch.input_ids.shape
    mean = batch.positions // len(batch.boundaries.lengths)
    return collate([row_of([mean], length, vocab, [mean, number]) for number in range(rows)])


def lengths_of(total: int, mean: int, seed: Sequence[int]) -> list[int]:
    """Return log-normal lengths whose sum is `total`; the last length is cut to fit."""
    generator = np.random.default_rng([total, mean, *seed])
    lengths: list[int] = []
    while (left := total - sum(lengths)) > 0:
        sampled = int(generator.lognormal(math.log(mean) - SIGMA**2 / 2, SIGMA))
        lengths.append(min(max(sampled, 2), left))
    return lengths


def row_of(lengths: Sequence[int], row_length: int, vocab: int, seed: Sequence[int]) -> Row:
    """Return a row of documents of these lengths and padding; all predictions within documents are scored."""
    valid = sum(lengths)
    padding = row_length - valid
    ids = np.random.default_rng([row_length, *seed]).integers(
        MIN_ID, vocab, row_length, dtype=np.int32
    )
    ids[valid:] = PAD_ID
    segments = [*lengths, padding] if padding else [*lengths]
    doc_ids = np.repeat(np.arange(len(segments), dtype=np.int32), segments)
    scored: npt.NDArray[np.bool_] = np.append(doc_ids[1:] == doc_ids[:-1], False)
    scored[valid:] = False
    return Row(
        pack_id=f"generated-{'-'.join(map(str, seed))}",
        input_ids=ids,
        target_ids=np.where(scored, np.append(ids[1:], 0), 0).astype(np.int32),
        loss_mask=scored.astype(np.uint8),
        doc_ids=doc_ids,
        valid_token_count=valid,
        attention_pairs=sum(tokens * (tokens + 1) // 2 for tokens in lengths),
        document_ids=(),
    )
