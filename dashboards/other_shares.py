"""Panel of other shares: sliders for a diet, and the mixture at those shares, as the mix computes it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dashboards import charts, frame
from dashboards.charts import amount, share
from dashboards.frame import text
from dashboards.mixture_panels import Mixed, Serving, about
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


def supplies(found: Sequence[Serving]) -> list[Supply]:
    """Return the supplies, as the mix computes them."""
    return [
        Supply(serving=each.number, domain=one.domain, tokens=one.rows_tokens, share=one.share)
        for each in found
        for one in each.strata
    ]


def limits(found: Sequence[Serving], *, budget: int | None = None) -> Limits:
    """Return the limits of the phase."""
    first = found[0].strata[0]
    return Limits(
        budget=first.budget if budget is None else budget,
        max_repetition=first.max_repetition,
        renormalises=first.on_shortage == "renormalise",
    )


def card(
    which: Mixed,
    found: Sequence[Serving],
    controls: Sequence[str],
    asked: Sequence[float],
    times: tuple[str, float],
) -> str:
    """Sliders for the shares of each serving, and what the mix would make of them."""
    budget, budget_times = times
    now = limits(found)
    then = limits(found, budget=round(now.budget * budget_times))
    wanted = {each.number: part for each, part in zip(found, asked, strict=True)}
    those = at_shares(supplies(found), wanted)
    result = outcome(those, then)
    most = max([then.max_repetition, *(_times(result, those, then, each.number) for each in found)])
    lines = "".join(_line(each, controls[each.number], those, result, then, most) for each in found)
    heads = (
        '<th>serving</th><th>share asked</th><th class="n">share</th><th class="n">tokens</th><th></th>'
        '<th class="n">times seen</th>'
    )
    body = (
        f'<div class="budget"><label>Budget ×</label>{budget}<span>{amount(then.budget)} tokens, of '
        f"{amount(now.budget)} as planned</span></div>"
        f"<table class='data if'><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
        f'<p class="verdict {"no" if result.refusal else "yes"}">{text(_verdict(result))}</p>'
    )
    return frame.card(
        "what_if",
        "What if",
        body,
        asked=[about("servings", which)],
        why="Move the shares: they are made to sum to 1, and reckoned as the mix would. Small figures are "
        "those of the diet; times seen is of the domain that is seen most. Nothing is changed by this.",
    )


def _line(
    each: Serving,
    control: str,
    those: Sequence[Supply],
    result: Outcome,
    then: Limits,
    most: float,
) -> str:
    served = sum(
        part for one, part in zip(those, result.shares, strict=True) if one.serving == each.number
    )
    seen = _times(result, those, then, each.number)
    short = any(those[at].serving == each.number for at in result.short)
    look = frame.family(each.family)
    return (
        f'<tr data-serving="{each.number}"{" class=short" if short else ""}><th><i class="{look}"></i>'
        f"{text(each.family)} <small>{text(each.objective)} at {each.row_length:,}</small></th>"
        f"<td class=control>{control}</td>"
        f"<td class=n><b>{share(served)}</b><small>{share(each.share)}</small></td>"
        f"<td class=n><b>{amount(served * then.budget)}</b>"
        f"<small>{amount(each.share * each.strata[0].budget)}</small></td>"
        f'<td class="drawn">{charts.bar(seen, of=most, look=look, limit=then.max_repetition)}</td>'
        f"<td class=n><b>{seen:.2f}</b><small>{each.repetition:.2f}</small></td></tr>"
    )


def _times(result: Outcome, those: Sequence[Supply], then: Limits, number: int) -> float:
    """Return the repetition of a serving's tokens, in the domain that is seen most often."""
    return max(
        part * then.budget / one.tokens
        for one, part in zip(those, result.shares, strict=True)
        if one.serving == number and one.tokens
    )


def _verdict(result: Outcome) -> str:
    if result.refusal:
        return f"The mix would stop. {result.refusal}"
    if result.short:
        return (
            f"The mix would cut {len(result.short)} strata to what there is, and raise the others."
        )
    return "The mix would serve these shares as they are."
