"""Two measurements compared document by document: of two runs at their ends, or of one run at two steps.

Two documents are the same if family, objective, domain, row length and document_id are equal. So rows of
different corpora, diets and specialists may share documents. Their tokenizers may differ, since bits are
counted per byte.
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
"""The Place of a stratum, followed by its objective and its row length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Documents that a run was measured on at a step, by stratum, and the weights of strata in their sets."""

    strata: Mapping[_Stratum, DocumentSums]
    weights: Mapping[_Stratum, float]

    @staticmethod
    def of(documents: pa.Table, evaluations: Iterable[Evaluation]) -> "Measured":
        """Combine the documents (a table of EVALUATED_SCHEMA) with the weights in the evaluations."""
        weights: dict[_Stratum, float] = defaultdict(float)
        for evaluation in evaluations:
            for stratum in evaluation.strata:
                where = (evaluation.set, evaluation.phase, stratum.family, stratum.domain)
                weights[*where, stratum.objective, stratum.rows.row_length] += stratum.weight
        return Measured(strata=_strata(documents), weights=weights)


def measured(run: Path, step: int) -> Measured | None:
    """Read the documents that a run was measured on at a step; None if none were stored.

    Raises:
        JobError: if the run's job is invalid.
        StoreError: if a file differs from the published one.
    """
    documents = read(run, step)
    if documents is None:
        return None
    return Measured.of(documents, read_job(run / JOB).evaluations)


def changes(first: Measured, last: Measured) -> dict[Place, PairedChange]:
    """Return the changes of figures on the documents that both measurements share.

    The figures are bits per byte of each stratum, and the weighted mean of each set. The weight of a stratum
    is the average of its weights in both measurements.
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
    """Return the changes of figures from `first` to `last`, which are pairs of a run and a step.

    The result is empty if no documents were stored at one of them.
    """
    before, after = measured(*first), measured(*last)
    return changes(before, after) if before is not None and after is not None else {}


def changes_within(run: Path, report: Report) -> dict[Place, PairedChange]:
    """Return the changes of figures of a run, from before its first step to its end.

    The result is empty if no documents were stored.
    """
    return changes_between((run, 0), (run, report.steps))


def _strata(documents: pa.Table) -> dict[_Stratum, DocumentSums]:
    """Return the sums of each document's rows, by stratum. Several servings may contain the same document."""
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
