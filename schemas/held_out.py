"""Rows that measure, in the order in which they do (held_out.json), and what a figure of them is worth."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from schemas.text import Strict

MIN_DOCUMENTS, MIN_LINEAGES = 8, 4
"""Effective documents and lineages below which val_bpb is too few to tell: one file decides it."""
MAX_UNKNOWN = 1 / 3
"""Share of the weight that strata of one lineage may hold: how much such a stratum varies can't be known."""


class HeldOutRow(Strict):
    """A row with its documents and their lineages, in the order of the row."""

    row: int
    """Number over all files of the artefact."""
    domain: str
    documents: tuple[str, ...]
    lineages: tuple[str, ...]


class HeldOutRows(Strict):
    """The rows of each domain that are measured, the first before the others."""

    rows: tuple[HeldOutRow, ...]


class HeldOutCount(Strict):
    """Documents and lineages that a figure is measured on, and how many of one stratum they are worth."""

    documents: int
    lineages: int
    """Lineages of these documents: files through renames."""
    effective_documents: float
    """Documents of a single stratum that would tell as much, by their weights; see `held_out_count`."""
    effective_lineages: float

    @property
    def is_sure(self) -> bool:
        """True where the figure is of documents and lineages enough; else one file decides it."""
        # What weighs the same comes to a whole number but for rounding.
        documents, lineages = (
            round(each, 6) for each in (self.effective_documents, self.effective_lineages)
        )
        return documents >= MIN_DOCUMENTS and lineages >= MIN_LINEAGES


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedStratum:
    """The held-out documents of a stratum and their lineages, each once, and its weight in a mean."""

    weight: float
    documents: Collection[str]
    lineages: Collection[str]


def held_out_count(strata: Sequence[WeightedStratum]) -> HeldOutCount:
    """Count the documents and lineages of a weighted mean over strata, and what they are worth.

    Documents share the weight of their stratum equally, and so do lineages. Effective numbers are Kish's
    effective sample size. Effective lineages are at most Satterthwaite's degrees of freedom plus one, and
    at most one where strata of one lineage hold more than MAX_UNKNOWN of the weight.

    Sources: L. Kish, Survey Sampling (1965), 11.7; W. G. Cochran, Sampling Techniques (1977), 5.4.
    """
    documents: dict[str, float] = defaultdict(float)
    lineages: dict[str, float] = defaultdict(float)
    for stratum in strata:
        for shares, names in ((documents, stratum.documents), (lineages, stratum.lineages)):
            for name in names:
                shares[name] += stratum.weight / len(names)
    total = math.fsum(stratum.weight for stratum in strata)
    unknown = math.fsum(stratum.weight for stratum in strata if len(stratum.lineages) < 2)
    effective = min(effective_number(lineages.values()), 1 + _freedom(strata))
    return HeldOutCount(
        documents=len(documents),
        lineages=len(lineages),
        effective_documents=effective_number(documents.values()),
        effective_lineages=min(effective, 1.0) if unknown > MAX_UNKNOWN * total else effective,
    )


def effective_number(weights: Iterable[float]) -> float:
    """Return (Σ w)² / Σ w²: Kish's effective sample size of so weighted units; 0 without any.

    >>> effective_number([1, 1, 1, 1]), round(effective_number([0.7, 0.1, 0.1, 0.1]), 2)
    (4.0, 1.92)
    """
    listed = [*weights]
    squares = math.fsum(weight**2 for weight in listed)
    return math.fsum(listed) ** 2 / squares if squares else 0.0


def _freedom(strata: Sequence[WeightedStratum]) -> float:
    """Satterthwaite's degrees of freedom of a mean of strata whose lineages all vary by as much."""
    counted = [(stratum.weight, len(stratum.lineages)) for stratum in strata if stratum.lineages]
    return satterthwaite(
        [weight**2 / count for weight, count in counted],
        [max(count - 1, 1) for _, count in counted],
    )


def satterthwaite(variances: Sequence[float], freedom: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of estimated variances that have `freedom`; 0 of none.

    >>> satterthwaite([2.0, 2.0], [3, 3])
    6.0
    """
    squares = math.fsum(each**2 / free for each, free in zip(variances, freedom, strict=True))
    return math.fsum(variances) ** 2 / squares if squares else 0.0
