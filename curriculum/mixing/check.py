"""Check of a diet against the rows that there are, before anything is mixed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.supply import Stratum, Supply, demand, without_rows
from schemas.errors import MixtureError

SUPPOSED = "estimate"
"""The key of rows that aren't built."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingCheck:
    """One serving in one domain: what is asked of it and what there is."""

    phase: str
    stratum: Stratum
    asked: int
    """Valid tokens."""
    limit: float
    """max_repetition of the phase."""

    @property
    def available(self) -> int:
        """Valid tokens of one pass."""
        return self.stratum.tokens

    @property
    def repetition(self) -> float:
        """Times that each row is seen."""
        return self.asked / self.available

    @property
    def is_short(self) -> bool:
        """Return True if that is more often than the phase allows."""
        return self.repetition > self.limit


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseCheck:
    """A phase held against its rows."""

    phase: ResolvedPhase
    held: tuple[ServingCheck, ...]
    fault: MixtureError | None
    """Reason why it can't be served, with the cure."""
    warnings: tuple[str, ...]


def supposed_supply(amounts: Mapping[str, float], row_length: int) -> Supply:
    """Rows such as a build would leave, of so many valid tokens of each domain.

    >>> found = supposed_supply({"general": 1000.0, "testing": 300.0}, 512)
    >>> found.domains, found.valid_tokens.tolist()
    (('general', 'testing'), [500, 500, 300])
    """
    domains = tuple(sorted(name for name, tokens in amounts.items() if round(tokens)))
    tokens = [round(amounts[name]) for name in domains]
    rows = [-(-each // row_length) for each in tokens]
    valid = [np.full(n, each // n) for n, each in zip(rows, tokens, strict=True)]
    for each, own in zip(tokens, valid, strict=True):
        own[: each % len(own)] += 1
    count = sum(rows)
    return Supply(
        key=SUPPOSED,
        domains=domains,
        domain=np.repeat(np.arange(len(domains), dtype=np.int16), rows),
        valid_tokens=np.concatenate([np.empty(0, np.int32), *valid]).astype(np.int32),
        pack_index=np.arange(count, dtype=np.int64),
        shard_starts=np.array([0, count], dtype=np.int64),
    )


def check_phase(
    phase: ResolvedPhase, supplies: Sequence[Sequence[Supply]], *, tokens_per_step: int
) -> PhaseCheck:
    """A phase held against the rows of its servings, one supply a variant; nothing is raised."""
    fault: MixtureError | None = None
    strata: tuple[Stratum, ...] = ()
    try:
        strata = demand(
            replace(phase, on_shortage="renormalise", max_repetition=math.inf), supplies
        )
        demand(phase, supplies)
    except MixtureError as found:
        fault = found
    if fault is None and phase.tokens < tokens_per_step:
        fault = MixtureError(
            f"phase {phase.name}",
            f"{phase.tokens:,} tokens",
            cause=f"that is less than one step of {tokens_per_step:,} row positions",
            cure="Raise token_budget or lower tokens_per_step",
        )
    held = tuple(
        ServingCheck(
            phase=phase.name,
            stratum=each,
            asked=round(each.share * phase.tokens),
            limit=phase.max_repetition,
        )
        for each in strata
    )
    return PhaseCheck(
        phase=phase, held=held, fault=fault, warnings=tuple(without_rows(phase, strata))
    )


def largest_budget(checks: Sequence[PhaseCheck], *, tokens_per_step: int) -> int | None:
    """The most tokens of a diet that every phase can serve, in whole thousands; None if no number fits.

    What is asked of a phase grows with the budget, and what is there doesn't.
    """
    least = max(tokens_per_step / each.phase.portion for each in checks)
    most = math.floor(min(_most_tokens(each) / each.phase.portion for each in checks))
    fitting = most // 1000 * 1000 or most
    return fitting if fitting >= least else None


def _most_tokens(check: PhaseCheck) -> float:
    """Return the most tokens that a phase can serve within its repetition; 0 if it lacks a serving."""
    phase, strata = check.phase, [each.stratum for each in check.held]
    whole = math.fsum(each.share for each in strata)
    if phase.on_shortage == "stop":
        there = {each.serving.index for each in strata}
        if any(each.index not in there for each in phase.servings):
            return 0
        shares = ((each, each.share / whole) for each in strata)
        return min(phase.max_repetition * each.tokens / share for each, share in shares if share)
    return phase.max_repetition * sum(each.tokens for each in strata)


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceCheck:
    """About how often the source files of a domain are seen, over all servings and phases."""

    domain: str
    repositories: tuple[str, ...]
    """Repositories that a serving is restricted to; empty for all."""
    asked: int
    distinct: int
    """Valid tokens of the family that has most: all families say the same again."""

    @property
    def repetition(self) -> float:
        """Tokens seen ÷ distinct tokens."""
        return self.asked / self.distinct


def source_checks(checks: Sequence[PhaseCheck]) -> Iterator[SourceCheck]:
    """Yield the repetition of source files over all phases, by domain and by named repositories.

    What a serving of all repositories sees of some is taken in proportion to what they have. Nothing is
    known of the source files of imported rows.
    """
    held = [
        each for check in checks for each in check.held if each.stratum.serving.imported is None
    ]
    places = sorted({(each.stratum.domain, each.stratum.serving.repositories) for each in held})
    for domain, repositories in places:
        ours = [each for each in held if each.stratum.domain == domain]
        own = [each for each in ours if each.stratum.serving.repositories == repositories]
        distinct = max(each.available for each in own)
        wider = [each for each in ours if repositories and not each.stratum.serving.repositories]
        seen = sum(each.asked for each in own)
        seen += round(sum(each.asked * min(1.0, distinct / each.available) for each in wider))
        yield SourceCheck(domain=domain, repositories=repositories, asked=seen, distinct=distinct)
