"""Two measurements paired document by document: two runs at their ends, or one run before and after.

Two documents are the same if family, objective, domain, row length and document_id are equal. Rows of
different corpora, diets and specialists may share documents. Their tokenizers may differ, since bits
are counted per byte.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow as pa

from curriculum.train.document_sums import (
    DocumentSums,
    Pair,
    PairedChange,
    paired_change,
    read,
)
from curriculum.train.run_directory import JOB, read_job
from schemas.job import Evaluation, Report

Place = tuple[str, str, str, str]
"""Set, phase, family and domain of a figure."""
_Stratum = tuple[str, str, str, str, str, int]
"""Place, objective and row length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Documents that a run was measured on at a step, by stratum, and the strata's weights in their sets."""

    strata: Mapping[_Stratum, DocumentSums]
    weights: Mapping[_Stratum, float]

    @staticmethod
    def of(documents: pa.Table, evaluations: Iterable[Evaluation]) -> "Measured":
        """Return the documents (a table of EVALUATED_SCHEMA) with the weights from the evaluations."""
        weights: dict[_Stratum, float] = defaultdict(float)
        for evaluation in evaluations:
            for stratum in evaluation.strata:
                where = (evaluation.set, evaluation.phase, stratum.family, stratum.domain)
                weights[*where, stratum.objective, stratum.rows.row_length] += stratum.weight
        return Measured(strata=_strata(documents), weights=weights)


def measured(run: Path, step: int) -> Measured | None:
    """Read the documents of a run's evaluation at a step, or None if none were stored.

    Raises:
        JobError: if the run's job is invalid.
        StoreError: if a file differs from the published one.
    """
    documents = read(run, step)
    if documents is None:
        return None
    return Measured.of(documents, read_job(run / JOB).evaluations)


def changes(first: Measured, last: Measured) -> dict[Place, PairedChange]:
    """Return the changes of strata's bits per byte and of sets' weighted means, on shared documents.

    The weight of a stratum in a mean is the average of its weights in both measurements.
    """
    pairs: dict[Place, list[Pair]] = defaultdict(list)
    for stratum, before in first.strata.items():
        after = last.strata.get(stratum)
        common = {*before.document_ids} & {*after.document_ids} if after is not None else set()
        if after is None or not common:
            continue
        sides = before.select(common), after.select(common)
        if not all(side.num_bytes.sum() for side in sides):
            continue
        weight = (first.weights[stratum] + last.weights[stratum]) / 2
        pair = Pair(before=sides[0], after=sides[1], weight=weight)
        name, phase, family, domain, _, _ = stratum
        pairs[name, phase, family, domain].append(pair)
        pairs[name, phase, "*", "*"].append(pair)
    return {place: paired_change(some) for place, some in pairs.items()}


def changes_between(first: tuple[Path, int], last: tuple[Path, int]) -> dict[Place, PairedChange]:
    """Return the changes between two steps, given as (run, step); empty if a step has no documents."""
    before, after = measured(*first), measured(*last)
    return changes(before, after) if before is not None and after is not None else {}


def changes_within(run: Path, report: Report) -> dict[Place, PairedChange]:
    """Return the changes of a run from before its first step to its end; empty without documents."""
    return changes_between((run, 0), (run, report.steps))


def _strata(documents: pa.Table) -> dict[_Stratum, DocumentSums]:
    """Sum the rows of each document, since several servings may contain the same document."""
    names = ("set", "phase", "family", "domain", "objective", "row_length")
    sums = (
        pl.DataFrame(documents)
        .group_by(*names, "document_id", maintain_order=True)
        .agg(pl.col("lineage").last(), pl.col("nats", "bytes", "tokens").sum())
    )
    return {
        cast("_Stratum", stratum): _sums(found.sort("document_id"))
        for stratum, found in sums.partition_by(names, as_dict=True).items()
    }


def _sums(found: pl.DataFrame) -> DocumentSums:
    return DocumentSums(
        document_ids=tuple(found["document_id"]),
        lineages=tuple(found["lineage"]),
        nats=found["nats"].to_numpy(),
        num_bytes=found["bytes"].to_numpy(),
        tokens=found["tokens"].to_numpy(),
    )
