"""Mixture at other shares, computed as the mix itself does."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schemas.mixture import cut_to


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """Supply of one serving in one domain, and a plan's use of it."""

    serving: int
    domain: str
    tokens: int
    """Valid tokens of one pass over its rows."""
    share: float
    """Share of the phase's tokens in the diet; then at the other shares."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of a phase."""

    budget: int
    """Valid tokens."""
    max_repetition: float
    renormalises: bool
    """True if shares are cut to what there is; else the mix stops."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Result of a mix at other shares."""

    shares: tuple[float, ...]
    """Served, of each supply in their order; they sum to 1."""
    short: tuple[int, ...]
    """Supplies of which more is asked than there is."""
    refusal: str
    """Reason why the mix would stop; empty where it goes on."""


def at_shares(supplies: Sequence[Supply], asked: Mapping[int, float]) -> list[Supply]:
    """The supplies with other shares of their servings; inside one, domains keep their proportion.

    >>> parts = (("a", 0.1), ("b", 0.3))
    >>> both = [Supply(serving=0, domain=name, tokens=1, share=part) for name, part in parts]
    >>> [round(each.share, 3) for each in at_shares(both, {0: 0.8})]
    [0.2, 0.6]
    """
    whole: dict[int, float] = {}
    for each in supplies:
        whole[each.serving] = whole.get(each.serving, 0.0) + each.share
    return [
        replace(each, share=asked[each.serving] * each.share / (whole[each.serving] or 1.0))
        for each in supplies
    ]


def outcome(supplies: Sequence[Supply], limits: Limits) -> Outcome:
    """Return the amounts that the mix would serve of each supply, or why it would stop."""
    whole = math.fsum(each.share for each in supplies)
    if whole <= 0:
        nothing = tuple(0.0 for _ in supplies)
        return Outcome(shares=nothing, short=(), refusal="Nothing is asked.")
    shares = [each.share / whole for each in supplies]
    # A serving that nothing is asked of is as good as left out.
    most = [
        limits.max_repetition * each.tokens / limits.budget if each.share else 0.0
        for each in supplies
    ]
    short = tuple(at for at, share in enumerate(shares) if share > most[at])
    if not short:
        return Outcome(shares=tuple(shares), short=(), refusal="")
    if not limits.renormalises:
        said = _shortage(supplies, shares, short, limits)
        return Outcome(shares=tuple(shares), short=short, refusal=said)
    if math.fsum(most) < 1:
        there = int(math.fsum(most) * limits.budget)
        said = (
            f"{limits.budget:,} tokens are asked, and all servings together have {there:,} at a "
            f"repetition of {limits.max_repetition:g}."
        )
        return Outcome(shares=tuple(shares), short=short, refusal=said)
    return Outcome(shares=tuple(cut_to(shares, most)), short=short, refusal="")


def _shortage(
    supplies: Sequence[Supply], shares: Sequence[float], short: Sequence[int], limits: Limits
) -> str:
    worst = max(short, key=lambda at: shares[at] / supplies[at].tokens)
    asked = shares[worst] * limits.budget
    others = f", and {len(short) - 1} more are short" if len(short) > 1 else ""
    return (
        f"Domain {supplies[worst].domain}: {asked:,.0f} tokens are asked and there are "
        f"{supplies[worst].tokens:,}{others}. Each row would be seen "
        f"{asked / supplies[worst].tokens:.2f} times; max_repetition is {limits.max_repetition:g}."
    )
