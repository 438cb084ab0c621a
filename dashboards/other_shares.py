"""The panel of other shares: sliders for what a diet asks, and what the mix would make of it."""

from collections.abc import Sequence

from dashboards import charts, frame, what_if
from dashboards.charts import amount, share
from dashboards.frame import text
from dashboards.mixture_panels import Mixed, Serving, about


def supplies(found: Sequence[Serving]) -> list[what_if.Supply]:
    """Return the supplies, as the mix computes them."""
    return [
        what_if.Supply(
            serving=each.number, domain=one.domain, tokens=one.rows_tokens, share=one.share
        )
        for each in found
        for one in each.strata
    ]


def limits(found: Sequence[Serving], *, budget: int | None = None) -> what_if.Limits:
    """Return the limits of the phase."""
    first = found[0].strata[0]
    return what_if.Limits(
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
    those = what_if.at_shares(supplies(found), wanted)
    result = what_if.outcome(those, then)
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
    those: Sequence[what_if.Supply],
    result: what_if.Outcome,
    then: what_if.Limits,
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


def _times(
    result: what_if.Outcome, those: Sequence[what_if.Supply], then: what_if.Limits, number: int
) -> float:
    """Return the repetition of a serving's tokens, in the domain that is seen most often."""
    return max(
        part * then.budget / one.tokens
        for one, part in zip(those, result.shares, strict=True)
        if one.serving == number and one.tokens
    )


def _verdict(result: what_if.Outcome) -> str:
    if result.refusal:
        return f"The mix would stop. {result.refusal}"
    if result.short:
        return (
            f"The mix would cut {len(result.short)} strata to what there is, and raise the others."
        )
    return "The mix would serve these shares as they are."
