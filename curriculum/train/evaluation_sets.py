"""Sets of held-out rows on which a job is evaluated, and the choice of how many rows are read.

Rows are taken in the order of packing/held_out_order.py, so that few rows cover many documents. The number of
rows depends on the size of training, so that evaluation takes a small part of the time even if a small diet
holds out much. The choice is recorded in the job, because runs are only comparable on the same rows.
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
"""Min limit of a stratum, in row positions; at least one whole row is read."""
MAX_READ = MAX_POSITIONS * MIN_DOCUMENTS
"""Max limit of a stratum, in row positions, at which all its rows are read."""
PHASE_SHARE = 1 / 16
"""Max positions read by all sets of a phase, as a share of the tokens that the phase trains on."""
FIXED_SHARE = 1 / 64
"""Max positions read by a fixed set, as a share of the tokens that the whole diet trains on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """Validation rows of a family and objective, with their share of the phase and factors by domain."""

    family: str
    share: float
    rows: Artefact
    factors: Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutStratum:
    """Stratum with all rows that may be measured, in their order of measurement."""

    family: str
    objective: str
    domain: str
    weight: float
    rows: RowsSource
    order: tuple[HeldOutRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutSet:
    """Set of validation rows, before the number of rows to read is chosen."""

    name: str
    phase: str
    strata: tuple[HeldOutStratum, ...]
    trained_share: float | None
    """Share of its targets that also occur in training documents; None if not compared."""

    def limit_positions(self, limit: int) -> Evaluation:
        """Limit each stratum to `limit` positions, but to at least one row."""
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
    """Return a serving's validation rows; imported rows have their own name instead of a family's."""
    return Validation(
        family=serving.imported.name if serving.imported else serving.family,
        share=serving.share,
        factors=dict(serving.domains) or None,
        rows=rows,
    )


def evaluation(phase: str, validations: Sequence[Validation], *, workspace: Path) -> HeldOutSet:
    """Build the set of a phase, with strata by family and domain.

    A family's share is spread over its domains in proportion to available tokens × factor, as in a serving.
    Shares of one family are added.

    Raises:
        JobError: if there are no validation rows.
    """
    return _required(held_out_set(PHASE_SET, phase, validations, workspace=workspace), phase)


def fixed_evaluation(name: FixedSet, rows: Artefact, *, workspace: Path) -> HeldOutSet | None:
    """Build a fixed set; return None for unseen repositories or later commits without rows.

    Raises:
        JobError: if the anchor set has no rows.
    """
    found = fixed_set(name, rows, workspace=workspace)
    return _required(found, name) if name == ANCHOR_SET else found


def fixed_set(name: FixedSet, rows: Artefact, *, workspace: Path) -> HeldOutSet | None:
    """Build a fixed set from rows of any format; None without rows."""
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
    """Build the sets of a phase by objective, without empty sets and sets equal to the phase's own, `whole`.

    Shares are relative to a set: in a set of one serving its share is 1.
    """
    found = (
        held_out_set(objective, whole.phase, some, workspace=workspace)
        for objective, some in apart.items()
    )
    return [
        held_out for held_out in found if held_out is not None and held_out.strata != whole.strata
    ]


def limit_positions(sets: Sequence[HeldOutSet], positions: float) -> list[Evaluation]:
    """Limit sets to about `positions` row positions in total.

    All strata have the same limit: the largest power of two that keeps the total, so that similar budgets
    mostly read the same rows. The limit isn't lowered below the point where a set would have too few
    documents to be reliable, so the total may be exceeded.
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
    """Count the row positions of one evaluation of the sets; rows in several sets count once."""
    asked = {
        (stratum.rows.key, stratum.measured): stratum.positions
        for evaluation in evaluations
        for stratum in evaluation.strata
    }
    return sum(asked.values())


def rows_source(rows: Artefact, workspace: Path) -> RowsSource:
    """Return a rows artefact in the form in which a job lists it."""
    return RowsSource(
        key=rows.key,
        content=rows.content,
        path=relative(rows.path, workspace),
        row_length=int(rows.manifest.labels["row_length"]),
    )


def relative(path: Path, workspace: Path) -> str:
    """Return a path relative to the workspace, in the form in which a job lists it."""
    return path.relative_to(workspace.absolute()).as_posix()


def order_of(rows: Artefact) -> HeldOutRows:
    """Return the rows of an artefact that may be measured; none for a planned artefact."""
    return HeldOutRows(rows=()) if rows.planned else read_order(rows.path)


def held_out_set(
    name: str, phase: str, validations: Sequence[Validation], *, workspace: Path
) -> HeldOutSet | None:
    """Build a set of validation rows; None if there are none."""
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

    None if no rows have been compared.
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
    """Merge strata of the same rows, family and domain; add their weights."""
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
