"""Seeded rows: packed with documents, and the same documents one a row."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from curriculum.train.batch import Batch, Row, collate

SIGMA = 1.0
"""The standard deviation of the logarithm of documents' lengths."""
MIN_ID, PAD_ID = 3, 0


def packed(rows: int, length: int, mean: int | None, *, vocab: int, seed: int = 0) -> Batch:
    """A batch of full rows of documents of `mean` tokens; None for one document a row."""
    lengths = (
        [length] if mean is None else lengths_of(length, mean, [seed, number])
        for number in range(rows)
    )
    return collate(
        [row_of(each, length, vocab, [seed, number]) for number, each in enumerate(lengths)]
    )


def unpacked(batch: Batch, *, vocab: int) -> Batch:
    """The way without packing: rows of the same shape with one document each, the rest padding.

    Each document has the mean length of those of `batch`. Padding is a segment of its own that no
    position outside attends to, and no target in it is scored.
    """
    rows, length = batch.input_ids.shape
    mean = batch.positions // len(batch.boundaries.lengths)
    return collate([row_of([mean], length, vocab, [mean, number]) for number in range(rows)])


def lengths_of(total: int, mean: int, seed: Sequence[int]) -> list[int]:
    """Log-normal lengths that fill a row; the last document is cut."""
    generator = np.random.default_rng([total, mean, *seed])
    lengths: list[int] = []
    while (left := total - sum(lengths)) > 0:
        drawn = int(generator.lognormal(math.log(mean) - SIGMA**2 / 2, SIGMA))
        lengths.append(min(max(drawn, 2), left))
    return lengths


def row_of(lengths: Sequence[int], row_length: int, vocab: int, seed: Sequence[int]) -> Row:
    """A row of documents of these lengths and padding, all predictions within documents scored."""
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
        pack_id=f"made-{'-'.join(map(str, seed))}",
        input_ids=ids,
        target_ids=np.where(scored, np.append(ids[1:], 0), 0).astype(np.int32),
        loss_mask=scored.astype(np.uint8),
        doc_ids=doc_ids,
        valid_token_count=valid,
        attention_pairs=sum(each * (each + 1) // 2 for each in lengths),
        document_ids=(),
    )
