"""What is asked of each stratum, held against what there is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from curriculum.diets.resolve import ResolvedPhase, ResolvedServing
from curriculum.diets.supply import Supply
from schemas.errors import MixtureError

Drawn = Mapping[tuple[str, str], int]
"""Rows that earlier phases took, by (rows key, domain)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stratum:
    """One serving in one domain: what there is of it, and what is asked."""

    serving: ResolvedServing
    domain: str
    key: str
    """Of the rows artefact."""
    rows: npt.NDArray[np.int64]
    """Numbers of its rows in the serving's supply."""
    tokens: int
    """Valid tokens of those rows."""
    share: float
    """Of the phase's valid tokens, as the diet says."""
    served: float
    """The share after a shortage was renormalised; else the same."""
    drawn_before: int

    @property
    def title(self) -> str:
        """Serving and domain in words."""
        return f"{self.serving.title}, domain {self.domain}"

    def slots_per_token(self, slot_length: int) -> float:
        """Slots that hold one valid token of it: how often it must come for its share."""
        rows_per_slot = slot_length // self.serving.row_length
        return len(self.rows) / (rows_per_slot * self.tokens)


def demand(
    phase: ResolvedPhase, supplies: Sequence[Supply], drawn: Drawn | None = None
) -> tuple[Stratum, ...]:
    """The strata of a phase, by serving and domain; their `served` sum to 1.

    `supplies` hold the training rows of each serving, in the servings' order.

    Raises:
        MixtureError: for a domain that has no rows, and for a stratum of which more is asked than
            max_repetition times what there is, unless the phase renormalises its shares.
    """
    assert len(supplies) == len(phase.servings)
    strata = [
        stratum
        for serving, supply in zip(phase.servings, supplies, strict=True)
        for stratum in _strata(serving, supply, drawn or {})
    ]
    empty = [
        serving.title
        for serving in phase.servings
        if not any(stratum.serving.index == serving.index for stratum in strata)
    ]
    if empty and (phase.on_shortage == "stop" or not strata):
        raise MixtureError(
            f"phase {phase.name}",
            empty[0],
            cause="there is no row of it",
            cure="Take the serving out, or build it from a larger corpus",
        )
    return _within_supply(phase, strata)


def _strata(serving: ResolvedServing, supply: Supply, drawn: Drawn) -> list[Stratum]:
    """A serving's domains: tokens of each in proportion to what there is times its factor."""
    factors = dict(serving.domains)
    unknown = sorted(set(factors) - {"*", *supply.domains})
    if unknown:
        raise MixtureError(
            serving.title,
            f"domains.{unknown[0]}",
            cause="no row is of that domain",
            cure=f"There are: {', '.join(supply.domains) or 'none'}",
        )
    rest = factors.get("*", 1.0)
    tokens = {name: supply.tokens_of(name) for name in supply.domains}
    weights = {name: tokens[name] * factors.get(name, rest) for name in supply.domains}
    whole = math.fsum(weights.values())
    return [
        Stratum(
            serving=serving,
            domain=name,
            key=supply.key,
            rows=supply.rows_of(name),
            tokens=tokens[name],
            share=serving.share * weight / whole,
            served=serving.share * weight / whole,
            drawn_before=drawn.get((supply.key, name), 0),
        )
        for name, weight in weights.items()
        if weight > 0
    ]


def _within_supply(phase: ResolvedPhase, strata: list[Stratum]) -> tuple[Stratum, ...]:
    most = [phase.max_repetition * stratum.tokens / phase.tokens for stratum in strata]
    whole = math.fsum(stratum.share for stratum in strata)
    shares = [stratum.share / whole for stratum in strata]
    short = [at for at, share in enumerate(shares) if share > most[at]]
    if short and phase.on_shortage == "stop":
        raise _shortage(phase, [strata[at] for at in short])
    if short:
        shares = _renormalised(phase, shares, most)
    return tuple(
        replace(stratum, served=share) for stratum, share in zip(strata, shares, strict=True)
    )


def _renormalised(phase: ResolvedPhase, shares: list[float], most: list[float]) -> list[float]:
    """Shares cut to what there is, the others raised alike in their place.

    >>> _renormalised(phase, [0.5, 0.25, 0.25], [0.2, 1.0, 1.0])
    [0.2, 0.4, 0.4]
    """
    if math.fsum(most) < 1:
        there = int(math.fsum(most) * phase.tokens)
        raise MixtureError(
            f"phase {phase.name}",
            f"{phase.tokens} tokens are asked",
            cause=f"all servings together have {there} at max_repetition {phase.max_repetition:g}",
            cure="Lower token_budget, raise max_repetition or enlarge the corpus",
        )
    cut: set[int] = set()
    while True:
        left = 1 - math.fsum(most[at] for at in cut)
        free = math.fsum(share for at, share in enumerate(shares) if at not in cut)
        scale = left / free if free else 1.0
        over = {at for at, share in enumerate(shares) if at not in cut and share * scale > most[at]}
        if not over:
            return [most[at] if at in cut else share * scale for at, share in enumerate(shares)]
        cut |= over


def _shortage(phase: ResolvedPhase, short: Sequence[Stratum]) -> MixtureError:
    worst = max(short, key=lambda stratum: stratum.share / stratum.tokens)
    asked = worst.share * phase.tokens
    times = math.ceil(100 * asked / worst.tokens) / 100
    fitting = int(phase.max_repetition * worst.tokens / worst.share)
    others = f" ({len(short) - 1} more are short)" if len(short) > 1 else ""
    return MixtureError(
        f"phase {phase.name}: {worst.title}",
        f"{asked:,.0f} tokens are asked and there are {worst.tokens:,}{others}",
        cause=f"each row would be seen {times:g} times, and max_repetition is "
        f"{phase.max_repetition:g}",
        cure=f"Lower the phase's tokens to {fitting:,}, raise max_repetition to "
        f"{math.ceil(times)}, lower its share, enlarge the corpus, "
        "or set on_shortage: renormalise",
    )
