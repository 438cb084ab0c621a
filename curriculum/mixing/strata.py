"""Strata of a phase: demand and supply of each serving in each domain."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from curriculum.mixing.row_supply import Supply
from schemas.errors import MixtureError
from schemas.mixture import served_shares

Taken = Mapping[tuple[str, str], int]
"""Number of rows taken by earlier plans, by (rows key, domain)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """The rows of a stratum in one variant of its objective; one pass reads all of them."""

    number: int
    """Index of the variant's supply among the supplies of the serving."""
    key: str
    """Key of the rows artefact."""
    rows: npt.NDArray[np.int64]
    """Numbers of the stratum's rows in that supply."""
    tokens: int
    """Valid tokens of the rows that aren't excluded."""
    drawn_before: int
    """Number of this variant's rows that earlier plans took or skipped."""
    left_out: npt.NDArray[np.bool_] | None = None
    """True for each of `rows` that is excluded; None if no row is. Never all rows are excluded."""

    @property
    def available(self) -> int:
        """Number of rows that aren't excluded."""
        return len(self.rows) - (0 if self.left_out is None else int(self.left_out.sum()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Stratum:
    """One serving in one domain: its supply and its demand."""

    serving: ResolvedServing
    domain: str
    variants: tuple[Variant, ...]
    """Variants of the rows, which passes read in turn; one unless the objective has several."""
    share: float
    """Share of the phase's valid tokens that the diet asks for."""
    served: float
    """Share that the stratum gets; equal to `share` unless a shortage renormalised the shares."""

    @property
    def title(self) -> str:
        """Serving and domain of the stratum in words."""
        return f"{self.serving.title}, domain {self.domain}"

    @property
    def rows(self) -> int:
        """Number of rows that one pass reads, averaged over the variants."""
        return round(sum(variant.available for variant in self.variants) / len(self.variants))

    @property
    def tokens(self) -> int:
        """Number of valid tokens that one pass reads, averaged over the variants."""
        return _mean_tokens(self.variants)

    def slots_per_token(self, slot_length: int) -> float:
        """Return the number of slots that one valid token needs, averaged over the stratum's rows.

        A stratum's share of tokens times this number is its rate of slots.
        """
        rows_per_slot = slot_length // self.serving.row_length
        rows = sum(variant.available for variant in self.variants)
        return rows / (rows_per_slot * sum(variant.tokens for variant in self.variants))


def demand(
    phase: ResolvedPhase, supplies: Sequence[Sequence[Supply]], taken: Taken | None = None
) -> tuple[Stratum, ...]:
    """Return the strata of a phase, by serving and domain; their `served` shares sum to 1.

    `supplies` are the training rows of each serving, in serving order, one supply per variant. A domain
    without rows has no stratum, even if the diet gives the domain a factor.

    Raises:
        MixtureError: for a serving without rows, and for a stratum whose demand exceeds max_repetition times
            its supply, unless the phase renormalises its shares.
    """
    assert len(supplies) == len(phase.servings)
    strata = [
        stratum
        for serving, variants in zip(phase.servings, supplies, strict=True)
        for stratum in _strata(serving, variants, taken or {})
    ]
    empty = [
        serving
        for serving in phase.servings
        if not any(stratum.serving.index == serving.index for stratum in strata)
    ]
    if empty and (phase.on_shortage == "stop" or not strata):
        raise MixtureError(
            f"phase {phase.name}",
            empty[0].title,
            cause="it has no rows",
            cure="Remove the serving, or build its rows from a larger corpus",
            location=(*phase.location, "servings", empty[0].index),
        )
    return within_supply(phase, strata)


def missing_domains(phase: ResolvedPhase, strata: Sequence[Stratum]) -> Iterator[str]:
    """Yield a sentence for each domain that the diet names although the domain has no rows."""
    for serving in phase.servings:
        there = {stratum.domain for stratum in strata if stratum.serving.index == serving.index}
        for name, factor in serving.domains:
            if factor and name not in {"*", *there}:
                yield f"{serving.title}: no row is of domain {name}, so its factor {factor:g} is idle"


def _strata(serving: ResolvedServing, supplies: Sequence[Supply], taken: Taken) -> list[Stratum]:
    """Return the strata of a serving.

    The serving's tokens are split among the domains in proportion to each domain's supply times its factor.
    """
    factors = dict(serving.domains)
    domains = sorted({domain for supply in supplies for domain in supply.domains})
    rest = factors.get("*", 1.0)
    found = {name: _variants(supplies, name, taken) for name in domains}
    variants = {name: own for name, own in found.items() if own}
    weights = {name: _mean_tokens(variants[name]) * factors.get(name, rest) for name in variants}
    whole = math.fsum(weights.values())
    return [
        Stratum(
            serving=serving,
            domain=name,
            variants=variants[name],
            share=serving.share * weight / whole,
            served=serving.share * weight / whole,
        )
        for name, weight in weights.items()
        if weight > 0
    ]


def _variants(supplies: Sequence[Supply], domain: str, taken: Taken) -> tuple[Variant, ...]:
    variants = (
        Variant(
            number=number,
            key=supply.key,
            rows=(rows := supply.rows_of(domain)),
            tokens=supply.tokens_of(domain),
            drawn_before=taken.get((supply.key, domain), 0),
            left_out=None if supply.left_out is None else supply.left_out[rows],
        )
        for number, supply in enumerate(supplies)
        if domain in supply.domains
    )
    return tuple(variant for variant in variants if variant.available)


def _mean_tokens(variants: Sequence[Variant]) -> int:
    return round(sum(variant.tokens for variant in variants) / len(variants))


def within_supply(phase: ResolvedPhase, strata: Sequence[Stratum]) -> tuple[Stratum, ...]:
    """Return the strata of a phase with the shares that they get within their supply.

    Raises:
        MixtureError: if the demand exceeds max_repetition times the supply, as for `demand`.
    """
    served = served_shares(
        [stratum.share for stratum in strata],
        [stratum.tokens for stratum in strata],
        budget=phase.tokens,
        max_repetition=phase.max_repetition,
        renormalises=phase.on_shortage != "stop",
    )
    if served.short and phase.on_shortage == "stop":
        raise _shortage(phase, strata, [strata[at] for at in served.short])
    if served.short and served.available < 1:
        raise _insufficient(phase, int(served.available * phase.tokens))
    return tuple(
        replace(stratum, served=share) for stratum, share in zip(strata, served.shares, strict=True)
    )


def _insufficient(phase: ResolvedPhase, there: int) -> MixtureError:
    return MixtureError(
        f"phase {phase.name}",
        f"{phase.tokens:,} tokens are requested",
        cause=f"all servings together supply {there:,} at max_repetition {phase.max_repetition:g}",
        cure=f"Lower token_budget to {_budget(phase, there)}, raise max_repetition or enlarge "
        "the corpus",
        location=phase.location,
    )


def _shortage(
    phase: ResolvedPhase, strata: Sequence[Stratum], short: Sequence[Stratum]
) -> MixtureError:
    worst = max(short, key=lambda stratum: stratum.share / stratum.tokens)
    asked = worst.share * phase.tokens
    times = math.ceil(100 * asked / worst.tokens) / 100
    fitting = int(phase.max_repetition * worst.tokens / worst.share)
    domains: dict[str, list[str]] = {}
    for stratum in short:
        if stratum is not worst:
            domains.setdefault(stratum.serving.title, []).append(stratum.domain)
    # One entry per serving: 'v2_simple causal at 512 (general, templates)'.
    others = "; ".join(f"{title} ({', '.join(names)})" for title, names in domains.items())
    lower = _lower_share(phase, strata, worst)
    return MixtureError(
        f"phase {phase.name}: {worst.title}",
        f"{asked:,.0f} tokens are requested, but only {worst.tokens:,} are available",
        cause=f"each row would be seen {times:g} times, and max_repetition is "
        f"{phase.max_repetition:g}{f'. Too few as well: {others}' if others else ''}",
        cure=f"Lower token_budget to {_budget(phase, fitting)}, raise max_repetition to "
        f"{math.ceil(times)}, {lower}{', ' * bool(lower)}enlarge the corpus, "
        "or set on_shortage: renormalise",
        location=(*phase.location, "servings", worst.serving.index),
    )


def _lower_share(phase: ResolvedPhase, strata: Sequence[Stratum], short: Stratum) -> str:
    """Return advice to lower the share of the stratum `short`, by its domain's factor or its serving's share.

    The advice is empty if the phase has one serving and the domain has no factor, because the share is then
    1.
    """
    serving = short.serving
    whole = math.fsum(stratum.share for stratum in strata if stratum.serving.index == serving.index)
    rest, most = whole - short.share, phase.max_repetition * short.tokens / phase.tokens
    factor = dict(serving.domains).get(short.domain)
    if factor is not None and rest > 0 and most < whole:
        fitting = factor * (most / (whole - most)) * (rest / short.share)
        return f"lower its factor in domains from {factor:g} to {_rounded_down(fitting):g}"
    if len(phase.servings) == 1:
        return ""
    fitting = serving.share * most / short.share
    return f"lower the serving's share from {serving.share:g} to {_rounded_down(fitting):g}"


def _rounded_down(value: float) -> float:
    """Round a positive number down to three significant digits.

    >>> _rounded_down(0.034567), _rounded_down(2.0)
    (0.0345, 2.0)
    """
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale


def _budget(phase: ResolvedPhase, tokens: int) -> str:
    """Return the token budget at which the phase has `tokens` tokens, as text such as 20K."""
    return f"{int(tokens / phase.portion / 1000)}K" if tokens > 1000 else str(tokens)
