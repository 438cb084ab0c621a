"""Side of the split of the text of a context document, chunk by chunk.

A context document has its target's side. A chunk around the target with a part of a file of the other side
has to go; a target that itself has such a part straddles the split.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curriculum.encode.documents import Bools, Int32s


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Split:
    """The sides that the selection decided."""

    val: npt.NDArray[np.bool_]
    """[documents]: whether each document of the artefact is in val."""
    val_lineages: frozenset[str]
    """The lineages in val; all others are in train."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Placed:
    """Parts of one document by the side of their source."""

    context: Int32s
    """[chunks, 2]: parts [first, after) of each chunk around the target."""
    other_side: Bools
    """[parts]: those of context chunks that hold text from the other side."""
    straddles: bool


def placed(chunks: Int32s, hops: Int32s, foreign: Bools) -> Placed:
    """The chunks around a target and what of them is `foreign` [parts], which is text of the other side.

    `chunks` [chunks, 2] are ranges of parts, `hops` [chunks] their distances, 0 for the target's own.

    >>> chunks = np.array([[0, 2], [2, 4], [4, 5]], dtype=np.int32)
    >>> hops = np.array([2, 1, 0], dtype=np.int32)
    >>> found = placed(chunks, hops, np.array([False, True, False, False, False]))
    >>> found.other_side.tolist(), found.straddles
    ([True, True, False, False, False], False)
    >>> placed(chunks, hops, np.array([False, False, False, False, True])).straddles
    True
    """
    context = chunks[hops > 0]
    before = np.concatenate(([0], np.cumsum(foreign)))
    touched = before[context[:, 1]] > before[context[:, 0]]
    return Placed(
        context=context,
        other_side=_painted(context[touched], len(foreign)),
        straddles=bool((foreign & ~_painted(context, len(foreign))).any()),
    )


def _painted(ranges: Int32s, count: int) -> Bools:
    """[count]: whether each part lies in one of the ranges; [[1 3]] of 4 -> [F T T F]."""
    steps = np.zeros(count + 1, dtype=np.int32)
    np.add.at(steps, ranges[:, 0], 1)
    np.add.at(steps, ranges[:, 1], -1)
    return np.cumsum(steps[:-1]) > 0
