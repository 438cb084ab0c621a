"""Sets of held-out rows on which a job is evaluated, and the choice of how many rows are read.

Rows are read in the order of packing/held_out_order.py, so that few rows have many documents. The number
of rows depends on the size of training. Therefore, evaluation takes a small part of the time, even if a
small diet holds out much. The chosen rows are recorded in the job, because runs can be compared only on
the same rows.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from curriculum.mixing.resolve import ResolvedServing
from curriculum.packing.held_out_order import MAX_POSITIONS, read_order
from curriculum.store import Artefact
from schemas.errors import JobError
from schemas.held_out import MIN_DOCUMENTS, HeldOutRow, HeldOutRows, WeightedStratum, held_out_count
from schemas.job import Evaluation, EvaluationStratum, RowsSource
from schemas.objectives import ANCHOR_SET, PHASE_SET, FixedSet
from schemas.reports import RowsReport

MIN_POSITIONS = 1 << 11
"""Lowest limit of row positions per stratum. At least one whole row is read."""
MAX_READ = MAX_POSITIONS * MIN_DOCUMENTS
"""Highest limit of row positions per stratum. All rows are within it."""
PHASE_SHARE = 1 / 16
"""Maximum positions that all sets of a phase read, divided by the tokens that the phase trains on."""
FIXED_SHARE = 1 / 64
"""Maximum positions that a fixed set reads, divided by the tokens that the whole diet trains on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """Validation rows of one family and objective, with their share of the phase and factors by domain."""

    family: str
    share: float
    rows: Artefact
    factors: Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutStratum:
    """Stratum with all rows that may be measured, in the order in which they are measured."""

    family: str
    objective: str
    domain: str
    weight: float
    rows: RowsSource
    order: tuple[HeldOutRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutSet:
    """Set of validation rows for which the number of rows to read hasn't been chosen yet."""

    name: str
    phase: str
    strata: tuple[HeldOutStratum, ...]
    trained_share: float | None
    """Share of the set's targets that also occur in training documents. None if they weren't compared."""

    def limit_positions(self, limit: int) -> Evaluation:
        """Return an evaluation that reads at most `limit` positions of each stratum, but at least one row."""
        rows = [
            stratum.order[: max(limit // stratum.rows.row_length, 1)] for stratum in self.strata
        ]
        named = [
            WeightedStratum(
                weight=stratum.weight,
                documents={name for row in some for name in row.documents},
                lineages={name for row in some for name in row.lineages},
            )
            for stratum, some in zip(self.strata, rows, strict=True)
        ]
        return Evaluation(
            set=self.name,
            phase=self.phase,
            trained_share=self.trained_share,
            strata=tuple(
                EvaluationStratum(
                    family=stratum.family,
                    objective=stratum.objective,
                    domain=stratum.domain,
                    weight=stratum.weight,
                    rows=stratum.rows,
                    measured=tuple(sorted(row.row for row in some)),
                    **held_out_count([counted]).model_dump(),
                )
                for stratum, some, counted in zip(self.strata, rows, named, strict=True)
            ),
            **held_out_count(named).model_dump(),
        )


def validation_of(serving: ResolvedServing, rows: Artefact) -> Validation:
    """Return a serving's validation rows.

    Imported rows are named by their own name, other rows by their family.
    """
    return Validation(
        family=serving.imported.name if serving.imported else serving.family,
        share=serving.share,
        factors=dict(serving.domains) or None,
        rows=rows,
    )


def evaluation(phase: str, validations: Sequence[Validation], *, workspace: Path) -> HeldOutSet:
    """Build the evaluation set of a phase. Its strata are families and domains.

    A family's share is divided among its domains in proportion to available tokens × factor, as in a serving.
    If a family occurs several times, its shares are added.

    Raises:
        JobError: if there are no validation rows.
    """
    return _required(held_out_set(PHASE_SET, phase, validations, workspace=workspace), phase)


def fixed_evaluation(name: FixedSet, rows: Artefact, *, workspace: Path) -> HeldOutSet | None:
    """Build a fixed set. Return None if a set of unseen repositories or of later commits has no rows.

    Raises:
        JobError: if the anchor set has no rows.
    """
    found = fixed_set(name, rows, workspace=workspace)
    return _required(found, name) if name == ANCHOR_SET else found


def fixed_set(name: FixedSet, rows: Artefact, *, workspace: Path) -> HeldOutSet | None:
    """Build a fixed set from rows of any format. Return None if there are no rows."""
    whole = Validation(family=rows.manifest.labels["family"], share=1.0, rows=rows)
    return held_out_set(name, name, [whole], workspace=workspace)


def _required(found: HeldOutSet | None, name: str) -> HeldOutSet:
    if found is None:
        raise JobError(
            f"evaluation of {name}",
            cause="it has no validation rows",
            cure="Raise val_fraction in the corpus, or add repositories",
        )
    return found


def evaluations_apart(
    whole: HeldOutSet, apart: Mapping[str, Sequence[Validation]], *, workspace: Path
) -> list[HeldOutSet]:
    """Build a phase's sets by objective.

    Empty sets and sets equal to the phase's own set `whole` are left out. A serving's share is relative to
    its set: if it is the only serving of a set, its share is 1.
    """
    found = (
        held_out_set(objective, whole.phase, some, workspace=workspace)
        for objective, some in apart.items()
    )
    return [
        held_out for held_out in found if held_out is not None and held_out.strata != whole.strata
    ]


def limit_positions(sets: Sequence[HeldOutSet], positions: float) -> list[Evaluation]:
    """Choose the rows of the sets so that about `positions` row positions are read in total.

    All strata have the same limit: the largest power of two with which the total isn't exceeded. Therefore,
    similar budgets mostly read the same rows. A limit with which a set would have too few documents to be
    reliable is not used, so the total may be exceeded.
    """
    limit = MAX_READ
    found = [held_out.limit_positions(limit) for held_out in sets]
    while limit > MIN_POSITIONS and positions_read(found) > positions:
        limit //= 2
        fewer = [held_out.limit_positions(limit) for held_out in sets]
        if any(more.is_sure > less.is_sure for more, less in zip(found, fewer, strict=True)):
            break
        found = fewer
    return found


def positions_read(evaluations: Iterable[Evaluation]) -> int:
    """Return the row positions that one evaluation of all sets reads. Rows in several sets count once."""
    asked = {
        (stratum.rows.key, stratum.measured): stratum.positions
        for evaluation in evaluations
        for stratum in evaluation.strata
    }
    return sum(asked.values())


def rows_source(rows: Artefact, workspace: Path) -> RowsSource:
    """Return the entry for a rows artefact in a job."""
    return RowsSource(
        key=rows.key,
        content=rows.content,
        path=relative(rows.path, workspace),
        row_length=int(rows.manifest.labels["row_length"]),
    )


def relative(path: Path, workspace: Path) -> str:
    """Return a path relative to the workspace, in the form that jobs use."""
    return path.relative_to(workspace.absolute()).as_posix()


def order_of(rows: Artefact) -> HeldOutRows:
    """Return the rows of an artefact that may be measured. A planned artefact has none."""
    return HeldOutRows(rows=()) if rows.planned else read_order(rows.path)


def held_out_set(
    name: str, phase: str, validations: Sequence[Validation], *, workspace: Path
) -> HeldOutSet | None:
    """Build the set `name` from validation rows. Return None if there are none."""
    strata = _added_up(
        stratum for validation in validations for stratum in _strata(validation, workspace)
    )
    total = math.fsum(stratum.weight for stratum in strata)
    if not total:
        return None
    shares = tuple(replace(stratum, weight=stratum.weight / total) for stratum in strata)
    shown = trained_share(validation.rows for validation in validations)
    return HeldOutSet(name=name, phase=phase, strata=shares, trained_share=shown)


def trained_share(rows: Iterable[Artefact]) -> float | None:
    """Return the share of held-out targets that also occur in training documents.

    The result is None if the targets of these rows haven't been compared.
    """
    distinct = {artefact.key: artefact for artefact in rows}
    counts = [artefact.reported(RowsReport).encode.objective for artefact in distinct.values()]
    scored = sum(count.get("held_out_scored", 0) for count in counts)
    return sum(count.get("held_out_trained", 0) for count in counts) / scored if scored else None


def _strata(validation: Validation, workspace: Path) -> list[HeldOutStratum]:
    domains = validation.rows.reported(RowsReport).domains
    weights = {
        domain: size.tokens * factor_of(domain, validation.factors)
        for domain, size in sorted(domains.items())
    }
    total = math.fsum(weights.values())
    source = rows_source(validation.rows, workspace)
    order: defaultdict[str, list[HeldOutRow]] = defaultdict(list)
    for row in order_of(validation.rows).rows:
        order[row.domain].append(row)
    return [
        HeldOutStratum(
            family=validation.family,
            objective=validation.rows.manifest.labels["objective"],
            domain=domain,
            weight=validation.share * weight / total,
            rows=source,
            order=tuple(order[domain]),
        )
        for domain, weight in weights.items()
        if weight
    ]


def _added_up(strata: Iterable[HeldOutStratum]) -> list[HeldOutStratum]:
    """Merge strata with the same rows, family and domain, and add their weights."""
    merged: dict[tuple[str, str, str], HeldOutStratum] = {}
    for stratum in strata:
        place = stratum.rows.key, stratum.family, stratum.domain
        before = merged[place].weight if place in merged else 0.0
        merged[place] = replace(stratum, weight=before + stratum.weight)
    return list(merged.values())


def factor_of(domain: str, factors: Mapping[str, float] | None) -> float:
    """Return the factor of a domain in a serving."""
    if factors is None:
        return 1.0
    return factors.get(domain, factors.get("*", 1.0))
