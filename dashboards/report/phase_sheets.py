"""Sheets of the phases: mixture, rows and figures of each, and sources of the documents."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import get_args

from curriculum.encode.documents import Outcome
from curriculum.inspection.formats import count, number, percent
from curriculum.inspection.stage_tables import figure_lines
from curriculum.mixing.resolve import ResolvedServing
from curriculum.mixing.tree import Branch, explain_plan
from dashboards.html import escaped, quoted
from dashboards.report.facts import Facts, Losses, Packed, PhaseFacts, Source
from dashboards.report.marks import Part, bar, ring_and_dot
from dashboards.report.marks import family as family_colour
from dashboards.report.marks import phase as phase_colour
from dashboards.report.phases import state, tokens_words
from dashboards.rows.draw import documents as documents_strip
from dashboards.rows.draw import mask
from schemas.job import Report
from schemas.mixture import MixtureReport

MOST_REASONS = 8


def build(facts: Facts) -> str:
    """Documents by family beside the losses by reason."""
    if not facts.sources:
        return ""
    most = max(each.num_bytes for each in facts.sources) or 1
    lines = "".join(_source(each, most) for each in facts.sources)
    losses = facts.losses
    kept = (
        f"{losses.kept:,} of {losses.documents:,} documents kept, {losses.val:,} of them held out"
    )
    return (
        f'<section class="card" id="documents"><h2>Documents</h2><p>{escaped(facts.corpus)}: '
        f'{losses.changes:,} changes read; {kept}.</p><div class="two"><section><h3>Made</h3>'
        f'<table class="made"><thead><tr><th scope="col">family</th><th class="n" scope="col">documents'
        f'</th><th class="n" scope="col">bytes</th><th></th></tr></thead><tbody>{lines}</tbody></table>'
        f"</section><section><h3>Left out</h3>{_losses(losses)}</section></div></section>"
    )


def _source(source: Source, most: int) -> str:
    share = source.num_bytes / most
    return (
        f'<tr class="{family_colour(source.family.partition(" ")[0])}"><th scope="row"><i></i>'
        f'{escaped(source.family)}</th><td class="n">{source.documents:,}</td>'
        f'<td class="n">{count(source.num_bytes)}B</td>'
        f"<td>{bar([Part(share=share, look='own')], label=f'{count(source.num_bytes)}B')}</td></tr>"
    )


def _losses(losses: Losses) -> str:
    groups = (
        ("lost", "Changes that can’t be read", losses.lost),
        ("", "Changes that the corpus leaves out", losses.chosen),
        ("", "Changes that a family makes nothing of", losses.left_out),
        ("", "Documents that aren’t kept", losses.rejected),
    )
    most = max((number for _, _, counted in groups for _, number in counted), default=0)
    if not most:
        return "<p>Nothing.</p>"
    nothing_lost = "" if losses.lost else "<p>Everything could be read.</p>"
    return nothing_lost + "".join(
        _group(look, title, counted, most) for look, title, counted in groups if counted
    )


def _group(look: str, title: str, counted: Sequence[tuple[str, int]], most: int) -> str:
    shown = [*counted[:MOST_REASONS]]
    rest = counted[MOST_REASONS:]
    if rest:
        shown.append((f"{len(rest)} more reasons", sum(number for _, number in rest)))
    lines = "".join(
        f'<tr><th scope="row">{escaped(reason.replace("_", " "))}</th><td class="n">{number:,}</td>'
        f"<td>{bar([Part(share=number / most, look='own')], label=f'{number:,}')}</td></tr>"
        for reason, number in shown
    )
    return f'<h4>{title}</h4><table class="losses {look}"><tbody>{lines}</tbody></table>'


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
    if each.report and each.report.mean_context is not None:
        facts.append(f"mean context {each.report.mean_context:,.0f} tokens")
    if each.run:
        facts.append(each.run)
    return " ".join(f"<span>{escaped(fact)}</span>" for fact in facts)


def _mixture(each: PhaseFacts) -> str:
    report, servings = each.mixture, each.phase.servings
    if report is None:
        of = _scale([serving.share for serving in servings], 0.25)
        lines = "".join(
            _serving_line(_named(serving), serving.share, None, of=of, family=serving.family)
            for serving in servings
        )
        said = "Ring: the diet’s share. Nothing is mixed yet."
    else:
        plan = explain_plan(report, title=each.name, key="")
        held = {branch.serving: branch for branch in plan.branches}
        branches = [held.get(serving.index) or _without_rows(serving) for serving in servings]
        of = _scale([share for branch in branches for share in _shares(branch)], 0.25)
        lines = "".join(map(_serving, branches, servings, itertools.repeat(of)))
        said = f"Ring: the diet’s share. Dot: what the plan holds. {_said(each, report)}"
    heads = "".join(f"<span>{head}</span>" for head in ("planned", "realised", "seen", "tokens"))
    warned = "".join(_warnings(report)) if report else ""
    return (
        f"<section><h3>Mixture</h3><p>{escaped(said)}</p>"
        f'<div class="lanes"><div class="lane-line heads"><span></span>{_axis(of)}{heads}</div>{lines}'
        f"</div>{warned}</section>"
    )


def _without_rows(serving: ResolvedServing) -> Branch:
    """A serving of which the plan holds nothing: its share went to the others."""
    return Branch(title=serving.title, tokens=0, planned=serving.share, realised=0.0)


def _named(serving: ResolvedServing) -> tuple[str, str]:
    """A serving's name, and how it is served."""
    of = f" of {serving.base}" if serving.base else ""
    only = f", {', '.join(serving.repositories)}" if serving.repositories else ""
    if serving.imported is not None:
        how = f"{serving.family}, {serving.objective} at {serving.row_length:,}, imported"
        return serving.imported.name, how
    return f"{serving.family}{of}", f"{serving.objective} at {serving.row_length:,}{only}"


def _said(each: PhaseFacts, report: MixtureReport) -> str:
    """Return the share of the plan that was trained on, in words."""
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
    return min(1.0, max(step, math.ceil(max(shares, default=0.0) / step - 1e-9) * step))


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


def _serving(branch: Branch, serving: ResolvedServing, of: float) -> str:
    """A serving's line, and below it, folded away, one for each of its domains."""
    own = _serving_line(
        _named(serving),
        branch.planned,
        branch.realised,
        of=of,
        family=serving.family,
        figures=_seen(branch),
    )
    if not branch.branches:
        return own
    within = _scale([share for each in branch.branches for share in _shares(each)], 0.1)
    lines = "".join(
        _serving_line(
            (each.title, ""),
            each.planned,
            each.realised,
            of=within,
            family=serving.family,
            figures=_seen(each),
        )
        for each in branch.branches
    )
    # Their axis ends elsewhere: they are shares of the serving, not of the phase.
    head = f'<div class="lane-line heads"><span>share of the serving</span>{_axis(within)}</div>'
    domains = number(len(branch.branches), "domain")
    return f"{own}<details><summary>{domains}</summary>{head}{lines}</details>"


def _seen(branch: Branch) -> tuple[str, str]:
    seen = "" if branch.repetition is None else f"{branch.repetition:.2f}×"
    return seen, count(branch.tokens)


def _serving_line(
    named: tuple[str, str],
    planned: float,
    realised: float | None,
    *,
    of: float,
    family: str,
    figures: tuple[str, str] = ("", ""),
) -> str:
    """A line of a name, its ring and dot, and its numbers."""
    looks = family_colour(family)
    numbers = [percent(planned), "" if realised is None else percent(realised), *figures]
    said = "".join(f"<span>{each}</span>" for each in numbers)
    return (
        f'<div class="lane-line {looks}"><b>{"".join(_name(*named))}</b>'
        f"{ring_and_dot(planned, realised, of=of, look=looks)}{said}</div>"
    )


def _name(name: str, how: str) -> Iterator[str]:
    yield escaped(name)
    if how:
        yield f" <small>{escaped(how)}</small>"


def _rows(each: PhaseFacts) -> str:
    if not each.packed:
        return "<section><h3>Packed rows</h3><p>Nothing is built yet.</p></section>"
    met = [name for name in OUTCOME_WORDS if any(name in row.documents for row in each.packed)]
    legend = "".join(f'<li class="o-{name}">{OUTCOME_WORDS[name]}</li>' for name in met)
    looks = any(row.example for row in each.packed)
    beside = "Beside: a row; press it to look inside. " if looks else ""
    return (
        f"<section><h3>Packed rows</h3><p>{beside}Above: how full. Below: what became of the documents.</p>"
        f'{"".join(map(_packed, each.packed))}<ul class="legend">{legend}</ul></section>'
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
        f'<div class="packed {family_colour(row.family)}">{_example(row)}'
        f"<b>{''.join(_name(row.name, row.how))}</b>"
        f"<span>{number(row.rows, 'row')}</span><span>{full} full</span>"
        f"{bar([Part(share=row.full, look='own', title=f'{full} full')], label=f'{full} full')}"
        f"{bar(parts, label=said)}<small>{escaped(said)}</small></div>"
    )


def _example(row: Packed) -> str:
    """A row as its documents side by side and as its mask; it leads to the page that shows all of it."""
    shown = row.example
    if shown is None:
        return ""
    said = f"A row of {number(len(shown.spans), 'document')}: look at it token by token"
    return (
        f'<a class="example" href="{quoted(shown.link)}" title="{said}" aria-label="{said}">'
        f"{mask(shown.spans, shown.length, small=True)}{documents_strip(shown.spans, shown.length)}</a>"
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
