"""Plots with two axes, at any width: lines are drawn out, and text keeps its size.

A plot is a grid of pictures: the field, labels at its left and below it, and the names of lines where they
end. A narrow page has the names as a list below instead.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from curriculum.inspection.formats import bits, count
from dashboards.charts import at, element

HEIGHT = 300
"""Pixels of a field; its width is the page's."""
SIDE = 1000
"""Units of a field's own square, which is drawn out to the page's width."""
ROOM = 0.994
"""Share of the width, so that the last dots are whole."""
LABEL_HEIGHT = 16.0
"""Height of labels at the ends of curves, so that no two overlap."""
LETTER, LINE_HEIGHT = 7.3, 15
"""Pixels of a letter and of a line of small text, at most."""
NARROW_FIELD = 640
"""Pixels of a field that all names of marks have room in; where it is narrower they are numbers."""
WIDEST_NAMES = 260
"""Pixels of the names at the right, at most."""
Point = tuple[float, float]
Placed = Callable[[Point], Point]
"""The place of a point, as shares of the width and of the height."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """A line's name and last figure, at a share of the height from the top; `number` is for a script."""

    name: str
    figure: str
    y: float
    look: str
    number: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A label of an axis, at a share of its length from the left or from the top."""

    place: float
    label: str


def grid(
    drawn: Iterable[str],
    *,
    left: Sequence[Tick],
    below: Markup,
    names: Sequence[Name],
    label: str,
    above: Markup | str = "",
    listed: Sequence[str] = (),
) -> Markup:
    """Put a field and its labels together; `drawn` is in units of SIDE, `listed` is for narrow pages only."""
    lines = [_tick_line(tick.place) for tick in left]
    labels = [
        element("text", tick.label, x="100%", dx=-6, y=f"{HEIGHT * tick.place + 4:.1f}")
        for tick in left
    ]
    wide = max((12 + LETTER * len(tick.label) for tick in left), default=0.0)
    parts = [
        *([above] if above else []),
        element("svg", *labels, class_="left", width=round(wide), height=HEIGHT, aria_hidden="true"),
        element(
            "svg", *lines, *drawn, class_="field", height=HEIGHT, viewBox=f"0 0 {SIDE} {SIDE}",
            preserveAspectRatio="none", role="img", aria_label=label,
        ),
        *([_ends(names)] if names else []),
        below,
        *([_names_below(names, listed)] if names or listed else []),
    ]  # fmt: skip
    return element("div", *parts, class_="plot")


def _tick_line(place: float) -> Markup:
    y = f"{SIDE * place:.1f}"
    return element("line", class_="tick", x1=0, x2=SIDE, y1=y, y2=y)


def _ends(names: Sequence[Name]) -> Markup:
    """The names at the ends of their lines, pushed apart where they would overlap."""
    heights = apart([HEIGHT * each.y for each in names], LABEL_HEIGHT, HEIGHT)
    drawn = []
    for each, height in zip(names, heights, strict=True):
        words = (element("tspan", each.figure, class_="figure"), " ", element("tspan", each.name))
        number = {} if each.number is None else {"data_curve": each.number}
        drawn.append(
            element(
                "g",
                element(
                    "line", class_="leader",
                    x1=0, y1=f"{HEIGHT * each.y:.1f}", x2=9, y2=f"{height:.1f}",
                ),
                element("text", *words, x=13, y=f"{height + 4:.1f}"),
                class_=each.look,
                **number,
            )
        )  # fmt: skip
    wide = 14 + LETTER * max(len(each.figure) + len(each.name) + 1 for each in names)
    width = round(min(wide, WIDEST_NAMES))
    return element("svg", *drawn, class_="right", width=width, height=HEIGHT)


def _names_below(names: Sequence[Name], listed: Sequence[str]) -> Markup:
    """The names as a list, from top to bottom as their lines end."""
    lines = [
        element("li", element("b", each.figure), f" {each.name}", class_=each.look)
        for each in sorted(names, key=lambda each: each.y)
    ]
    return element("ul", *lines, *(element("li", each) for each in listed), class_="names")


def labels_below(ticks: Sequence[Tick], across: str = "") -> Markup:
    """The labels of the axis below a field, and what it is of; those at its ends lie within."""
    texts = []
    for tick in ticks:
        end = "start" if tick.place < 0.03 else "end" if tick.place > 0.97 else "middle"
        texts.append(element("text", tick.label, x=at(tick.place), y=14, text_anchor=end))
    if across:
        texts.append(element("text", across, class_="across", x="50%", y=32, text_anchor="middle"))
    height = 38 if across else 18
    return element("svg", *texts, class_="below", height=height, aria_hidden="true")


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A line through points, with its name at its end."""

    name: str
    points: Sequence[Point]
    """Points from left to right."""
    chosen: bool = False
    marks: Sequence[tuple[float, str]] = field(default=())
    """Positions on the axis, with a name each."""

    @property
    def look(self) -> str:
        """Its class."""
        return f"curve{' chosen' if self.chosen else ''}"


def curves(drawn: Sequence[Curve], *, across: str, label: str) -> Markup:
    """Curves over one axis, each named where it ends; the chosen ones in colour, the others grey."""
    points = [point for each in drawn for point in each.points]
    most = max(x for x, _ in points) or 1.0
    low, high, step = axis_of([y for _, y in points])

    def place(point: Point) -> Point:
        x, y = point
        return ROOM * x / most, (high - y) / (high - low)

    marks = [mark for each in drawn if each.chosen for mark in each.marks]
    lines = [_mark_line(place((x, low))[0], name) for x, name in marks]
    lines += [_curve(each, place) for each in sorted(drawn, key=lambda each: each.chosen)]
    below = [Tick(place=place((value, low))[0], label=count(value)) for value in counted(most)]
    return grid(
        lines,
        left=[
            Tick(place=place((0.0, value))[1], label=text) for value, text in steps(low, high, step)
        ],
        below=labels_below(below, across),
        names=[
            Name(
                name=each.name,
                figure=bits(each.points[-1][1]),
                y=place(each.points[-1])[1],
                look=each.look,
            )
            for each in drawn
        ],
        label=label,
        above=_marks([(place((x, low))[0], name) for x, name in marks]) if marks else "",
        listed=[f"{number} {name}" for number, (_, name) in enumerate(marks, start=1)],
    )


def _curve(curve: Curve, place: Placed) -> Markup:
    return element(
        "g",
        element("title", f"{curve.name} {bits(curve.points[-1][1])}"),
        line_of(map(place, curve.points)),
        dots([place(curve.points[-1])]),
        class_=curve.look,
        data_name=curve.name,
    )


def line_of(points: Iterable[Point]) -> Markup:
    """A line through points, which are shares of the field."""
    return element("polyline", points=polyline((SIDE * x, SIDE * y) for x, y in points))


def dots(points: Iterable[Point]) -> Markup:
    """Dots at shares of the field: lines of no length with round ends stay round when it is drawn out."""
    path = "".join(f"M{SIDE * x:.1f} {SIDE * y:.1f}h0" for x, y in points)
    return element("path", class_="end", d=path)


def polyline(points: Iterable[Point]) -> str:
    """The points of a line or of an area.

    >>> polyline([(0, 1), (2.25, 3)])
    '0.0,1.0 2.2,3.0'
    """
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _mark_line(x: float, name: str) -> Markup:
    middle = f"{SIDE * x:.1f}"
    title = element("title", name)
    return element("line", title, class_="mark", x1=middle, x2=middle, y1=0, y2=SIDE)


def _marks(marks: Sequence[tuple[float, str]]) -> Markup:
    """Numbers and names above marks; where two names would meet, one goes lower."""
    free = [-math.inf] * 3
    drawn, rows = [], 1
    for number, (x, name) in enumerate(marks, start=1):
        start = NARROW_FIELD * x
        row = next((index for index, end in enumerate(free) if end < start), 0)
        free[row] = start + 14 + LETTER * (len(name) + 2)
        rows = max(rows, row + 1)
        label = element("tspan", f" {name}", class_="name")
        y = 11 + LINE_HEIGHT * row
        drawn.append(element("text", str(number), label, class_="mark", x=at(x), dx=3, y=y))
    height = LINE_HEIGHT * rows + 2
    return element("svg", *drawn, class_="above", height=height, aria_hidden="true")


def axis_of(values: Sequence[float]) -> tuple[float, float, float]:
    """The ends of an axis around values, and a round step between its lines."""
    low, high = widened(min(values), max(values))
    step = round_up((high - low) / 4)
    return math.floor(low / step) * step, math.ceil(high / step) * step, step


def widened(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, apart where all values are as good as one.

    >>> widened(1.0, 3.0), widened(2.0, 2.0), widened(0.0, 0.0)
    ((1.0, 3.0), (1.0, 3.0), (-0.5, 0.5))
    """
    if high - low >= 1e-9 * max(1.0, abs(low), abs(high)):
        return low, high
    room = 0.5 * max(1.0, abs(low), abs(high))
    return low - room, high + room


def round_up(rough: float) -> float:
    """The round number that isn't less: 1, 2 or 5 with noughts.

    >>> round_up(0.32), round_up(11), round_up(2)
    (0.5, 20, 2)
    """
    size: float = 10 ** math.floor(math.log10(rough))
    return next(size * by for by in (1, 2, 5, 10) if size * by >= rough * (1 - 1e-9))


def legend(series: Iterable[tuple[str, str]]) -> Markup:
    """Names of series with their classes, where dots have no end to write them at."""
    lines = [element("li", name, class_=look) for name, look in series]
    return element("ul", *lines, class_="names legend")


def _label(value: float, step: float, largest: float) -> str:
    if step >= 1 and largest >= 10_000:
        return ("−" if value < 0 else "") + count(abs(value))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:.{digits}f}".replace("-", "−")


def steps(low: float, high: float, step: float) -> Iterator[tuple[float, str]]:
    """Values from one end of an axis to the other, with their labels.

    >>> list(steps(0.0, 1.0, 0.5)), [label for _, label in steps(0, 40_000, 20_000)]
    ([(0.0, '0.0'), (0.5, '0.5'), (1.0, '1.0')], ['0', '20k', '40k'])
    """
    for index in range(round((high - low) / step) + 1):
        value = low + index * step
        yield value, _label(value, step, max(abs(low), abs(high)))


def ticks_within(low: float, high: float) -> Iterator[tuple[float, str]]:
    """Round values between two, about five of them, with their labels.

    >>> [label for _, label in ticks_within(3, 17)], [label for _, label in ticks_within(-0.2, 0.9)]
    (['5', '10', '15'], ['0.0', '0.5'])
    """
    step = round_up((high - low) / 5)
    for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield index * step, _label(index * step, step, max(abs(low), abs(high)))


def counted(most: float) -> Iterator[float]:
    """Round values from 0 to at most one, about five of them.

    >>> [*counted(1000)]
    [0, 200, 400, 600, 800, 1000]
    """
    every = round_up(most / 5)
    for index in range(math.floor(most / every + 1e-9) + 1):
        yield index * every


def ticks(low: float, high: float) -> Iterator[tuple[float, str]]:
    """Round numbers between two, about five of them.

    >>> [label for _, label in ticks(1.43, 3.05)]
    ['1.5', '2.0', '2.5', '3.0']
    """
    step = round_up((high - low) / 5)
    digits = max(1, -math.floor(math.log10(step)))
    for index in range(math.ceil(low / step), math.floor(high / step) + 1):
        yield index * step, f"{index * step:.{digits}f}"


def apart(heights: Sequence[float], gap: float, end: float = math.inf) -> list[float]:
    """Heights moved as little as it takes for any two to be a gap apart, in their order, before an end.

    >>> apart([10.0, 12.0, 40.0], 16.0), apart([12.0, 90.0, 10.0], 16.0, 90.0)
    ([8.0, 24.0, 40.0], [24.0, 82.0, 8.0])
    """
    order = sorted(range(len(heights)), key=heights.__getitem__)
    groups: list[tuple[float, int]] = []
    """The middle of each group of labels that touch, and their number."""
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
    for index, height in enumerate(moved):
        moved[index] = max(height, moved[index - 1] + gap if index else gap / 2)
    limit = end - gap / 2
    for index in reversed(range(len(moved))):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - gap
    placed = dict(zip(order, moved, strict=True))
    return [placed[index] for index in range(len(heights))]
