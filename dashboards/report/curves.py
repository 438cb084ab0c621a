"""Curves of val_bpb over the whole curriculum, and what of it was learnt or forgotten."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from curriculum.inspection.formats import bits, difference
from dashboards.html import escaped, quoted
from dashboards.report.facts import Facts, PhaseFacts, mean_of
from dashboards.report.marks import phase as phase_colour
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


def matrix(facts: Facts) -> str:
    """A line an evaluation, a column a state of the model: the start, then after each phase."""
    done = [each for each in facts.phases if each.report is not None and each.report.after]
    if not done:
        return ""
    rows = [
        (each, _row(each.name, at, done))
        for at, each in enumerate(done)
        if each.evaluation == each.name
    ]
    most = _most([row for _, row in rows])
    anchor = _anchor(done)
    head = "".join(
        f'<th class="n {phase_colour(each.number)}" scope="col" title="after {quoted(each.name)}">'
        f'<b class="number">{each.number}</b></th>'
        for each in done
    )
    lines = [_line("anchor", ANCHOR, anchor, _most([anchor]))]
    lines += [_line(phase_colour(each.number), each.name, row, most) for each, row in rows]
    return (
        '<table class="kept"><thead><tr><th scope="col">after</th>'
        f'<th class="n" scope="col">start</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


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


def _most(rows: Sequence[Row]) -> float:
    changes = [abs(cell.by) for row in rows for cell in row if cell and cell.by is not None]
    return max([LEAST, *changes])


def _line(look: str, name: str, row: Row, most: float) -> str:
    cells = "".join(_table_cell(cell, most) for cell in row)
    return f'<tr class="{look}"><th scope="row"><i></i>{escaped(name)}</th>{cells}</tr>'


def _table_cell(cell: Cell | None, most: float) -> str:
    if cell is None:
        return "<td></td>"
    figure = cell.figure
    looks = (
        ["n", tint(cell.by, most)] if cell.by is not None else ["n", "own" if cell.own else "soft"]
    )
    by = f"<small>{difference(cell.by)}</small>" if cell.by is not None else ""
    title = f"{figure.low:.3f} to {figure.high:.3f}, over {figure.scored_bytes:,} bytes"
    return f'<td class="{" ".join(looks)}" title="{title}">{bits(figure.val_bpb)}{by}</td>'


def tint(by: float, most: float) -> str:
    """Return the tint of a change: l1 to l5 for learnt, f1 to f5 for forgotten.

    >>> tint(-0.1, 0.1), tint(0.021, 0.1), tint(0.0, 0.1)
    ('less5', 'more2', 'same')
    """
    level = min(LEVELS, math.ceil(LEVELS * abs(by) / most - 1e-9))
    if float(f"{by:.3f}") == 0 or level == 0:
        return "same"
    return f"{'less' if by < 0 else 'more'}{level}"
