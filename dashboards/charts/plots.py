"""Plots of series over two scales. Lines stretch to any width, and text keeps its size.

A scale maps values to shares of an axis and has labelled ticks. A plot is a grid of several SVG pictures: the
field with the lines, the tick labels on its left and below it, and the names of the series at the ends of
their lines. On narrow pages, the names are a list below the plot.
"""

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from markupsafe import Markup

from curriculum.inspection.formats import count
from dashboards.charts.marks import at, element, hidden, stretched

Point = tuple[float, float]
"""x and y value."""
DAY_SECONDS = 86_400
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""First and last second of Python's calendar, in seconds since 1970."""
CUT_FROM = 1.3
"""An axis is cut off if it would otherwise be longer by more than this factor."""
HEIGHT = 300
"""Height of a field in pixels; a field is as wide as the page."""
SIDE = 1000
"""Width and height of a field in its own coordinates, which are stretched to the page."""
EDGE = 0.012
"""Margin at each side as a share of the width, so that the outermost dots are not cut."""
LABEL_HEIGHT = 16.0
"""Height of labels at the ends of curves, in pixels."""
LETTER, LINE_HEIGHT = 7.3, 15
"""Maximum width of a letter and height of a line of small text, in pixels."""
NARROW_FIELD = 640
"""Width of a field in pixels for which the names of marks are placed; narrower fields show numbers."""
MAX_NAMES_WIDTH = 260
"""Maximum width of the names at the right, in pixels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """An axis from the value `low` to the value `high`, which is larger."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    """Values and their labels, ascending."""

    def share(self, value: float) -> float:
        """Return the position of a value as a share of the axis; it is outside of [0, 1] beyond the ends."""
        return (value - self.low) / (self.high - self.low)


def within(low: float, high: float) -> Scale:
    """Return a scale from `low` to `high` with about five ticks at round values.

    >>> [label for _, label in within(3, 17).ticks], [label for _, label in within(-0.2, 0.9).ticks]
    (['5', '10', '15'], ['0.0', '0.5'])
    >>> within(0, 40_000).ticks[-1], within(2.0, 2.0).low
    ((40000, '40k'), 1.0)
    """
    low, high = _widened(low, high)
    return _stepped(low, high, _round_up((high - low) / 5))


UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def durations(last: float) -> Scale:
    """Return a scale of durations from 0 to `last` seconds, with labels in one unit.

    >>> [label for _, label in durations(630).ticks], durations(2 * 86_400).ticks[-1]
    (['0 min', '5 min', '10 min'], (172800.0, '2.0 d'))
    """
    size, unit = next((unit for unit in UNITS if last >= 2 * unit[0]), (1, "s"))
    scale = within(0, last / size or 1)
    ticks = tuple((size * value, f"{label} {unit}") for value, label in scale.ticks)
    return Scale(low=0, high=size * scale.high, ticks=ticks)


def around(values: Sequence[float], settled: Sequence[float] = ()) -> Scale:
    """Return a scale that contains all values and starts and ends at round values.

    `settled` are the values that matter most, such as those after the first phase. If the other values would
    make the scale much longer, it ends above the largest settled value, by half of the distance from there to
    the lowest value. Larger values are then cut off.

    >>> [label for _, label in around([1.1, 2.9]).ticks]
    ['1.0', '1.5', '2.0', '2.5', '3.0']
    >>> around([9.0, 1.2, 1.0], [1.2, 1.0]).ticks[-1]
    (1.3, '1.3')
    """
    low, high = _widened(min(values), max(values))
    if settled:
        top = max(settled) + (max(settled) - low) / 2
        high = top if high - low > CUT_FROM * (top - low) > 0 else high
    step = _round_up((high - low) / 4)
    return _stepped(math.floor(low / step) * step, math.ceil(high / step) * step, step)


def words(labels: Iterable[str]) -> Scale:
    """Return a scale on which labels have the positions 0, 1, 2 and so on; about five of them are shown.

    >>> words(["a", "b", "c"]).ticks
    ((0, 'a'), (1, 'b'), (2, 'c'))
    """
    listed = [*labels]
    every = -(-len(listed) // 5) or 1
    ticks = tuple((at, listed[at][:12]) for at in range(0, len(listed), every))
    return Scale(low=0, high=max(1, len(listed) - 1), ticks=ticks)


def times(first: float, last: float, *, parts: int) -> Scale:
    """Return a scale between two times, given in seconds since 1970, divided into `parts` equal intervals.

    The labels are times in UTC.

    >>> [label for _, label in times(1_795_269_017, 1_795_269_317, parts=2).ticks]
    ['13:50:17', '13:52:47', '13:55:17']
    >>> [label for _, label in times(-62_135_596_900, -20_717_121_600, parts=1).ticks]
    ['1 Jan 1', '2 Jul 1313']
    """
    room = 0.0 if last > first else 1.0
    found = (first + (last - first) * part / parts for part in range(parts + 1))
    ticks = tuple((at, _moment(at, last - first)) for at in dict.fromkeys(found))
    return Scale(low=first - room, high=last + room, ticks=ticks)


def _moment(seconds: float, span: float) -> str:
    """Format a time as a label, as precisely as an axis needs that covers `span` seconds."""
    within_calendar = min(max(seconds, FIRST_SECOND), LAST_SECOND)
    then = datetime.datetime.fromtimestamp(within_calendar, datetime.UTC)
    if 0 < span < DAY_SECONDS:
        return f"{then:%H:%M:%S}" if span < 1_200 else f"{then:%H:%M}"
    day = f"{then.day} {then:%b} {then.year}"
    return day if span > 10 * DAY_SECONDS else f"{day}, {then:%H:%M}"


def _stepped(low: float, high: float, step: float) -> Scale:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    largest = max(abs(low), abs(high))
    values = (step * number for number in range(first, last + 1))
    ticks = tuple((value, _label(value, step, largest)) for value in values)
    return Scale(low=low, high=high, ticks=ticks)


def _label(value: float, step: float, largest: float) -> str:
    if step >= 1 and largest >= 10_000:
        return ("−" if value < 0 else "") + count(abs(value))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:.{digits}f}".replace("-", "−")


def _widened(low: float, high: float) -> Point:
    """Return the ends of an axis; if they are almost equal, move them apart.

    >>> _widened(1.0, 3.0), _widened(2.0, 2.0), _widened(0.0, 0.0)
    ((1.0, 3.0), (1.0, 3.0), (-0.5, 0.5))
    """
    if high - low >= 1e-9 * max(1.0, abs(low), abs(high)):
        return low, high
    room = 0.5 * max(1.0, abs(low), abs(high))
    return low - room, high + room


def _round_up(rough: float) -> float:
    """Round a number up to 1, 2 or 5 times a power of ten.

    >>> _round_up(0.32), _round_up(11), _round_up(2)
    (0.5, 20, 2)
    """
    size: float = 10 ** math.floor(math.log10(rough))
    return next(size * by for by in (1, 2, 5, 10) if size * by >= rough * (1 - 1e-9))


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Points of one series, drawn as a line, as dots, or as both."""

    points: Sequence[Point]
    """Points of the series, at least one; lines need points with ascending x."""
    look: str
    """CSS class that gives the series its colour."""
    name: str = ""
    """Name of the series; empty for none."""
    figure: str = ""
    """Last value of the series as text, which is shown beside the name."""
    is_line: bool = True
    dots: Literal["each", "last", "none"] = "last"
    """Points that are drawn as dots."""
    around: Sequence[Point] = ()
    """Lower and upper end of the confidence interval at each point."""
    behind: Sequence[Point] = ()
    """Points of a faint line behind the series: its values before they were smoothed."""


def across(scale: Scale, value: float) -> float:
    """Return the position of an x value as a share of the plot's width."""
    return EDGE + (1 - 2 * EDGE) * scale.share(value)


def plot(
    series: Sequence[Series],
    *,
    x: Scale,
    y: Scale,
    label: str,
    below: str = "",
    marks: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Return a plot of several series.

    Lines are named at their right ends. Series without lines are named in a legend.

    Args:
        series: Series to draw.
        x: Scale of the x axis.
        y: Scale of the y axis.
        label: Text for screen readers.
        below: Title of the x axis.
        marks: Values of x, each with a name, at which the plot has a vertical line.
    """
    names = [
        (curve, HEIGHT * min(max(1 - y.share(curve.points[-1][1]), 0.0), 1.0))
        for curve in series
        if curve.name and curve.is_line
    ]
    placed = [(across(x, value), name) for value, name in marks]
    drawn = [
        *_tick_lines(y),
        *(_mark_line(*mark) for mark in placed),
        *(_group(curve, x, y) for curve in series),
    ]
    field = stretched((SIDE, SIDE), *drawn, class_="field", height=HEIGHT, label=label)
    parts = [
        *([_mark_names(placed)] if placed else []),
        _labels_left(y),
        field,
        *([_ends(names)] if names else []),
        _labels_below(x, below),
        *([_names_below(names, placed)] if names or placed else []),
    ]
    dots = [curve for curve in series if curve.name and not curve.is_line]
    legend = [element("li", curve.name, class_=curve.look) for curve in dots]
    listed = element("ul", *legend, class_="names legend") if len(dots) > 1 else ""
    return element("div", *parts, class_="plot") + listed


def _field_points(points: Iterable[Point], x: Scale, y: Scale) -> list[Point]:
    """Return points in the coordinates of the field."""
    return [(SIDE * across(x, value), SIDE * (1 - y.share(up))) for value, up in points]


def _group(series: Series, x: Scale, y: Scale) -> Markup:
    places = _field_points(series.points, x, y)
    dotted = {"each": places, "last": places[-1:], "none": []}[series.dots]
    parts = []
    if series.name:
        parts.append(element("title", f"{series.name} {series.figure}".strip()))
    if series.around:
        ends = list(zip((point[0] for point in series.points), series.around, strict=True))
        upper = [(place, high) for place, (_, high) in ends]
        lower = [(place, low) for place, (low, _) in reversed(ends)]
        outline = _points_text(_field_points([*upper, *lower], x, y))
        parts.append(element("polygon", points=outline))
    if series.behind:
        values = _field_points(series.behind, x, y)
        parts.append(element("polyline", class_="raw", points=_points_text(values)))
    if series.is_line:
        parts.append(element("polyline", points=_points_text(places)))
    if dotted:
        # Lines of zero length with round caps stay round when the field is stretched.
        path = "".join(f"M{left:.1f} {top:.1f}h0" for left, top in dotted)
        parts.append(element("path", class_="end", d=path))
    look = series.look if series.is_line else f"{series.look} dots"
    return element("g", *parts, class_=look, data_name=series.name)


def _points_text(points: Iterable[Point]) -> str:
    """Format points for the `points` attribute of SVG.

    >>> _points_text([(0, 1), (2.25, 3)])
    '0.0,1.0 2.2,3.0'
    """
    return " ".join(f"{left:.1f},{top:.1f}" for left, top in points)


def _tick_lines(y: Scale) -> Iterator[Markup]:
    for value, _ in y.ticks:
        top = f"{SIDE * (1 - y.share(value)):.1f}"
        yield element("line", class_="tick", x1=0, x2=SIDE, y1=top, y2=top)


def _labels_left(y: Scale) -> Markup:
    """Return the tick labels of the y axis."""
    labels = [
        element("text", text, x="100%", dx=-6, y=f"{HEIGHT * (1 - y.share(value)) + 4:.1f}")
        for value, text in y.ticks
    ]
    wide = max((12 + LETTER * len(text) for _, text in y.ticks), default=0.0)
    return hidden(*labels, class_="left", width=round(wide), height=HEIGHT)


def _labels_below(x: Scale, name: str) -> Markup:
    """Return the tick labels and the title of the x axis; the first and last label stay inside the plot."""
    texts = []
    for value, text in x.ticks:
        place = across(x, value)
        end = "start" if place < 0.03 else "end" if place > 0.97 else "middle"
        texts.append(element("text", text, x=at(place), y=14, text_anchor=end))
    if name:
        texts.append(element("text", name, class_="across", x="50%", y=32, text_anchor="middle"))
    return hidden(*texts, class_="below", height=38 if name else 18)


def _ends(names: Sequence[tuple[Series, float]]) -> Markup:
    """Return the names of the lines, placed at their right ends and moved apart where they would overlap."""
    heights = apart([end for _, end in names], LABEL_HEIGHT, HEIGHT)
    drawn = []
    for (curve, end), height in zip(names, heights, strict=True):
        leader = element("line", class_="leader", x1=0, y1=f"{end:.1f}", x2=9, y2=f"{height:.1f}")
        words = (element("tspan", curve.figure, class_="figure"), " ", element("tspan", curve.name))
        text = element("text", *words, x=13, y=f"{height + 4:.1f}")
        drawn.append(element("g", leader, text, class_=curve.look))
    wide = 14 + LETTER * max(len(f"{curve.figure} {curve.name}") for curve, _ in names)
    width = round(min(wide, MAX_NAMES_WIDTH))
    return element("svg", *drawn, class_="right", width=width, height=HEIGHT)


def _names_below(
    names: Sequence[tuple[Series, float]], marks: Sequence[tuple[float, str]]
) -> Markup:
    """Return a list of names: those of the lines from top to bottom, then those of the marks by number."""
    lines = [
        element("li", element("b", curve.figure), f" {curve.name}", class_=curve.look)
        for curve, _ in sorted(names, key=lambda name: name[1])
    ]
    listed = (element("li", f"{number} {mark}") for number, (_, mark) in enumerate(marks, start=1))
    return element("ul", *lines, *listed, class_="names")


def _mark_line(place: float, name: str) -> Markup:
    middle = f"{SIDE * place:.1f}"
    title = element("title", name)
    return element("line", title, class_="mark", x1=middle, x2=middle, y1=0, y2=SIDE)


def _mark_names(marks: Sequence[tuple[float, str]]) -> Markup:
    """Return the numbers and names of marks above the plot, in up to three rows to avoid overlaps."""
    free = [-math.inf] * 3
    drawn, rows = [], 1
    for number, (place, name) in enumerate(marks, start=1):
        start = NARROW_FIELD * place
        row = next((index for index, end in enumerate(free) if end < start), 0)
        free[row] = start + 14 + LETTER * (len(name) + 2)
        rows = max(rows, row + 1)
        label = element("tspan", f" {name}", class_="name")
        y = 11 + LINE_HEIGHT * row
        drawn.append(element("text", str(number), label, class_="mark", x=at(place), dx=3, y=y))
    return hidden(*drawn, class_="above", height=LINE_HEIGHT * rows + 2)


def apart(heights: Sequence[float], gap: float, end: float = math.inf) -> list[float]:
    """Move labels apart, each as little as possible.

    `heights` are the distances of the labels' centres from the top. In the result they are at least `gap`
    apart and at most `end`, and the labels have the same order.

    >>> apart([10.0, 12.0, 40.0], 16.0), apart([12.0, 90.0, 10.0], 16.0, 90.0)
    ([8.0, 24.0, 40.0], [24.0, 82.0, 8.0])
    """
    order = sorted(range(len(heights)), key=heights.__getitem__)
    groups: list[tuple[float, int]] = []
    """Centre and size of each group of adjacent labels."""
    for index in order:
        middle, size = heights[index], 1
        while groups and middle - groups[-1][0] < gap * (size + groups[-1][1]) / 2 - 1e-9:
            before, members = groups.pop()
            middle = (middle * size + before * members) / (size + members)
            size += members
        groups.append((middle, size))
    moved = [
        middle + gap * (index - (size - 1) / 2) for middle, size in groups for index in range(size)
    ]
    # Push down from the top first, then up from the end.
    moved = [*accumulate(moved, lambda above, own: max(own, above + gap), initial=-gap / 2)][1:]
    moved.append(end + gap / 2)
    moved = [*accumulate(reversed(moved), lambda below, own: min(own, below - gap))][:0:-1]
    placed = dict(zip(order, moved, strict=True))
    return [placed[index] for index in range(len(heights))]
