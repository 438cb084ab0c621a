"""Time and cost of training: attempts on one axis of time, and what each run took of machines and money."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from curriculum.inspection.formats import duration, gpu_hours, integer, moment, money
from curriculum.inspection.run_tables import machine_line
from curriculum.inspection.runs import change
from dashboards.charts import marks, plots
from dashboards.palette import phase_class
from dashboards.report.facts import Facts, PhaseFacts
from schemas.job import Report

TICKS = 4
"""Parts of the axis of time."""
COUNTED_HERE = ("GPU hours", "cost")
"""Columns of a run's line that have columns of their own here, with their sums."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """An attempt, from its beginning to its end."""

    name: str
    look: str
    start: datetime.datetime
    end: datetime.datetime
    ending: str
    approved: datetime.datetime | None = None

    @property
    def took(self) -> str:
        """The time from beginning to end, in words."""
        return duration((self.end - self.start).total_seconds())


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeLine:
    """The attempts in the order of the phases, on one axis of time."""

    spans: tuple[Span, ...]
    scale: plots.Scale
    seconds: float

    @property
    def has_approvals(self) -> bool:
        """True if one of them was approved."""
        return any(span.approved for span in self.spans)

    @property
    def axis(self) -> Markup:
        """The axis of time."""
        return marks.axis([label for _, label in self.scale.ticks])

    def line_of(self, span: Span) -> Markup:
        """An attempt on the axis."""
        from_to = " to ".join(moment(then.isoformat()) for then in (span.start, span.end))
        return marks.time_line(
            self.scale.share(span.start.timestamp()),
            self.scale.share(span.end.timestamp()),
            look=span.look,
            title=f"{span.name}: {from_to}, {span.ending}",
            mark=self.scale.share(span.approved.timestamp()) if span.approved else None,
        )


def time_line(facts: Facts) -> TimeLine | None:
    """The attempts on one axis of time; None where it isn't known when one was trained."""
    spans = tuple(span for phase in facts.phases for span in _spans(phase, facts.written))
    if not spans:
        return None
    first = min(span.start for span in spans)
    last = max(max(span.end, span.approved or span.end) for span in spans)
    seconds = max((last - first).total_seconds(), 1.0)
    scale = plots.times(first.timestamp(), first.timestamp() + seconds, parts=TICKS)
    return TimeLine(spans=spans, scale=scale, seconds=seconds)


def _spans(phase: PhaseFacts, now: str) -> Iterator[Span]:
    look = phase_class(phase.number)
    for run in phase.earlier:
        if run.started and run.ended:
            ending = f"attempt {run.report.attempt}, {run.report.stopped}"
            start, end = _utc(run.started), _utc(run.ended)
            yield Span(name=phase.name, look=f"{look} earlier", start=start, end=end, ending=ending)
    if phase.started:
        yield Span(
            name=phase.name,
            look=look if phase.ended else f"{look} is-running",
            start=_utc(phase.started),
            end=_utc(phase.ended or now),
            ending=phase.report.stopped if phase.report else "running",
            approved=_utc(phase.approval.when) if phase.approval else None,
        )


def _utc(iso: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(iso).astimezone(datetime.UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLine:
    """A run's line: its machine's columns, then time, GPU time and cost."""

    name: str
    look: str
    note: str
    machine: tuple[str, ...]
    tokens_per_second: str
    took: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Time, machines and money of each run, and of all together."""

    columns: tuple[str, ...]
    """Columns of the machine."""
    took: tuple[str, ...]
    """Columns of which there are sums."""
    price: str
    lines: tuple[RunLine, ...]
    totals: tuple[str, ...]


def costs(facts: Facts) -> Costs | None:
    """A line a run; attempts that were replaced are counted too. None where nothing was trained."""
    reports = [report for each in facts.phases for report in each.spent]
    if not reports:
        return None
    measured = [machine_line(report) for report in reports]
    columns = tuple(
        name
        for name in measured[0]
        if name not in COUNTED_HERE and any(line[name] for line in measured)
    )
    is_priced = any(report.cost is not None and report.gpu_seconds for report in reports)
    return Costs(
        columns=columns,
        took=("took", "GPU time", *(["cost"] if is_priced else [])),
        price=_price(facts, reports),
        lines=tuple(
            line for each in facts.phases for line in _run_lines(each, columns, is_priced=is_priced)
        ),
        totals=_took(reports, is_priced=is_priced),
    )


def _price(facts: Facts, reports: Sequence[Report]) -> str:
    prices = sorted(
        {each.run.price for each in facts.phases if each.run and each.run.price is not None}
    )
    if not any(report.gpu_seconds for report in reports):
        return "Trained without a GPU."
    if not prices:
        return "No price is known: set CURRICULUM_GPU_PRICE to what an hour of one GPU costs."
    return f"At {' and '.join(map(money, prices))} an hour of one GPU."


def _run_lines(each: PhaseFacts, columns: Sequence[str], *, is_priced: bool) -> Iterator[RunLine]:
    runs = [(each.report, phase_class(each.number), "")] if each.report else []
    for attempt in reversed(each.earlier):
        gained = change(attempt.report, "phase") or attempt.report.stopped
        note = f"attempt {attempt.report.attempt} of {attempt.key}, {gained}"
        runs.append((attempt.report, "earlier", note))
    for report, look, note in runs:
        measured = machine_line(report)
        yield RunLine(
            name=each.name,
            look=look,
            note=note,
            machine=tuple(str(measured[column]) for column in columns),
            tokens_per_second=integer(report.tokens_per_second),
            took=_took([report], is_priced=is_priced),
        )


def _took(reports: Sequence[Report], *, is_priced: bool) -> tuple[str, ...]:
    gpu_seconds = sum(report.gpu_seconds for report in reports)
    took = duration(sum(report.seconds for report in reports))
    cells = (took, gpu_hours(gpu_seconds) if gpu_seconds else "–")
    if not is_priced:
        return cells
    paid = [report.cost for report in reports if report.cost is not None]
    return (*cells, money(sum(paid)) if paid else "–")
