"""Curves of val_bpb over the whole curriculum, and what of it was learnt or forgotten."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from curriculum.inspection.formats import bits, integer
from dashboards import charts, plots
from dashboards.charts import element
from dashboards.palette import phase_class
from dashboards.report.facts import Facts, PhaseFacts, mean_of
from schemas.job import Figure

ANCHOR = "anchor"


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A figure at a step, counted from the curriculum's first."""

    step: int
    figure: Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """An evaluation over all phases since it was first taken."""

    name: str
    look: str
    points: tuple[Point, ...]

    @property
    def last(self) -> float:
        """Its newest figure."""
        return self.points[-1].figure.val_bpb


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """All curves on one pair of axes: steps from 0 to `steps`, val_bpb from `low` to `high`."""

    curves: tuple[Curve, ...]
    bands: tuple[tuple[PhaseFacts, int, int], ...]
    """Each trained phase with its first and its last step."""
    steps: int
    low: float
    high: float
    cut: float | None
    """The highest figure, where it lies above the plot."""

    def x(self, step: float) -> float:
        """The place of a step, a share of the width."""
        return plots.ROOM * step / self.steps

    def y(self, figure: float) -> float:
        """The place of a figure, a share of the height from the top."""
        return 1 - (figure - self.low) / (self.high - self.low)


def plot_of(facts: Facts) -> Plot | None:
    """The curves of all phases that have a run; None before there is one."""
    bands, points, first = [], dict[str, list[Point]](), 0
    for each in facts.phases:
        if each.report is None or not each.report.history:
            continue
        for figure in (figure for figure in each.report.history if figure.is_whole):
            at = Point(step=first + figure.step, figure=figure)
            points.setdefault(figure.phase, []).append(at)
        bands.append((each, first, first + each.report.steps))
        first += each.report.steps
    if not first:
        return None
    numbers = {each.name: each.number for each in facts.phases}
    curves = tuple(
        Curve(
            name=name,
            look=ANCHOR if name == ANCHOR else phase_class(numbers.get(name, 1)),
            points=tuple(each),
        )
        for name, each in sorted(points.items(), key=lambda pair: numbers.get(pair[0], 0))
    )
    low, high, cut = _range(curves, bands[0][2] if len(bands) > 1 else 0)
    return Plot(curves=curves, bands=tuple(bands), steps=first, low=low, high=high, cut=cut)


def _range(curves: Sequence[Curve], settled: float) -> tuple[float, float, float | None]:
    """Return the range from the lowest figure to twice as far above it as any from step `settled` on.

    The fall from nothing is several times as high as all that comes after it, and would flatten it.
    """
    points = [point for each in curves for point in each.points]
    low = min(interval_of(point.figure)[0] for point in points)
    later = max(point.figure.val_bpb for point in points if point.step >= settled)
    highest = max(point.figure.val_bpb for point in points)
    top = min(highest, later + (later - low))
    is_cut = highest - low > 1.3 * (top - low) > 0
    high = top if is_cut else highest
    room = 0.04 * (high - low) or 0.01
    return low - room, high + room, highest if is_cut else None


def chart(plot: Plot) -> Markup:
    """The curves with their axes, each named where it ends."""
    borders = [
        _line(x=(plots.SIDE * plot.x(first),) * 2, y=(0, plots.SIDE), look="border")
        for _, first, _ in plot.bands[1:]
    ]
    bands = [
        charts.Band(number=each.number, name=each.name, start=plot.x(first), end=plot.x(last))
        for each, first, last in plot.bands
    ]
    return plots.grid(
        [
            *borders,
            *(_curve(plot, each) for each in plot.curves),
            element("line", id="cursor", y1=0, y2=plots.SIDE),
        ],
        left=[
            plots.Tick(place=plot.y(tick), label=label)
            for tick, label in plots.ticks(plot.low, plot.high)
        ],
        below=element(
            "svg", *charts.band_numbers(bands, 14), class_="below", height=18, aria_hidden="true"
        ),
        names=[
            plots.Name(
                name=each.name,
                figure=bits(each.last),
                y=plot.y(each.last),
                look=each.look,
                number=number,
            )
            for number, each in enumerate(plot.curves)
        ],
        label=f"val_bpb over {integer(plot.steps)} steps",
    )


def _line(*, x: tuple[float, float], y: tuple[float, float], look: str) -> Markup:
    (x1, x2), (y1, y2) = ([f"{each:.1f}" for each in ends] for ends in (x, y))
    return element("line", class_=look, x1=x1, x2=x2, y1=y1, y2=y2)


def interval_of(figure: Figure) -> tuple[float, float]:
    """Return the ends of a figure's interval: the figure itself where its documents are too few to tell."""
    return (figure.low, figure.high) if figure.is_sure else (figure.val_bpb, figure.val_bpb)


def _curve(plot: Plot, curve: Curve) -> Markup:
    def places(figures: Iterable[float]) -> list[plots.Point]:
        return [
            (plot.x(point.step), plot.y(figure))
            for point, figure in zip(curve.points, figures, strict=True)
        ]

    middle = places(point.figure.val_bpb for point in curve.points)
    lower, upper = zip(*(interval_of(point.figure) for point in curve.points), strict=True)
    around = [*places(upper), *reversed(places(lower))]
    area = plots.polyline((plots.SIDE * x, plots.SIDE * y) for x, y in around)
    return element(
        "g",
        element("polygon", points=area),
        plots.line_of(middle),
        plots.dots(middle[-1:]),
        class_=curve.look,
    )


def data(plot: Plot | None) -> dict[str, Any]:
    """Return the figures at each step as data for the script."""
    if plot is None:
        return {}
    steps = sorted({point.step for each in plot.curves for point in each.points})
    names: dict[int, str] = {}
    for each, first, last in plot.bands:
        for step in steps:
            if first <= step <= last:
                names[step] = f"{each.name}, step {integer(step - first)}"
    figures = [
        {point.step: round(point.figure.val_bpb, 4) for point in each.points}
        for each in plot.curves
    ]
    return {
        "of": round(plot.steps / plots.ROOM, 3),
        "steps": steps,
        "names": [names[step] for step in steps],
        "curves": [[each.get(step) for step in steps] for each in figures],
    }


LEVELS = 5
LEAST = 0.02
"""Bits per byte that have the deepest tint at least, so that noise has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A figure after a phase; `by` is its distance from what it is held against, None for none."""

    figure: Figure
    by: float | None
    own: bool = False
    """True if it is of the phase that was just trained."""


Row = Sequence[Cell | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A line of the table: an evaluation after each phase, and the class of each cell."""

    name: str
    look: str
    cells: tuple[tuple[Cell | None, str], ...]


def trained(facts: Facts) -> list[PhaseFacts]:
    """The phases after which there are figures."""
    return [each for each in facts.phases if each.report is not None and each.report.after]


def matrix(facts: Facts) -> list[Kept]:
    """A line an evaluation, a column a state of the model: the start, then after each phase."""
    done = trained(facts)
    if not done:
        return []
    rows = [
        (each, _row(each.name, index, done))
        for index, each in enumerate(done)
        if each.evaluation == each.name
    ]
    anchor = _anchor(done)
    largest = _largest([row for _, row in rows])
    return [
        _evaluation_line(ANCHOR, ANCHOR, anchor, _largest([anchor])),
        *(
            _evaluation_line(each.name, phase_class(each.number), row, largest)
            for each, row in rows
        ),
    ]


def _evaluation_line(name: str, look: str, row: Row, largest: float) -> Kept:
    return Kept(name=name, look=look, cells=tuple((cell, _look(cell, largest)) for cell in row))


def _look(cell: Cell | None, largest: float) -> str:
    if cell is None:
        return ""
    if cell.by is None:
        return "own" if cell.own else "soft"
    return tint(cell.by, largest)


def _row(name: str, at: int, done: Sequence[PhaseFacts]) -> Row:
    """The figures of one phase: before it was trained, at its end, and after each that came later."""
    row: list[Cell | None] = [None] * (len(done) + 1)
    own: Figure | None = None
    for number, each in enumerate(done):
        assert each.report is not None
        if number == at:
            before = mean_of(each.report.before, name)
            row[number] = Cell(figure=before, by=None) if before else None
        after = mean_of(each.report.after, name)
        if after is not None and number >= at:
            is_own = number == at
            own = after if is_own else own
            by = None if is_own or own is None else after.val_bpb - own.val_bpb
            row[number + 1] = Cell(figure=after, by=by, own=is_own)
    return row


def _anchor(done: Sequence[PhaseFacts]) -> Row:
    """The anchor after each phase, held against the phase before."""
    first = done[0].report
    assert first is not None
    last = mean_of(first.before, ANCHOR)
    row: list[Cell | None] = [Cell(figure=last, by=None) if last else None]
    for each in done:
        assert each.report is not None
        now = mean_of(each.report.after, ANCHOR)
        by = now.val_bpb - last.val_bpb if now and last else None
        row.append(Cell(figure=now, by=by) if now else None)
        last = now or last
    return row


def _largest(rows: Sequence[Row]) -> float:
    changes = [abs(cell.by) for row in rows for cell in row if cell and cell.by is not None]
    return max([LEAST, *changes])


def tint(by: float, largest: float) -> str:
    """Return the tint of a change: less1 to less5 for learnt, more1 to more5 for forgotten.

    >>> tint(-0.1, 0.1), tint(0.021, 0.1), tint(0.0, 0.1)
    ('less5', 'more2', 'same')
    """
    level = min(LEVELS, math.ceil(LEVELS * abs(by) / largest - 1e-9))
    if float(f"{by:.3f}") == 0 or level == 0:
        return "same"
    return f"{'less' if by < 0 else 'more'}{level}"
