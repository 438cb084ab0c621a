"""Confidence intervals over documents for the mean difference between two arms.

A bootstrap over lineages gives the interval. It shows whether the difference depends on a few files. It
doesn't replace the interval over seeds: only seeds show whether another training would give the same
difference.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curriculum.inspection.paired import Measured
from curriculum.train.document_sums import DocumentSums
from schemas.objectives import FixedSet

DRAWS = 1000
_SEED = 17
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentInterval:
    """95 % confidence interval from a bootstrap over lineages, with the numbers of documents and lineages."""

    low: float
    high: float
    documents: int
    lineages: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stratum:
    """Sums over the documents of one stratum, as arrays [seeds, 2 arms, lineages].

    The claim's arm comes first.
    """

    weight: float
    nats: Floats
    num_bytes: Floats


def document_interval(
    pairs: Sequence[tuple[Measured, Measured]], name: FixedSet
) -> DocumentInterval:
    """Compute the interval of the difference between two arms in bits per byte, averaged over seeds.

    `pairs` has the documents of both arms for each seed. Only documents that all of them share count.
    """
    rows: dict[str, int] = {}
    strata, documents = [], set[str]()
    for place in sorted(pairs[0][0].strata):
        if place[0] != name:
            continue
        sides = [side.strata.get(place) for pair in pairs for side in pair]
        there = [side for side in sides if side is not None]
        common = set(there[0].document_ids).intersection(*(side.document_ids for side in there))
        if len(there) < len(sides) or not common:
            continue
        documents |= common
        kept = [side.select(common) for side in there]
        for lineage in kept[0].lineages:
            rows.setdefault(lineage, len(rows))
        strata.append((pairs[0][0].weights[place], kept))
    assert strata, f"no documents of {name} in common"
    shaped = [_stratum(weight, kept, rows) for weight, kept in strata]
    found = _resampled(shaped, len(rows))
    low, high = np.quantile(found, (0.025, 0.975)).tolist()
    return DocumentInterval(low=low, high=high, documents=len(documents), lineages=len(rows))


def _stratum(weight: float, kept: Sequence[DocumentSums], rows: dict[str, int]) -> _Stratum:
    shape = (len(kept) // 2, 2, len(rows))
    at = np.array([rows[lineage] for lineage in kept[0].lineages])
    nats, sizes = np.zeros((2, len(kept), len(rows)))
    for number, side in enumerate(kept):
        nats[number] = np.bincount(at, side.nats, minlength=len(rows))
        sizes[number] = np.bincount(at, side.num_bytes, minlength=len(rows))
    return _Stratum(weight=weight, nats=nats.reshape(shape), num_bytes=sizes.reshape(shape))


def _resampled(strata: Sequence[_Stratum], lineages: int) -> Floats:
    """Compute the difference between both arms for each draw of lineages; returns an array [draws].

    A stratum counts in a draw only if at least one of its lineages was drawn.
    """
    random = np.random.default_rng(_SEED)
    drawn = random.multinomial(lineages, np.full(lineages, 1 / lineages), size=DRAWS)
    total, weights = np.zeros(DRAWS), np.zeros(DRAWS)
    for stratum in strata:
        sizes = stratum.num_bytes @ drawn.T
        is_there = (sizes > 0).all(axis=(0, 1))
        bits = stratum.nats @ drawn.T / math.log(2) / np.where(is_there, sizes, 1)
        total += np.where(is_there, stratum.weight * (bits[:, 0] - bits[:, 1]).mean(axis=0), 0)
        weights += stratum.weight * is_there
    found: Floats = total[weights > 0] / weights[weights > 0]
    return found
