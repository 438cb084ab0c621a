"""The held-out rows that a job is measured on: sets of strata, and how much of each is read.

The limit of a stratum follows what is trained on, so that measuring costs a small part of training also where
a small diet holds out much. It is decided here, and is in the job: runs are compared on the same rows only.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from curriculum.store import Artefact
from curriculum.store.verify import read_pages, verify_footers
from schemas.errors import JobError
from schemas.job import Evaluation, EvaluationStratum, RowsSource
from schemas.objectives import ANCHOR_SET, PHASE_SET

MOST_POSITIONS, LEAST_POSITIONS = 1 << 17, 1 << 11
"""Limits of a stratum's limit, in row positions; a row longer than that is read whole."""
PHASE_SHARE = 1 / 16
"""Positions that all sets of a phase read at once, as a share of the tokens that the phase trains on …"""
ANCHOR_SHARE = 1 / 64
"""… and the anchor, which each phase measures anew, of those that the diet trains on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """Validation rows of a family and an objective: their share of the phase, and its factors by domain."""

    family: str
    share: float
    rows: Artefact
    factors: Mapping[str, float] | None = None


def evaluation(
    name: str,
    validations: Sequence[Validation],
    *,
    workspace: Path,
) -> Evaluation:
    """The evaluation of a phase, or of the `anchor`: strata by family and domain.

    A family's share is spread over its domains as a serving's is: tokens of a domain ∝ what there is of
    it × its factor. Shares of one family add up.

    Raises:
        JobError: where no validation row is left.
    """
    which = ANCHOR_SET if name == ANCHOR_SET else PHASE_SET
    found = _evaluation(which, name, validations, workspace)
    if found is None:
        raise JobError(
            f"evaluation of {name}",
            cause="there are no validation rows",
            cure="Raise val_fraction in the corpus, or add repositories",
        )
    return found


def evaluations_apart(
    whole: Evaluation, apart: Mapping[str, Sequence[Validation]], *, workspace: Path
) -> list[Evaluation]:
    """The sets of a phase by objective: those that hold rows, and aren't all of `whole`, the phase's own.

    Shares count within a set: a set of one serving is of that alone.
    """
    found = (
        _evaluation(objective, whole.phase, some, workspace) for objective, some in apart.items()
    )
    return [each for each in found if each is not None and each.strata != whole.strata]


def within(evaluations: Sequence[Evaluation], positions: float) -> list[Evaluation]:
    """The same sets, which read so many row positions together at most, where the limits of strata allow it.

    All have one limit: the largest power of two for which that holds, so that budgets that are nearly the
    same mostly have the same rows.
    """
    limit = MOST_POSITIONS
    while limit > LEAST_POSITIONS and positions_read(_limited(evaluations, limit)) > positions:
        limit //= 2
    return _limited(evaluations, limit)


def positions_read(evaluations: Iterable[Evaluation]) -> int:
    """Row positions that one evaluation of some sets computes: rows that several ask for count once."""
    asked = {
        (stratum.rows.key, stratum.domain, evaluation.max_positions): stratum.positions
        for evaluation in evaluations
        for stratum in evaluation.strata
    }
    return sum(asked.values())


def _limited(evaluations: Sequence[Evaluation], limit: int) -> list[Evaluation]:
    """The sets under a lower limit."""
    return [
        each.model_copy(
            update={
                "max_positions": limit,
                "strata": tuple(
                    stratum.model_copy(
                        update={
                            "positions": _first(stratum.positions, stratum.rows.row_length, limit)
                        }
                    )
                    for stratum in each.strata
                ),
            }
        )
        for each in evaluations
    ]


def _first(positions: int, row_length: int, limit: int) -> int:
    """Positions of the whole rows within a limit, one at least.

    >>> _first(4096, 512, 1100), _first(4096, 2048, 100)
    (1024, 2048)
    """
    return min(positions, max(limit // row_length, 1) * row_length)


def rows_source(rows: Artefact, workspace: Path) -> RowsSource:
    """A rows artefact as a job names it."""
    return RowsSource(
        key=rows.key,
        content=rows.content,
        path=relative(rows.path, workspace),
        row_length=int(rows.manifest.labels["row_length"]),
    )


def relative(path: Path, workspace: Path) -> str:
    """A path as a job names it."""
    return path.relative_to(workspace.absolute()).as_posix()


def _evaluation(
    name: str,
    phase: str,
    validations: Sequence[Validation],
    workspace: Path,
) -> Evaluation | None:
    """A set of validation rows; None where there are none."""
    strata = _added_up(
        stratum for validation in validations for stratum in _strata(validation, workspace)
    )
    total = math.fsum(stratum.weight for stratum in strata)
    if not total:
        return None
    return Evaluation(
        set=name,
        phase=phase,
        max_positions=MOST_POSITIONS,
        strata=tuple(
            stratum.model_copy(update={"weight": stratum.weight / total}) for stratum in strata
        ),
    )


def _strata(validation: Validation, workspace: Path) -> list[EvaluationStratum]:
    tokens: dict[str, int] = {}
    rows: Counter[str] = Counter()
    verify_footers(validation.rows.path, validation.rows.manifest.files)
    for file in validation.rows.files():
        table = read_pages(file, ["domain", "valid_token_count"])
        for row in table.to_pylist():
            tokens[row["domain"]] = tokens.get(row["domain"], 0) + row["valid_token_count"]
            rows[row["domain"]] += 1
    weights = {
        domain: count * _factor(domain, validation.factors)
        for domain, count in sorted(tokens.items())
    }
    total = math.fsum(weights.values())
    source = rows_source(validation.rows, workspace)
    return [
        EvaluationStratum(
            family=validation.family,
            objective=validation.rows.manifest.labels["objective"],
            domain=domain,
            weight=validation.share * weight / total,
            rows=source,
            positions=_first(rows[domain] * source.row_length, source.row_length, MOST_POSITIONS),
        )
        for domain, weight in weights.items()
        if weight
    ]


def _added_up(strata: Iterable[EvaluationStratum]) -> list[EvaluationStratum]:
    """One stratum for each rows, family and domain, with the sum of its weights."""
    merged: dict[tuple[str, str, str], EvaluationStratum] = {}
    for stratum in strata:
        place = stratum.rows.key, stratum.family, stratum.domain
        before = merged[place].weight if place in merged else 0.0
        merged[place] = stratum.model_copy(update={"weight": before + stratum.weight})
    return list(merged.values())


def _factor(domain: str, factors: Mapping[str, float] | None) -> float:
    if factors is None:
        return 1.0
    return factors.get(domain, factors.get("*", 1.0))
