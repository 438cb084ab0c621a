"""Costs of training: the machine's side of each phase, earlier attempts, and money."""

from collections.abc import Iterable, Iterator, Sequence

from curriculum.inspection.formats import duration, gpu_hours
from curriculum.inspection.runs import change
from curriculum.inspection.stage_tables import machine_line
from dashboards.html import escaped
from dashboards.report.facts import Attempt, Facts, PhaseFacts
from dashboards.report.marks import phase as phase_colour
from schemas.job import Report

COUNTED_HERE = ("GPU hours", "cost")
"""Columns of a run's line that have columns of their own here, with their sums."""


def spent(facts: Facts) -> str:
    """A line a run with what it took; attempts that are no more current are counted too."""
    reports = [report for each in facts.phases for report in each.spent]
    if not reports:
        return ""
    measured = [machine_line(report) for report in reports]
    columns = [
        name
        for name in measured[0]
        if name not in COUNTED_HERE and any(line[name] for line in measured)
    ]
    priced = any(report.cost is not None and report.gpu_seconds for report in reports)
    took = ["took", "GPU time", *(["cost"] if priced else [])]
    head = "".join(
        f'<th{"" if name in ("phase", "device") else " class=n"} scope="col">{name}</th>'
        for name in ("phase", *columns, "tokens a second", *took)
    )
    body = "".join(line for each in facts.phases for line in _phase(each, columns, priced=priced))
    empty = "<td></td>" * (len(columns) + 1)
    foot = f'<tr class="sum"><th scope="row">all</th>{empty}{_took(reports, priced=priced)}</tr>'
    return (
        f'<section class="card" id="spent"><h2>Time and cost</h2><p>{_said(facts, reports)}</p>'
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}{foot}</tbody></table></div>'
        "</section>"
    )


def _said(facts: Facts, reports: Iterable[Report]) -> str:
    prices = sorted({each.price for each in facts.phases if each.price is not None})
    if not any(report.gpu_seconds for report in reports):
        return "Trained without a GPU."
    if not prices:
        return "No price is known: set CURRICULUM_GPU_PRICE to what an hour of one GPU costs."
    return f"At {' and '.join(f'{price:,.2f}' for price in prices)} an hour of one GPU."


def _phase(each: PhaseFacts, columns: Sequence[str], *, priced: bool) -> Iterator[str]:
    look = phase_colour(each.number)
    if each.report is not None:
        yield _line(look, escaped(each.name), each.report, columns, priced=priced)
    for attempt in reversed(each.earlier):
        yield _line("earlier", _attempt(each, attempt), attempt.report, columns, priced=priced)


def _attempt(each: PhaseFacts, attempt: Attempt) -> str:
    report = attempt.report
    gained = change(report, "phase") or report.stopped
    said = f"attempt {attempt.number} of {attempt.key}, {gained}"
    return f"{escaped(each.name)}<small>{escaped(said)}</small>"


def _line(look: str, name: str, report: Report, columns: Sequence[str], *, priced: bool) -> str:
    measured = machine_line(report)
    machine = "".join(
        f'<td class="{"" if title == "device" else "n"}">{escaped(str(measured[title]))}</td>'
        for title in columns
    )
    return (
        f'<tr class="{look}"><th scope="row"><i></i>{name}</th>{machine}'
        f'<td class="n">{report.tokens_per_second:,.0f}</td>{_took([report], priced=priced)}</tr>'
    )


def _took(reports: Iterable[Report], *, priced: bool) -> str:
    reports = list(reports)
    gpu = sum(report.gpu_seconds for report in reports)
    cells = [duration(sum(report.seconds for report in reports)), gpu_hours(gpu) if gpu else "–"]
    if priced:
        costs = [report.cost for report in reports if report.cost is not None]
        cells.append(f"{sum(costs):,.2f}" if costs else "–")
    return "".join(f'<td class="n">{cell}</td>' for cell in cells)


def total(facts: Facts) -> tuple[float, float, float | None]:
    """Seconds, GPU seconds, and cost where a price is known, of all attempts."""
    reports = [report for each in facts.phases for report in each.spent]
    costs = [report.cost for report in reports if report.cost is not None]
    return (
        sum(report.seconds for report in reports),
        sum(report.gpu_seconds for report in reports),
        sum(costs) if costs else None,
    )
