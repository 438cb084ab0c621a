"""Servings of a diet that `diet check` compares: requested and available tokens, for tables and --json."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from curriculum.inspection.held_out import (
    ExpectedServing,
    HeldOutDocuments,
    expected_held_out,
    held_out,
)
from curriculum.inspection.largest_files import phase_shares, shares_of
from curriculum.mixing.diet_check import PhaseCheck, ServingCheck
from curriculum.pipeline.checks import CheckedPlan, kind_of
from curriculum.stages import Built
from curriculum.supply import ALL, Estimate
from flows.cli.supply_tables import relative_error

UNEVEN = 1.1
"""Ratio of the highest to the lowest repetition among a serving's domains.

Above it, tables name the most repeated domain.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedServing:
    """Requested and available tokens of a serving, either in one domain or in all domains (`*`)."""

    phase: str
    serving: str
    family: str
    imported: str | None
    objective: str
    row_length: int
    domain: str
    asked_tokens: float
    available_tokens: float
    source: str
    """Source of the number of available tokens: built rows, or an estimate with its error."""
    repetition: float
    most_repeated: str
    """Domain with the highest repetition; empty if all domains have about the same repetition."""
    limit: float
    is_short: bool


def largest_files(
    check: PhaseCheck, found: CheckedPlan, built: Mapping[str, Built]
) -> list[tuple[str, float]]:
    """Return the source files with the most tokens of a phase, each with its share of the tokens.

    The shares come from built rows, or else from the sample of the estimate.
    """
    shares = shares_of(built[check.phase.name])
    if not shares and found.estimate is not None:
        shares = found.estimate.shares
    return phase_shares(check.phase, shares)


def held_out_of_phases(
    found: CheckedPlan, built: Mapping[str, Built], workspace: Path
) -> Iterator[tuple[str, HeldOutDocuments]]:
    """Yield the held-out documents of each phase: those of its built rows, or else an estimate."""
    for phase in found.phases:
        servings, sets = phase.phase.servings, [first for first, *_ in found.sets[phase.phase.name]]
        held = held_out(servings, sets, built[phase.phase.name], workspace=workspace)
        if held is None and found.estimate is not None:
            expected_ones = [
                ExpectedServing(
                    kind=kind_of(one), share=one.share, factors=dict(one.domains) or None
                )
                for one in servings
                if one.imported is None
            ]
            held = expected_held_out(found.estimate, expected_ones)
        if held is not None:
            yield phase.phase.name, held


def checked_servings(found: CheckedPlan) -> Iterator[CheckedServing]:
    """Yield every serving of every phase, first in all domains (`*`), then in each domain."""
    for check in found.phases:
        for serving in check.phase.servings:
            held = [one for one in check.held if one.stratum.serving == serving]
            is_built = found.is_built(check.phase.name, serving.index)
            for domain, own in ((ALL, held), *((one.stratum.domain, [one]) for one in held)):
                if own:
                    yield _checked(domain, own, None if is_built else found.estimate)


def _checked(domain: str, held: Sequence[ServingCheck], found: Estimate | None) -> CheckedServing:
    serving, only = held[0].stratum.serving, held[0].stratum.domain if len(held) == 1 else ALL
    doubt = (
        relative_error(*found.total(kind_of(serving), only, serving.repositories)) if found else ""
    )
    return CheckedServing(
        phase=held[0].phase,
        serving=serving.title,
        family=serving.family,
        imported=serving.imported.name if serving.imported else None,
        objective=serving.objective,
        row_length=serving.row_length,
        domain=domain,
        asked_tokens=sum(one.asked for one in held),
        available_tokens=sum(one.available for one in held),
        source=f"estimate {doubt}".rstrip() if found else "rows",
        repetition=max(one.repetition for one in held),
        most_repeated=_most(held),
        limit=held[0].limit,
        is_short=any(one.is_short for one in held),
    )


def _most(held: Sequence[ServingCheck]) -> str:
    most = max(held, key=lambda one: one.repetition)
    least = min(held, key=lambda one: one.repetition)
    return most.stratum.domain if most.repetition > UNEVEN * least.repetition else ""
