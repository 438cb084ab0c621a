"""Files that have a near copy in another corpus.

Only signatures are compared, because the other corpus' documents may be deleted. The share of equal slots
estimates the Jaccard similarity with a standard deviation of 0.04.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import frames
from curriculum.corpus.copy_clusters import LARGE_SHINGLES, MIN_ACROSS, min_large_similarity
from curriculum.corpus.signatures import (
    BAND_SLOTS,
    LARGE_BAND_SLOTS,
    SIGNATURES_NAME,
    SLOTS,
    Slots,
    band_keys,
    read_slots,
)

Int64s = npt.NDArray[np.int64]

LEFT_OUT_FILES_NAME = "left_out_files.parquet"
OTHER_CORPUS = "other_corpus"
"""Reason for leaving out a file that another corpus has."""
SIGNATURES_AT_ONCE = 1 << 20
"""Number of own signatures in memory at a time; each needs 700 bytes, including the keys of its bands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherCorpus:
    """Another corpus whose files are left out of this one, and the folder of its selection."""

    name: str
    selection: Path


def find_in_other_corpora(signatures: Path, others: Sequence[OtherCorpus]) -> dict[str, str]:
    """Return the lineages that have a near copy in another corpus.

    Each lineage is mapped to its copy, as text `corpus repository:path`. A file of the other corpus doesn't
    count if that corpus left the file out because of a third corpus.
    """
    lineages, sizes = _listed(signatures)
    found: dict[str, str] = {}
    for other in others:
        file = other.selection / SIGNATURES_NAME
        names, sizes_there = _listed(file)
        left_out = frames.read(other.selection / LEFT_OUT_FILES_NAME).filter(reason=OTHER_CORPUS)
        is_held = ~names.is_in(left_out["lineage"].to_list()).to_numpy()
        start = 0
        for own in read_slots(signatures, at_once=SIGNATURES_AT_ONCE):
            match = _matches(own, file, is_held, lambda _, held: MIN_ACROSS, band_slots=BAND_SLOTS)
            own_sizes = sizes[start : start + len(own)]
            large = np.flatnonzero((own_sizes >= LARGE_SHINGLES) & (match < 0))
            match[large] = _matches(
                own[large],
                file,
                is_held & (sizes_there >= LARGE_SHINGLES),
                partial(_min_large_share, own_sizes[large], sizes_there),
                band_slots=LARGE_BAND_SLOTS,
            )
            for mine in np.flatnonzero(match >= 0):
                found.setdefault(
                    lineages[start + int(mine)], f"{other.name} {names[int(match[mine])]}"
                )
            start += len(own)
    return found


def _listed(signatures: Path) -> tuple[pl.Series, Int64s]:
    """Return the lineage and the number of shingles of each signature in a file."""
    listed = frames.read(signatures, ["lineage", "shingles"])
    return listed["lineage"], listed["shingles"].to_numpy().astype(np.int64)


def _min_large_share(
    sizes: Int64s, sizes_there: Int64s, mine: Int64s, held: int
) -> npt.NDArray[np.float64]:
    return min_large_similarity(sizes[mine], np.full(len(mine), sizes_there[held]))


MinShare = Callable[[Int64s, int], "float | npt.NDArray[np.float64]"]
"""Function that returns the minimum share of equal slots.

Its arguments are indices of own signatures, and the number of one signature of the other corpus.
"""


def _matches(
    own: Slots,
    file: Path,
    is_held: npt.NDArray[np.bool_],
    min_share: MinShare,
    *,
    band_slots: int,
) -> Int64s:
    """Return for each own signature the number of a signature in `file` that shares enough slots, or -1.

    The result is an array [own].
    """
    bands = range(SLOTS // band_slots)
    keys = [band_keys(own, band, size=band_slots) for band in bands]
    orders = [np.argsort(key, kind="stable") for key in keys]
    ordered = [key[order] for key, order in zip(keys, orders, strict=True)]
    match = np.full(len(own), -1, dtype=np.int64)
    start = 0
    for slots in read_slots(file):
        held = np.flatnonzero(is_held[start : start + len(slots)])
        distinct = held[np.unique(slots[held], axis=0, return_index=True)[1]]
        for band in bands:
            wanted = band_keys(slots[distinct], band, size=band_slots)
            low = np.searchsorted(ordered[band], wanted, "left")
            high = np.searchsorted(ordered[band], wanted, "right")
            for at in np.flatnonzero(high > low):
                mine = orders[band][low[at] : high[at]]
                mine = mine[match[mine] < 0]
                share = (own[mine] == slots[distinct[at]]).mean(axis=1)
                number = start + int(distinct[at])
                match[mine[share >= min_share(mine, number)]] = number
        start += len(slots)
    return match
