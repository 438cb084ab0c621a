"""Curves of val_bpb over the steps of all phases, and a table of its changes after each phase."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from curriculum.inspection.formats import bits, integer
from dashboards.charts import plots
from dashboards.charts.plots import Scale, Series
from dashboards.palette import phase_class
from dashboards.report.facts import Facts, PhaseFacts, mean_of
from schemas.job import Figure, Report
from schemas.objectives import FIXED_SETS

ANCHOR = "anchor"


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationPlot:
    """Plot of all evaluations over the steps of all phases."""

    series: tuple[Series, ...]
    """Curves of val_bpb; steps are counted from the first step of the first phase."""
    phases: tuple[tuple[str, int, int], ...]
    """Trained phases with their first and last steps."""
    x: Scale
    y: Scale
    """Scale of all figures."""
    detail: Scale | None = None
    """Scale of the figures after the first phase; None unless it is much shorter than `y`."""


def plot_of(facts: Facts) -> EvaluationPlot | None:
    """Return the curves of all phases that have a run; None if no phase has one."""
    phases, found, first = [], dict[str, list[tuple[int, Figure]]](), 0
    for phase in facts.phases:
        if phase.report is None or not phase.report.history:
            continue
        for figure in (figure for figure in phase.report.history if figure.is_whole):
            found.setdefault(figure.phase, []).append((first + figure.step, figure))
        phases.append((phase.name, first, first + phase.report.steps))
        first += phase.report.steps
    if not first:
        return None
    numbers = {phase.name: phase.number for phase in facts.phases}
    by_number = sorted(found.items(), key=lambda pair: numbers.get(pair[0], 0))
    whole = _around(found.values(), None)
    detail = _around(found.values(), phases[0][2]) if len(phases) > 1 else whole
    return EvaluationPlot(
        series=tuple(_series(name, numbers.get(name, 1), taken) for name, taken in by_number),
        phases=tuple(phases),
        x=plots.within(0, first),
        y=whole,
        detail=detail if detail.high < whole.high else None,
    )


def _series(name: str, number: int, taken: Sequence[tuple[int, Figure]]) -> Series:
    return Series(
        points=[(step, figure.val_bpb) for step, figure in taken],
        look=name if name in FIXED_SETS else phase_class(number),
        name=name,
        figure=bits(taken[-1][1].val_bpb),
        around=[interval_of(figure) for _, figure in taken],
    )


def _around(found: Iterable[Sequence[tuple[int, Figure]]], settled: int | None) -> Scale:
    """Return a scale for all evaluations, or one that suits those from step `settled` on.

    During the first phase val_bpb falls several times as far as in all later phases together.
    """
    taken = [evaluation for evaluations in found for evaluation in evaluations]
    lower = min(interval_of(figure)[0] for _, figure in taken)
    return plots.around(
        [lower, *(figure.val_bpb for _, figure in taken)],
        [figure.val_bpb for step, figure in taken if settled is not None and step >= settled],
    )


def chart(plot: EvaluationPlot, *, y: Scale | None = None) -> Markup:
    """Return the plot of the curves; `y` is the scale of the y axis, by default that of all figures."""
    return plots.plot(
        plot.series,
        x=plot.x,
        y=y or plot.y,
        label=f"val_bpb over {integer(plot.x.high)} steps",
        below="steps of all phases",
        marks=[(first, name) for name, first, _ in plot.phases],
    )


def interval_of(figure: Figure) -> tuple[float, float]:
    """Return the ends of a figure's confidence interval.

    If it was measured on too few documents, both ends are the figure itself.
    """
    return (figure.low, figure.high) if figure.is_sure else (figure.val_bpb, figure.val_bpb)


def data(plot: EvaluationPlot | None) -> dict[str, Any]:
    """Return the figures by step for the page's script, and the position of each step on the x axis."""
    if plot is None:
        return {}
    steps = sorted({step for curve in plot.series for step, _ in curve.points})
    names: dict[float, str] = {}
    for name, first, last in plot.phases:
        for step in steps:
            if first <= step <= last:
                names[step] = f"{name}, step {integer(step - first)}"
    figures = [{step: round(value, 4) for step, value in curve.points} for curve in plot.series]
    return {
        "places": [round(plots.across(plot.x, step), 4) for step in steps],
        "names": [names[step] for step in steps],
        "curves": [[figure.get(step) for step in steps] for figure in figures],
    }


LEVELS = 5
MIN_DEEPEST_CHANGE = 0.02
"""Smallest change in bits per byte that may get the deepest colour.

With it, changes that are only noise stay pale.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A figure after a phase; `by` is its change against a reference figure, or None without a reference."""

    figure: Figure
    by: float | None
    own: bool = False
    """True for the figure of a phase's set at the end of that phase."""


Row = Sequence[Cell | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveLine:
    """A line of the validation table: the figures of one set after each phase, each with its CSS class."""

    name: str
    look: str
    cells: tuple[tuple[Cell | None, str], ...]

    @property
    def latest(self) -> Figure | None:
        """Last figure of the line; None if it has none."""
        return next((cell.figure for cell, _ in reversed(self.cells) if cell), None)

    @staticmethod
    def of(name: str, look: str, row: Row, beside: Sequence[Row]) -> "CurveLine":
        """Return a line whose cells are coloured by their changes.

        The largest change in the lines `beside`, with which this line is compared, gets the deepest colour.
        """
        changes = [
            abs(cell.by) for cells in beside for cell in cells if cell and cell.by is not None
        ]
        largest = max([MIN_DEEPEST_CHANGE, *changes])
        return CurveLine(
            name=name, look=look, cells=tuple((cell, _look(cell, largest)) for cell in row)
        )


def trained(facts: Facts) -> list[PhaseFacts]:
    """Return the phases for which there are figures after training."""
    return [phase for phase in facts.phases if phase.report is not None and phase.report.after]


def matrix(facts: Facts) -> list[CurveLine]:
    """Return one line per validation set, with figures at the start and at the end of each phase."""
    done = trained(facts)
    reports = [phase.report for phase in done if phase.report is not None]
    if not reports:
        return []
    rows = {
        phase.name: (phase_class(phase.number), _row(phase.name, reports, at))
        for at, phase in enumerate(done)
        if phase.evaluation == phase.name
    }
    beside = [row for _, row in rows.values()]
    fixed = [(name, _row(name, reports)) for name in FIXED_SETS]
    return [
        *(CurveLine.of(name, name, row, [row]) for name, row in fixed if any(row)),
        *(CurveLine.of(name, look, row, beside) for name, (look, row) in rows.items()),
    ]


def _look(cell: Cell | None, largest: float) -> str:
    if cell is None:
        return ""
    if cell.by is None:
        return "own" if cell.own else "soft"
    return tint(cell.by, largest)


def _row(name: str, reports: Sequence[Report], at: int = 0) -> Row:
    """Return the cells of a set: before phase `at`, at the end of that phase, and after each later phase.

    For the set of a phase, changes are measured against the end of that phase. For a fixed set, they are
    measured against the figure before.
    """
    taken = [
        mean_of(reports[at].before, name),
        *(mean_of(report.after, name) for report in reports[at:]),
    ]
    cells: list[Cell | None] = [None] * at
    against: Figure | None = None
    for number, figure in enumerate(taken):
        by = figure.val_bpb - against.val_bpb if figure and against else None
        own = name not in FIXED_SETS and number == 1
        cells.append(Cell(figure=figure, by=by, own=own) if figure else None)
        if own or name in FIXED_SETS:
            against = figure or against
    return cells


def tint(by: float, largest: float) -> str:
    """Return the CSS class of a change: less1 to less5 for a decrease, more1 to more5 for an increase.

    `largest` is the change that gets the deepest colour.

    >>> tint(-0.1, 0.1), tint(0.021, 0.1), tint(0.0, 0.1)
    ('less5', 'more2', 'same')
    """
    level = min(LEVELS, math.ceil(LEVELS * abs(by) / largest - 1e-9))
    if float(f"{by:.3f}") == 0 or level == 0:
        return "same"
    return f"{'less' if by < 0 else 'more'}{level}"
