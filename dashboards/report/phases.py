"""The way through the curriculum: a band a phase by its share of the budget, and a line a phase."""

from collections.abc import Iterator

from curriculum.inspection.formats import bits, count, difference, duration, gpu_hours, moment, rule
from dashboards.html import escaped, quoted
from dashboards.report.facts import Facts, PhaseFacts, mean_of
from dashboards.report.marks import phase as phase_colour
from schemas.job import Report

APPROVAL = "approval"
NAMED_FROM = 0.13
"""Share of the width: narrower phases show their number only."""


def bands(facts: Facts) -> str:
    """The budget as one band: each phase as wide as its portion, filled as far as it is trained."""
    drawn, names, at = "", "", 0.0
    for each in facts.phases:
        width = each.phase.tokens / facts.token_budget
        looks = phase_colour(each.number)
        places = f'x="{100 * at:.3f}%" width="{100 * width:.3f}%"'
        filled = f'width="{100 * width * trained(each):.3f}%"'
        said = f"{each.name}: {each.standing.state}, {tokens_words(each)} tokens"
        drawn += (
            f'<g class="{looks} is-{each.standing.state}"><title>{escaped(said)}</title>'
            f'<rect class="ground" {places} height="100%"/>'
            f'<rect class="fill" x="{100 * at:.3f}%" {filled} height="100%"/>'
            f'<line x1="{100 * (at + width):.3f}%" x2="{100 * (at + width):.3f}%" y1="0" y2="100%"/></g>'
        )
        names += named(each, at + width / 2, width, 13)
        at += width
    label = quoted(f"{facts.specialist}: {len(facts.phases)} phases by their share of the budget")
    return (
        f'<svg class="way" role="img" aria-label="{label}">{drawn}</svg>'
        f'<svg class="numbers" aria-hidden="true">{names}</svg>'
    )


def named(each: PhaseFacts, at: float, width: float, y: int) -> str:
    """A phase's number in the middle of its share of a width, with its name where there is room."""
    name = f'<tspan class="name"> {escaped(each.name)}</tspan>' if width >= NAMED_FROM else ""
    return f'<text x="{100 * at:.3f}%" y="{y}">{each.number}{name}</text>'


def trained(each: PhaseFacts) -> float:
    """The share of a phase's budget that was trained on."""
    if each.report is not None:
        # Steps are whole: a phase ends below its budget by less than one.
        ended = each.report.stopped == "budget"
        return 1.0 if ended else min(1.0, each.report.tokens.valid / each.phase.tokens)
    beat = each.beat
    return min(1.0, beat.step / beat.steps) if beat and beat.steps else 0.0


def tokens_words(each: PhaseFacts) -> str:
    """Return the share of a phase's asked tokens that was trained on, in words."""
    asked = count(each.phase.tokens)
    if each.report is not None:
        return f"{count(each.report.tokens.valid)} of {asked}"
    beat = each.beat
    return f"{count(beat.valid_tokens)} of {asked}" if beat is not None else asked


def table(facts: Facts) -> str:
    """A line a phase: how it stands, what it consumed, its gate, what it gained, what it took."""
    priced = any(report.cost for each in facts.phases for report in each.spent)
    heads = ["", "phase", "state", "tokens", "gate", "val_bpb of its mixture", "anchor", "took"]
    numbers = {"tokens", "val_bpb of its mixture", "anchor", "took", "cost"}
    heads += ["cost"] if priced else []
    head = "".join(
        f'<th{" class=n" if name in numbers else ""} scope="col">{name}</th>' for name in heads
    )
    rows = "\n".join(_row(each, priced=priced) for each in facts.phases)
    return f'<table class="phases"><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>'


def _row(each: PhaseFacts, *, priced: bool) -> str:
    report = each.report
    cells = [
        f'<td class="{phase_colour(each.number)}"><b class="number">{each.number}</b></td>',
        f'<th scope="row"><a href="#{quoted(each.name)}">{escaped(each.name)}</a></th>',
        f"<td>{state(each, short=True)}</td>",
        f'<td class="n">{tokens_words(each)}</td>',
        f"<td>{''.join(gate(each))}</td>",
        f'<td class="n">{_change(report, each.evaluation) if report else ""}</td>',
        f'<td class="n">{_change(report, "anchor") if report else ""}</td>',
        f'<td class="n">{_took(report) if report else ""}</td>',
    ]
    if priced:
        cost = report.cost if report else None
        cells.append(f'<td class="n">{"" if cost is None else f"{cost:,.2f}"}</td>')
    return f'<tr data-phase="{quoted(each.name)}">{"".join(cells)}</tr>'


def state(each: PhaseFacts, *, short: bool = False) -> str:
    """Describe the state of a phase, with its reason; in short with the first sentence of it."""
    stands = each.standing
    is_done = stands.state == "done" and each.ended
    note = moment(each.ended) if is_done else stands.why
    note = note.partition(". ")[0] if short else note
    # What waits has been trained and waits for somebody; or it waits for its turn.
    looks = f"is-{stands.state}{' has-run' if each.report else ''}"
    return f'<span class="state {looks}">{stands.state}</span><small>{escaped(note)}</small>'


def gate(each: PhaseFacts) -> Iterator[str]:
    """Yield why the phase ended, the rule of its gate, and its approval."""
    report, asked = each.report, rule(each.phase.advance_when)
    if report is not None:
        ended = {
            "gate": f"opened: {report.reason}",
            "budget": f"budget spent: {report.reason}",
            "failed": report.reason,
            "cancelled": "cancelled",
        }
        yield f"<span>{escaped(ended[report.stopped])}</span>"
    if asked:
        yield f"<small>gate: {escaped(asked)}; {_else(each)}</small>"
    elif report is None:
        yield "<span>ends with its budget</span>"
    if each.approval is not None:
        said = (
            f" \N{LEFT DOUBLE QUOTATION MARK}{each.approval.comment}\N{RIGHT DOUBLE QUOTATION MARK}"
        )
        comment = said if each.approval.comment else ""
        who = f"approved by {each.approval.who}, {moment(each.approval.when)}{comment}"
        yield f'<small class="approved">{escaped(who)}</small>'
    elif APPROVAL in each.phase.require:
        yield "<small>needs approval</small>"


def _else(each: PhaseFacts) -> str:
    return "its budget holds" if each.phase.on_budget == "hold" else "its budget ends it too"


def _change(report: Report, evaluation: str) -> str:
    """Before and after, and by how much."""
    before, after = mean_of(report.before, evaluation), mean_of(report.after, evaluation)
    if after is None:
        return ""
    if before is None:
        return bits(after.val_bpb)
    fell = difference(after.val_bpb - before.val_bpb)
    return f"{bits(before.val_bpb)} → {bits(after.val_bpb)}<small>{fell}</small>"


def _took(report: Report) -> str:
    where = (
        f"<small>{gpu_hours(report.gpu_seconds)}</small>"
        if report.gpu_seconds
        else f"<small>{escaped(report.device)}</small>"
    )
    return f"{duration(report.seconds)}{where}"
