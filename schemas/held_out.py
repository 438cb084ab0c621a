"""Order in which validation rows are measured (held_out.json), and effective sample sizes of figures."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from schemas.text import Strict

MIN_DOCUMENTS, MIN_LINEAGES = 8, 4
"""A val_bpb with fewer effective documents or lineages is unreliable, because a single file may decide it."""
MAX_UNKNOWN = 1 / 3
"""Maximum share of the weight in strata that have one lineage. Their variance can't be estimated."""


class HeldOutRow(Strict):
    """One row with its documents and their lineages, in the order of the row."""

    row: int
    """Number of the row, counted over all files of the artefact."""
    domain: str
    documents: tuple[str, ...]
    lineages: tuple[str, ...]


class HeldOutRows(Strict):
    """Validation rows of each domain, in the order in which they are measured."""

    rows: tuple[HeldOutRow, ...]


class HeldOutCount(Strict):
    """Number of documents and lineages behind a figure, and their effective sample sizes."""

    documents: int
    lineages: int
    """Number of lineages. A lineage is a file across renames."""
    effective_documents: float
    """Effective number of documents, given their weights; see `held_out_count`."""
    effective_lineages: float

    @property
    def is_sure(self) -> bool:
        """True if enough documents and lineages are behind the figure, so that one file can't decide it."""
        # Equal weights give a whole number, except for rounding errors.
        documents, lineages = (
            round(number, 6) for number in (self.effective_documents, self.effective_lineages)
        )
        return documents >= MIN_DOCUMENTS and lineages >= MIN_LINEAGES


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedStratum:
    """The documents and lineages of a stratum, without repetition, and the stratum's weight in a mean."""

    weight: float
    documents: Collection[str]
    lineages: Collection[str]


def held_out_count(strata: Sequence[WeightedStratum]) -> HeldOutCount:
    """Return the numbers and effective numbers of documents and lineages behind a weighted mean of strata.

    The documents of a stratum share its weight equally, and so do its lineages. Effective numbers are Kish's
    effective sample size. Effective lineages are also limited to Satterthwaite's degrees of freedom plus one,
    and to one if strata with one lineage have more than MAX_UNKNOWN of the weight.

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
    """Return Kish's effective sample size (Σ w)² / Σ w² for units with these weights; 0 without units.

    >>> effective_number([1, 1, 1, 1]), round(effective_number([0.7, 0.1, 0.1, 0.1]), 2)
    (4.0, 1.92)
    """
    listed = [*weights]
    squares = math.fsum(weight**2 for weight in listed)
    return math.fsum(listed) ** 2 / squares if squares else 0.0


def _freedom(strata: Sequence[WeightedStratum]) -> float:
    """Return Satterthwaite's degrees of freedom of a mean of strata, with equal variance in all lineages."""
    counted = [(stratum.weight, len(stratum.lineages)) for stratum in strata if stratum.lineages]
    return satterthwaite(
        [weight**2 / count for weight, count in counted],
        [max(count - 1, 1) for _, count in counted],
    )


def satterthwaite(variances: Sequence[float], freedom: Sequence[float]) -> float:
    """Return the degrees of freedom of the sum of `variances`; 0 if there are none.

    `freedom` has the degrees of freedom with which each variance was estimated.

    >>> satterthwaite([2.0, 2.0], [3, 3])
    6.0
    """
    squares = math.fsum(
        variance**2 / free for variance, free in zip(variances, freedom, strict=True)
    )
    return math.fsum(variances) ** 2 / squares if squares else 0.0
