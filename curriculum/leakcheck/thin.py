"""Scored positions of a step, thinned to what a proof can afford: logits cost more than all else.

The ends of every document stay scored, where its neighbours would be seen.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from curriculum.leakcheck.rows import Document, Rows

SCORED = 2560
"""Positions of a step, nearly all in its first half: there the loss is taken in more than one chunk."""
FEW_SCORED = 768


def thinned(rows: Rows, rows_per_step: int, most: int) -> Rows:
    """The rows with `most` scored positions a step, or all ends of documents where those are more."""
    chance = np.random.default_rng(rows.row_length)
    steps = [rows.rows[at : at + rows_per_step] for at in range(0, len(rows.rows), rows_per_step)]
    return dataclasses.replace(
        rows, rows=tuple(row for step in steps for row in _thinned(step, most, chance))
    )


def _thinned(
    step: tuple[tuple[Document, ...], ...], most: int, chance: np.random.Generator
) -> Iterator[tuple[Document, ...]]:
    mask = np.concatenate([each.loss_mask for row in step for each in row])
    kept = np.concatenate([_ends(each) for row in step for each in row])
    half = sum(len(each.ids) for row in step[: (len(step) + 1) // 2] for each in row)
    left = max(most - int(kept.sum()), 0)
    for part, share in ((slice(0, half), 0.95), (slice(half, None), 0.05)):
        free = np.flatnonzero((mask[part] == 1) & (kept[part] == 0)) + (part.start or 0)
        count = min(int(left * share), len(free))
        kept[chance.choice(free, count, replace=False)] = 1
    at = 0
    for row in step:
        found = []
        for each in row:
            found.append(dataclasses.replace(each, loss_mask=kept[at : at + len(each.ids)]))
            at += len(each.ids)
        yield tuple(found)


def _ends(document: Document) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Its first three scored positions and the last."""
    kept = np.zeros_like(document.loss_mask)
    scored = np.flatnonzero(document.loss_mask)
    kept[scored[:3]] = 1
    kept[scored[-1:]] = 1
    return kept
