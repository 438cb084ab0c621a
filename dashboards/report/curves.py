"""val_bpb over the whole curriculum: a line an evaluation, so that forgetting shows as a line that rises."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from curriculum.inspection.formats import bits
from dashboards.html import escaped
from dashboards.report.colours import phase as phase_colour
from dashboards.report.facts import Facts, PhaseFacts
from dashboards.report.phases import named
from schemas.job import Figure

HEIGHT = 300
"""Pixels of the plot; its width is the page's."""
LINE_HEIGHT = 16
ANCHOR = "anchor"
_SIDE = 1000
"""Units of the plot's own square, which is drawn out to the page's width."""
_ROOM = 0.994
"""Share of the width, so that the last dots are whole."""


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
        return _ROOM * step / self.steps

    def y(self, figure: float) -> float:
        """The place of a figure, a share of the height from the top."""
        return 1 - (figure - self.low) / (self.high - self.low)


def plot_of(facts: Facts) -> Plot | None:
    """The curves of all phases that have a run; None before there is one."""
    bands, points, first = [], dict[str, list[Point]](), 0
    for each in facts.phases:
        if each.report is None or not each.report.history:
            continue
        for figure in each.report.history:
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
            look="anchor" if name == ANCHOR else phase_colour(numbers.get(name, 1)),
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
    low = min(point.figure.low for point in points)
    later = max(point.figure.val_bpb for point in points if point.step >= settled)
    highest = max(point.figure.val_bpb for point in points)
    top = min(highest, later + (later - low))
    is_cut = highest - low > 1.3 * (top - low) > 0
    high = top if is_cut else highest
    room = 0.04 * (high - low) or 0.01
    return low - room, high + room, highest if is_cut else None


def chart(plot: Plot) -> str:
    """The curves with their axes, each named where it ends."""
    ticks = list(_ticks(plot.low, plot.high))
    left = "".join(
        f'<text x="38" y="{HEIGHT * plot.y(tick) + 4:.1f}">{said}</text>' for tick, said in ticks
    )
    across = "".join(
        f'<line class="tick" x1="0" x2="{_SIDE}" y1="{_SIDE * plot.y(tick):.1f}" '
        f'y2="{_SIDE * plot.y(tick):.1f}"/>'
        for tick, _ in ticks
    )
    drawn = "".join(
        map(str, (across, *_borders(plot), *(_curve(plot, each) for each in plot.curves)))
    )
    return (
        f'<div class="plot"><svg class="left" width="44" height="{HEIGHT}" aria-hidden="true">{left}</svg>'
        f'<svg class="curves" height="{HEIGHT}" viewBox="0 0 {_SIDE} {_SIDE}" '
        f'preserveAspectRatio="none" role="img" aria-label="val_bpb over {plot.steps:,} steps">{drawn}'
        f'<line id="cursor" y1="0" y2="{_SIDE}"/></svg>'
        f'<svg class="right" width="190" height="{HEIGHT}">{"".join(_names(plot))}</svg>'
        f'<svg class="below" height="18" aria-hidden="true">{"".join(_below(plot))}</svg></div>'
    )


def _borders(plot: Plot) -> Iterator[str]:
    for _, first, _ in plot.bands[1:]:
        at = f"{_SIDE * plot.x(first):.1f}"
        yield f'<line class="border" x1="{at}" x2="{at}" y1="0" y2="{_SIDE}"/>'


def _curve(plot: Plot, curve: Curve) -> str:
    places = [
        (_SIDE * plot.x(each.step), _SIDE * plot.y(each.figure.val_bpb)) for each in curve.points
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    upper = [
        f"{_SIDE * plot.x(e.step):.1f},{_SIDE * plot.y(e.figure.high):.1f}" for e in curve.points
    ]
    lower = [
        f"{_SIDE * plot.x(e.step):.1f},{_SIDE * plot.y(e.figure.low):.1f}" for e in curve.points
    ]
    # A line of no length with round ends is a dot that the drawing-out leaves round.
    x, y = places[-1]
    return (
        f'<g class="{curve.look}"><polygon points="{" ".join([*upper, *reversed(lower)])}"/>'
        f'<polyline points="{line}"/><path class="end" d="M{x:.1f} {y:.1f}h0"/></g>'
    )


def _names(plot: Plot) -> Iterator[str]:
    """The curves' names and last figures, pushed apart where they would overlap."""
    ranked = sorted(plot.curves, key=lambda each: plot.y(each.last))
    wanted = [HEIGHT * plot.y(each.last) for each in ranked]
    for curve, at in zip(ranked, apart(wanted, LINE_HEIGHT, HEIGHT), strict=True):
        number = plot.curves.index(curve)
        yield (
            f'<g class="{curve.look}" data-curve="{number}"><text x="10" y="{at + 4:.1f}">'
            f'<tspan class="figure">{bits(curve.last)}</tspan> <tspan>{escaped(curve.name)}</tspan>'
            "</text></g>"
        )


def apart(places: Sequence[float], gap: float, end: float) -> list[float]:
    """Ascending places at least a gap apart, as near to the wanted ones as a pass down and up finds.

    >>> apart([10, 12, 40], 16, 100)
    [10, 26, 42]
    """
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap) if moved else max(place, gap / 2))
    limit = end - gap / 2
    for at in reversed(range(len(moved))):
        moved[at] = min(moved[at], limit)
        limit = moved[at] - gap
    return moved


def _below(plot: Plot) -> Iterator[str]:
    for each, first, last in plot.bands:
        yield named(each, plot.x((first + last) / 2), plot.x(last - first), 14)


def _ticks(low: float, high: float) -> Iterator[tuple[float, str]]:
    """Round numbers between two, about five of them.

    >>> [said for _, said in _ticks(1.43, 3.05)]
    ['1.5', '2.0', '2.5', '3.0']
    """
    rough = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * each for each in (1, 2, 5, 10) if size * each >= rough)
    places = max(1, -math.floor(math.log10(step)))
    for at in range(math.ceil(low / step), math.floor(high / step) + 1):
        yield at * step, f"{at * step:.{places}f}"


def data(plot: Plot | None) -> str:
    """Return the figures at each step as data for the script."""
    if plot is None:
        return "{}"
    steps = sorted({point.step for each in plot.curves for point in each.points})
    names: dict[int, str] = {}
    for each, first, last in plot.bands:
        names |= {at: f"{each.name}, step {at - first:,}" for at in steps if first <= at <= last}
    figures = [
        {point.step: round(point.figure.val_bpb, 4) for point in each.points}
        for each in plot.curves
    ]
    content = {
        "of": round(plot.steps / _ROOM, 3),
        "steps": steps,
        "names": [names[step] for step in steps],
        "curves": [[each.get(step) for step in steps] for each in figures],
    }
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
