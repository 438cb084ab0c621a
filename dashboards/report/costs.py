"""Timeline of training attempts, and the time, the devices and the cost of each run."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from curriculum.inspection.formats import duration, gpu_hours, moment, money
from curriculum.inspection.run_tables import machine_line
from curriculum.inspection.runs import change
from dashboards.charts import marks, plots
from dashboards.palette import phase_class
from dashboards.report.facts import Facts, PhaseFacts
from schemas.job import Report

TICKS = 4
"""Number of intervals of the time axis."""
COUNTED_HERE = ("GPU hours", "cost")
"""Columns of `machine_line` that are left out, because this table has columns with totals for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptSpan:
    """An attempt at training a phase, with its start and its end."""

    name: str
    look: str
    start: datetime.datetime
    end: datetime.datetime
    ending: str
    approved: datetime.datetime | None = None

    @property
    def elapsed(self) -> str:
        """Time from the start to the end, in words."""
        return duration((self.end - self.start).total_seconds())


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeLine:
    """Attempts in the order of their phases, drawn on one time axis."""

    spans: tuple[AttemptSpan, ...]
    scale: plots.Scale
    seconds: float

    @property
    def has_approvals(self) -> bool:
        """True if any of the attempts was approved."""
        return any(span.approved for span in self.spans)

    @property
    def axis(self) -> Markup:
        """Axis with labelled times."""
        return marks.axis([label for _, label in self.scale.ticks])

    def line_of(self, span: AttemptSpan) -> Markup:
        """Return the lane of an attempt, in which a bar shows its start and end on the axis."""
        from_to = " to ".join(moment(then.isoformat()) for then in (span.start, span.end))
        return marks.time_line(
            self.scale.share(span.start.timestamp()),
            self.scale.share(span.end.timestamp()),
            look=span.look,
            title=f"{span.name}: {from_to}, {span.ending}",
            mark=self.scale.share(span.approved.timestamp()) if span.approved else None,
        )


def time_line(facts: Facts) -> TimeLine | None:
    """Return the timeline; None if the start of no attempt is known."""
    spans = tuple(span for phase in facts.phases for span in _spans(phase, facts.written))
    if not spans:
        return None
    first = min(span.start for span in spans)
    last = max(max(span.end, span.approved or span.end) for span in spans)
    seconds = max((last - first).total_seconds(), 1.0)
    scale = plots.times(first.timestamp(), first.timestamp() + seconds, parts=TICKS)
    return TimeLine(spans=spans, scale=scale, seconds=seconds)


def _spans(phase: PhaseFacts, now: str) -> Iterator[AttemptSpan]:
    look = phase_class(phase.number)
    for run in phase.earlier:
        if run.started and run.ended:
            ending = f"attempt {run.report.attempt}, {run.report.stopped}"
            start, end = _utc(run.started), _utc(run.ended)
            yield AttemptSpan(
                name=phase.name, look=f"{look} earlier", start=start, end=end, ending=ending
            )
    if phase.started:
        yield AttemptSpan(
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
class RunCosts:
    """Table of the runs with their time, devices and cost."""

    columns: tuple[str, ...]
    """Device columns."""
    is_priced: bool
    price: str
    runs: tuple[tuple[str, str, str, Report], ...]
    """Phase, CSS class, note and report of each run."""

    @property
    def summed(self) -> tuple[str, ...]:
        """Names of the columns for which the table has a total."""
        return ("training time", "GPU time", *(["cost"] if self.is_priced else []))

    def machine(self, report: Report) -> list[str]:
        """Return the cells of a run in the columns about devices."""
        measured = machine_line(report)
        return [str(measured[column]) for column in self.columns]

    def sums(self, reports: Sequence[Report]) -> list[str]:
        """Return the total training time, GPU time and cost of some runs, in words."""
        gpu_seconds = sum(report.gpu_seconds for report in reports)
        took = duration(sum(report.seconds for report in reports))
        paid = [report.cost for report in reports if report.cost is not None]
        cells = [took, gpu_hours(gpu_seconds) if gpu_seconds else "–"]
        return cells + [money(sum(paid)) if paid else "–"] * self.is_priced


def costs(facts: Facts) -> RunCosts | None:
    """Return the table of runs, which includes runs that were replaced later; None before training."""
    runs = tuple(line for phase in facts.phases for line in _runs(phase))
    if not runs:
        return None
    reports = [report for *_, report in runs]
    measured = [machine_line(report) for report in reports]
    return RunCosts(
        columns=tuple(
            name
            for name in measured[0]
            if name not in COUNTED_HERE and any(line[name] for line in measured)
        ),
        is_priced=any(report.cost is not None and report.gpu_seconds for report in reports),
        price=_price(facts, reports),
        runs=runs,
    )


def _runs(phase: PhaseFacts) -> Iterator[tuple[str, str, str, Report]]:
    if phase.report:
        yield phase.name, phase_class(phase.number), "", phase.report
    for run in reversed(phase.earlier):
        gained = change(run.report, "phase") or run.report.stopped
        note = f"attempt {run.report.attempt} of {run.key}, {gained}"
        yield phase.name, "earlier", note, run.report


def _price(facts: Facts, reports: Sequence[Report]) -> str:
    prices = sorted(
        {phase.run.price for phase in facts.phases if phase.run and phase.run.price is not None}
    )
    if not any(report.gpu_seconds for report in reports):
        return "Trained without GPUs."
    if not prices:
        return "The GPU price is unknown. Set CURRICULUM_GPU_PRICE to the price of one GPU hour."
    return f"Price per GPU hour: {' and '.join(map(money, prices))}."
