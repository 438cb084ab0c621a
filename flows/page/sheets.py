"""A sheet a phase: its mixture, planned and realised, how full its rows are, its figures by domain."""

import math
from collections.abc import Iterator, Sequence
from typing import get_args

from curriculum.diets.tree import Branch, explain_plan
from curriculum.encode.documents import Outcome
from flows.lines import count, figure_lines, number, percent
from flows.page.colours import family as family_colour
from flows.page.colours import phase as phase_colour
from flows.page.facts import Packed, PhaseFacts
from flows.page.marks import Part, bar, quoted, ring_and_dot
from flows.page.way import state, tokens_words
from flows.template import escaped
from schemas.job import Report
from schemas.mixture import MixtureReport

OUTCOME_WORDS: dict[Outcome, str] = {
    "whole": "whole",
    "elided": "some context left out",
    "divided": "divided over rows",
    "routed": "left to longer rows",
    "straddles": "on both sides of the split",
    "dropped": "dropped",
}
assert tuple(OUTCOME_WORDS) == get_args(Outcome)


def sheet(each: PhaseFacts) -> str:
    """All of a phase that isn't in the table of phases."""
    parts = [_mixture(each), _rows(each)]
    return (
        f'<article class="card" id="{quoted(each.name)}"><header class="{phase_colour(each.number)}">'
        f'<h2><b class="number">{each.number}</b> {escaped(each.name)}</h2>{state(each)}'
        f"<p>{escaped(each.phase.why)}</p><p class=facts>{_facts(each)}</p></header>"
        f'<div class="two">{"".join(parts)}</div>{_figures(each.report)}</article>'
    )


def _facts(each: PhaseFacts) -> str:
    lengths = sorted({serving.row_length for serving in each.phase.servings})
    facts = [
        f"rows of {', '.join(f'{length:,}' for length in lengths)} tokens",
        f"{tokens_words(each)} tokens",
    ]
    if each.mixture is not None:
        steps = each.report.steps if each.report else 0
        facts.append(f"{steps:,} of {number(each.mixture.steps, 'step')}")
    if each.run:
        facts.append(each.run)
    return " ".join(f"<span>{escaped(fact)}</span>" for fact in facts)


def _mixture(each: PhaseFacts) -> str:
    report = each.mixture
    if report is None:
        lines = "".join(
            _lane(
                serving.title, serving.share, None, of=1.0, family=serving.family, figures=["", ""]
            )
            for serving in each.phase.servings
        )
        return f"<section><h3>Mixture</h3><p>As the diet plans it; nothing is mixed yet.</p>{lines}</section>"
    plan = explain_plan(report, title=each.name, key="")
    of = _scale([share for branch in plan.branches for share in _shares(branch)], 0.25)
    families = {stratum.serving: stratum.family for stratum in report.strata}
    drawn = "".join(
        _serving(branch, families[at], of)
        for at, branch in zip(sorted(families), plan.branches, strict=True)
    )
    return (
        "<section><h3>Mixture</h3>"
        f"<p>Ring: the diet’s share. Dot: what the plan holds. {escaped(_said(each, report))}</p>"
        f'<div class="lanes"><div class="lane-line heads"><span></span>{_axis(of)}<span>planned</span>'
        f"<span>realised</span><span>seen</span><span>tokens</span></div>{drawn}</div>"
        f"{''.join(_warnings(report))}</section>"
    )


def _said(each: PhaseFacts, report: MixtureReport) -> str:
    """How much of the plan was trained on."""
    if each.report is None or each.report.stopped == "budget":
        return ""
    share = each.report.tokens.valid / report.budget
    return (
        f"The first {share:.0%} of it were trained on; any part of a plan is mixed like the whole."
    )


def _warnings(report: MixtureReport) -> Iterator[str]:
    for line in report.warnings:
        yield f'<p class="warning">{escaped(line)}</p>'
    if report.left_out is not None:
        gone = report.left_out
        said = f"{number(gone.rows, 'row')} of {count(gone.tokens)} tokens left out"
        yield f'<p class="warning">{escaped(said)}</p>'


def _shares(branch: Branch) -> list[float]:
    return [branch.planned, branch.realised or 0.0]


def _scale(shares: Sequence[float], step: float) -> float:
    """The end of an axis: the largest share, rounded up."""
    return min(1.0, max(step, math.ceil(max(shares) / step - 1e-9) * step))


def _axis(of: float) -> str:
    ticks = "".join(
        f'<text x="{at}%" class="{look}" y="11">{percent_of(of * at / 100)}</text>'
        for at, look in ((0, "start"), (50, "mid"), (100, "end"))
    )
    return f'<svg class="scale" aria-hidden="true">{ticks}</svg>'


def percent_of(share: float) -> str:
    """A share without needless digits.

    >>> percent_of(0.5), percent_of(0.125)
    ('50%', '12.5%')
    """
    return f"{100 * share:g}%"


def _serving(branch: Branch, family: str, of: float) -> str:
    seen = f"{branch.repetition:.2f}×" if branch.repetition is not None else ""
    own = _lane(
        branch.title,
        branch.planned,
        branch.realised,
        of=of,
        family=family,
        figures=[seen, count(branch.tokens)],
    )
    if not branch.branches:
        return own
    within = _scale([share for each in branch.branches for share in _shares(each)], 0.1)
    lines = "".join(
        _lane(
            each.title,
            each.planned,
            each.realised,
            of=within,
            family=family,
            figures=[
                "" if each.repetition is None else f"{each.repetition:.2f}×",
                count(each.tokens),
            ],
        )
        for each in branch.branches
    )
    # The axis ends elsewhere: shares of the serving, not of the phase.
    head = (
        f'<div class="lane-line heads"><span>share of the serving</span>{_axis(within)}'
        "<span></span><span></span><span></span><span></span></div>"
    )
    count_of = number(len(branch.branches), "domain")
    return f"{own}<details><summary>{count_of}</summary>{head}{lines}</details>"


def _lane(
    title: str,
    planned: float,
    realised: float | None,
    *,
    of: float,
    family: str,
    figures: Sequence[str],
) -> str:
    """A line of a name, its ring and dot, and its numbers."""
    looks = family_colour(family)
    numbers = [percent(planned), "" if realised is None else percent(realised), *figures]
    said = "".join(f"<span>{each}</span>" for each in numbers)
    return (
        f'<div class="lane-line {looks}"><b title="{quoted(title)}">{escaped(title)}</b>'
        f"{ring_and_dot(planned, realised, of=of, look=looks)}{said}</div>"
    )


def _rows(each: PhaseFacts) -> str:
    if not each.packed:
        return "<section><h3>Packed rows</h3><p>Nothing is built yet.</p></section>"
    met = [name for name in OUTCOME_WORDS if any(name in row.documents for row in each.packed)]
    legend = "".join(f'<li class="o-{name}">{OUTCOME_WORDS[name]}</li>' for name in met)
    return (
        "<section><h3>Packed rows</h3><p>Above: positions that hold tokens. Below: what became of the "
        f'documents.</p>{"".join(map(_packed, each.packed))}<ul class="legend">{legend}</ul></section>'
    )


def _packed(row: Packed) -> str:
    documents = sum(row.documents.values())
    met = {name: row.documents[name] for name in OUTCOME_WORDS if row.documents.get(name)}
    parts = [
        Part(share=amount / documents, look=f"o-{name}", title=f"{OUTCOME_WORDS[name]}: {amount:,}")
        for name, amount in met.items()
    ]
    said = ", ".join(f"{amount:,} {OUTCOME_WORDS[name]}" for name, amount in met.items())
    full = percent(row.full)
    return (
        f'<div class="packed {family_colour(row.family)}"><b>{escaped(row.title)}</b>'
        f"<span>{number(row.rows, 'row')}</span><span>{full} full</span>"
        f"{bar([Part(share=row.full, look='own', title=f'{full} full')], label=f'{full} full')}"
        f"{bar(parts, label=said)}<small>{escaped(said)}</small></div>"
    )


def _figures(report: Report | None) -> str:
    """val_bpb by evaluation, family and domain, folded away."""
    lines = [*figure_lines(report)] if report else []
    if not lines:
        return ""
    numbers = {"before", "after", "interval"}
    head = "".join(
        f'<th{" class=n" if name in numbers else ""} scope="col">{name}</th>' for name in lines[0]
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=n' if name in numbers else ''}>{escaped(str(value))}</td>"
            for name, value in line.items()
        )
        + "</tr>"
        for line in lines
    )
    return (
        f"<details class=figures><summary>val_bpb by family and domain, {len(lines)} figures</summary>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>"
    )
