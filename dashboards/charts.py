"""Pictures as SVG, drawn here: text that can be read, searched and tested, and no script.

Places are percent of the width where a picture is a line of a list, so that it fits any page.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dashboards.frame import text

MINUS = "\N{MINUS SIGN}"
WIDE, HIGH = 1180.0, 366.0
LEFT, RIGHT, TOP, BELOW = 44.0, 170.0, 46.0, 32.0
_Place = Callable[[tuple[float, float]], tuple[float, float]]
"""Place of a point of the data in the picture."""
LINE_HIGH = 16.0
"""Height of direct labels, so that no two overlap."""


def amount(number: float) -> str:
    """A number of tokens or bytes in three digits.

    >>> amount(7), amount(1234), amount(468_436), amount(12_345_678), amount(2_000_000_000)
    ('7', '1.23k', '468k', '12.3M', '2G')
    """
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{float(f'{number / size:.3g}'):g}{unit}"
    return f"{number:g}" if number == int(number) else f"{number:.3g}"


def share(part: float) -> str:
    """A part of a whole in percent.

    >>> share(0.5), share(0.0312), share(0.0004), share(0.0)
    ('50 %', '3.1 %', '<0.1 %', '0 %')
    """
    if 0 < part < 0.001:
        return "<0.1 %"
    percent = 100 * part
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def change(by: float) -> str:
    """Format a change of a figure, with its sign.

    >>> change(-0.1179), change(0.0021), change(0.0)
    ('−0.118', '+0.002', '±0.000')
    """
    said = f"{abs(by):.3f}"
    if float(said) == 0:
        return f"±{said}"
    return f"{MINUS if by < 0 else '+'}{said}"


def bar(part: float, *, of: float = 1.0, look: str = "", limit: float | None = None) -> str:
    """A bar that ends at `part` of `of`; what lies past the limit is marked, and the limit is a line."""
    width = 100 * min(part / of, 1.0) if of > 0 else 0.0
    over = limit is not None and part > limit * (1 + 1e-9)
    line = ""
    if limit is not None and limit <= of:
        at = f"{100 * limit / of:.2f}%"
        line = f'<line class="limit" x1="{at}" x2="{at}" y1="0" y2="100%"/>'
    return (
        f'<svg class="bar {look}{" over" if over else ""}" aria-hidden="true">'
        f'<rect width="{width:.2f}%" height="100%"/>{line}</svg>'
    )


def dumbbell(planned: float, realised: float | None, *, of: float, look: str) -> str:
    """Draw the planned value as a ring and the realised one as a dot, on a line that ends at `of`."""
    ring, dot, says = f"{100 * planned / of:.2f}%", "", f"planned {share(planned)}"
    if realised is not None:
        at = f"{100 * realised / of:.2f}%"
        says += f", realised {share(realised)}"
        dot = (
            f'<line class="off" x1="{ring}" x2="{at}" y1="50%" y2="50%"/>'
            f'<circle class="dot" cx="{at}" cy="50%" r="3.5"/>'
        )
    return (
        f'<svg class="lane {look}" role="img" aria-label="{says}">'
        f'<line class="axis" x1="0" x2="100%" y1="50%" y2="50%"/>{dot}'
        f'<circle class="ring" cx="{ring}" cy="50%" r="6"/></svg>'
    )


def axis(of: float) -> str:
    """The scale above lanes and bars that end at `of`."""
    ticks = "".join(
        f'<text x="{at}%" text-anchor="{anchor}" y="11">{share(of * at / 100)}</text>'
        for at, anchor in ((0, "start"), (50, "middle"), (100, "end"))
    )
    return f'<svg class="scale" aria-hidden="true">{ticks}</svg>'


def scale(most: float) -> float:
    """The end of an axis of shares: the largest share, rounded up to where its middle is round too.

    >>> scale(0.31), scale(0.4), scale(0.0), scale(1.0)
    (0.4, 0.4, 0.1, 1.0)
    """
    return next((end for end in (0.1, 0.2, 0.4, 0.6, 0.8) if most <= end + 1e-9), 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A line through points, with its name at its end."""

    name: str
    points: Sequence[tuple[float, float]]
    """Points from left to right."""
    chosen: bool = False
    marks: Sequence[tuple[float, str]] = field(default=())
    """Positions on the axis, with a name each."""


def curves(drawn: Sequence[Curve], *, across: str, label: str) -> str:
    """Curves over one axis, each named where it ends; the chosen ones in colour, the others grey."""
    points = [point for each in drawn for point in each.points]
    most = max(x for x, _ in points) or 1.0
    low, high, step = _range([y for _, y in points])

    def position(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        return (
            LEFT + (WIDE - LEFT - RIGHT) * x / most,
            TOP + (HIGH - TOP - BELOW) * (high - y) / (high - low),
        )

    lines = _grid(low, high, step, position, most)
    ends = [position(each.points[-1]) for each in drawn]
    heights = apart([y for _, y in ends], LINE_HIGH)
    order = sorted(range(len(drawn)), key=lambda at: drawn[at].chosen)
    for at in order:
        lines += _curve(drawn[at], ends[at], heights[at], position)
    marks = [mark for each in drawn if each.chosen for mark in each.marks]
    lines += _marks([(position((x, low))[0], name) for x, name in marks])
    below = (
        f'<text class="across" x="{(LEFT + WIDE - RIGHT) / 2}" y="{HIGH - 2}">{text(across)}</text>'
    )
    return (
        f'<svg class="curves" viewBox="0 0 {WIDE:g} {HIGH:g}" role="img" aria-label="{text(label)}">'
        f"{lines}{below}</svg>"
    )


def _curve(
    each: Curve,
    end: tuple[float, float],
    height: float,
    place: _Place,
) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, each.points))
    x, y = end
    figure = each.points[-1][1]
    far = WIDE - RIGHT + 12
    leader = f'<line class="leader" x1="{x + 4:.1f}" y1="{y:.1f}" x2="{far}" y2="{height:.1f}"/>'
    return (
        f'<g class="curve{" chosen" if each.chosen else ""}" data-name="{text(each.name)}">'
        f'<title>{text(each.name)} {figure:.3f}</title><polyline points="{path}"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>{leader}'
        f'<text x="{WIDE - RIGHT + 16}" y="{height + 4:.1f}">{text(each.name)} '
        f'<tspan class="figure">{figure:.3f}</tspan></text></g>'
    )


def _marks(marks: Sequence[tuple[float, str]]) -> str:
    """Lines from top to bottom, with names above the curves; where two would meet, one goes lower."""
    lines, free = "", [-math.inf] * 3
    for x, name in marks:
        row = next((at for at, end in enumerate(free) if end < x), 0)
        free[row] = x + 14 + 6.4 * len(name)
        lines += (
            f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 42 + 14 * row}" y2="{HIGH - BELOW}"/>'
            f'<text class="mark" x="{x + 5:.1f}" y="{TOP - 34 + 14 * row}">{text(name)}</text>'
        )
    return lines


def _range(values: Sequence[float]) -> tuple[float, float, float]:
    """The ends of an axis around values, and a round step between its lines."""
    low, high = min(values), max(values)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    step = _round((high - low) / 4)
    return math.floor(low / step) * step, math.ceil(high / step) * step, step


def _round(rough: float) -> float:
    """The round number that isn't less: 1, 2 or 5 with noughts."""
    size: float = 10 ** math.floor(math.log10(rough))
    return next(size * by for by in (1, 2, 5, 10) if size * by >= rough * (1 - 1e-9))


def _grid(low: float, high: float, step: float, position: _Place, most: float) -> str:
    lines = ""
    digits = max(0, -math.floor(math.log10(step)))
    for at in range(round((high - low) / step) + 1):
        y = position((0.0, low + at * step))[1]
        lines += (
            f'<line class="tick" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="left" x="{LEFT - 8}" y="{y + 4:.1f}">{low + at * step:.{digits}f}</text>'
        )
    every = _round(most / 5)
    for at in range(math.floor(most / every + 1e-9) + 1):
        x = position((at * every, low))[0]
        lines += (
            f'<text class="below" x="{x:.1f}" y="{HIGH - BELOW + 15}">{amount(at * every)}</text>'
        )
    return lines


def apart(heights: Iterable[float], by: float) -> list[float]:
    """Heights moved as little as it takes for any two to be so far apart, in their order.

    >>> apart([10.0, 12.0, 40.0], 16.0)
    [3.0, 19.0, 40.0]
    """
    wanted = list(heights)
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    groups: list[tuple[float, list[int]]] = []
    for at in order:
        middle, members = wanted[at], [at]
        while groups:
            before, those = groups[-1]
            if middle - before >= by * (len(members) + len(those)) / 2 - 1e-9:
                break
            groups.pop()
            middle = (middle * len(members) + before * len(those)) / (len(members) + len(those))
            members = [*those, *members]
        groups.append((middle, members))
    placed = dict.fromkeys(order, 0.0)
    for middle, members in groups:
        for number, at in enumerate(members):
            placed[at] = middle + by * (number - (len(members) - 1) / 2)
    return [placed[at] for at in range(len(wanted))]
