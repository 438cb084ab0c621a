"""Chart of an answer to a question: bars, lines or dots over its columns, with a choice to begin with."""

import datetime
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from markupsafe import Markup

from curriculum.catalog.page_query import Reply
from curriculum.inspection.formats import integer, number
from dashboards import plots
from dashboards.charts import at, element
from dashboards.palette import family_class, series_class

Kind = Literal["bars", "line", "scatter"]
KINDS: tuple[Kind, ...] = ("bars", "line", "scatter")
NO_CHART = "none"
MOST_BARS, MOST_POINTS, MOST_SERIES = 40, 5000, 8
"""Bars, points and series that are drawn, the first of them."""
MOST_LETTERS = 40
"""Letters of a label."""
LARGEST = 1e300
"""The largest number that is drawn: differences of larger ones may be beyond all numbers."""
_PLAIN_DIGITS = 1e15
"""Numbers from here on are written with an exponent."""
_NUMBERS = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
)
_TIMES = ("DATE", "TIMESTAMP")
_WORDS = ("VARCHAR", "BOOLEAN", "ENUM", "UUID")
Row = tuple[Any, ...]


def is_number(kind: str) -> bool:
    """Return True for a type of DuckDB's whose values are numbers.

    >>> is_number("UBIGINT"), is_number("DECIMAL(18,3)"), is_number("BIGINT[]"), is_number("VARCHAR")
    (True, True, False, False)
    """
    return kind.startswith(_NUMBERS) and "[" not in kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of an answer that a chart can have."""

    name: str
    place: int
    kind: Literal["number", "time", "words"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A kind of chart and the names of its columns; `by` is empty where all is one series."""

    kind: str
    """One of KINDS, or NO_CHART."""
    across: str
    up: str
    by: str = ""


def columns(reply: Reply) -> dict[str, Column]:
    """The columns that a chart can have, by name; of two of one name the first.

    A column of numbers or times some of which Python has no value for, such as the year 20000, holds words.
    """
    found: dict[str, Column] = {}
    rows = reply.rows
    for place, (name, kind) in enumerate(zip(reply.columns, reply.types, strict=True)):
        if "[" in kind or name in found:
            continue
        has_text = any(isinstance(row[place], str) for row in rows)
        if kind.startswith(_WORDS) or (has_text and (is_number(kind) or kind.startswith(_TIMES))):
            found[name] = Column(name=name, place=place, kind="words")
        elif is_number(kind):
            found[name] = Column(name=name, place=place, kind="number")
        elif kind.startswith(_TIMES):
            found[name] = Column(name=name, place=place, kind="time")
    return found


def suggested(reply: Reply) -> Choice | None:
    """The chart that suits an answer; None where there are no two lines, or no number.

    Bars of the first number by the first words; a line where the first column is a time, or rises from line
    to line; dots of two numbers.
    """
    known = columns(reply)
    rows = reply.rows
    numbers = [each for each in known.values() if each.kind == "number"]
    if len(rows) < 2 or not numbers:
        return None
    first = next(iter(known.values()))
    words = [each for each in known.values() if each.kind == "words"]
    times = [each for each in known.values() if each.kind == "time"]
    if times:
        return _by_words(rows, "line", times[0], numbers[0], words)
    if first.kind == "number" and len(numbers) > 1 and _rises(rows, first):
        return _by_words(rows, "line", first, numbers[1], words)
    if words:
        return _by_words(rows, "bars", words[0], numbers[0], words[1:])
    if len(numbers) > 1:
        return Choice(kind="scatter", across=numbers[0].name, up=numbers[1].name)
    return Choice(kind="bars", across=numbers[0].name, up=numbers[0].name)


def _by_words(
    rows: Sequence[Row], kind: Kind, across: Column, up: Column, words: Sequence[Column]
) -> Choice:
    """The chart; where a place across has several lines, in the colours of the first words of few values."""
    places = [row[across.place] for row in rows]
    if len(set(map(str, places))) < len(places):
        for each in words:
            if (
                each is not across
                and 1 < len({str(row[each.place]) for row in rows}) <= MOST_SERIES
            ):
                return Choice(kind=kind, across=across.name, up=up.name, by=each.name)
    return Choice(kind=kind, across=across.name, up=up.name)


def _rises(rows: Sequence[Row], column: Column) -> bool:
    found = [_number(row[column.place]) for row in rows]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return False
    return all(one <= other for one, other in itertools.pairwise(values)) and values[0] < values[-1]


def resolve_choice(reply: Reply, kind: str, across: str, up: str, by: str | None) -> Choice | None:
    """Resolve what was asked for: what the answer has of it, the rest as suggested; None where nothing is."""
    usual = suggested(reply)
    if usual is None:
        return None
    known = columns(reply)
    has_number = up in known and known[up].kind == "number"
    groups = usual.by if by is None else by if by in known else ""
    return Choice(
        kind=kind if kind in (*KINDS, NO_CHART) else usual.kind,
        across=across if across in known else usual.across,
        up=up if has_number else usual.up,
        by=groups,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The points of one value of a column, or of all lines."""

    name: str
    look: str
    points: tuple[tuple[Any, float], ...]
    """Value across and number up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart, and words about what it leaves out."""

    picture: Markup
    notes: tuple[str, ...]


def draw(reply: Reply, choice: Choice) -> Chart:
    """Draw the chart that was chosen, or put a sentence in its place where its columns can't have it."""
    known, rows = columns(reply), reply.rows
    across, up = known[choice.across], known[choice.up]
    most = MOST_BARS if choice.kind == "bars" else MOST_POINTS
    shown = rows[:most]
    notes = [f"The first {integer(most)} of {number(len(rows), 'row')}."] if shown != rows else []
    by = known.get(choice.by)
    series = _series(shown, across, up, by)
    if len(series) > MOST_SERIES:
        notes.append(f"{MOST_SERIES} of {len(series)} values of {choice.by}, the first.")
        series = series[:MOST_SERIES]
    held = sum(len(each.points) for each in series)
    empty = sum(_point(row, across, up) is None for row in shown)
    if empty:
        notes.append(f"{number(empty, 'row')} without a value that can be drawn left out.")
    if choice.kind == "scatter" and across.kind == "words":
        picture = element("p", f"Dots need numbers or times across, and {across.name} has words.")
    elif not held:
        picture = element("p", f"{up.name} has no number to draw.")
    elif choice.kind == "bars":
        picture = _bars(shown, series, [across, up, *([by] if by else [])])
    else:
        picture = _plot(series, across, up, is_line=choice.kind == "line")
    return Chart(picture=picture, notes=tuple(notes))


def _number(value: Any) -> float | None:
    """A number up to LARGEST; None for every other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    found = float(value)
    return found if abs(found) <= LARGEST else None


def _point(row: Row, across: Column, up: Column) -> tuple[Any, float] | None:
    """Value across and number up; None where one of them can't be drawn."""
    x, y = row[across.place], _number(row[up.place])
    if across.kind == "number":
        x = _number(x)
    elif across.kind == "time" and not isinstance(x, datetime.date):
        x = None
    return None if x is None or y is None else (x, y)


def _series(rows: Sequence[Row], across: Column, up: Column, by: Column | None) -> list[Series]:
    grouped: dict[str, list[tuple[Any, float]]] = {}
    for row in rows:
        point = _point(row, across, up)
        if point is not None:
            grouped.setdefault(_label(row[by.place]) if by else "", []).append(point)
    are_families = all(map(family_class, grouped))
    return [
        Series(
            name=name,
            look=family_class(name) if are_families else series_class(index if by else None),
            points=tuple(points),
        )
        for index, (name, points) in enumerate(grouped.items())
    ]


def _label(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def figure(value: float) -> str:
    """A number in at most five digits.

    >>> figure(1234567), figure(0.91234567), figure(12.0), figure(-3.5), figure(1e300)
    ('1,234,567', '0.9123', '12', '−3.5', '1e+300')
    """
    is_plain = value == round(value) or abs(value) >= 10_000
    text = integer(abs(value)) if is_plain and abs(value) < _PLAIN_DIGITS else f"{abs(value):.4g}"
    return f"−{text}" if value < 0 else text


def _bars(rows: Sequence[Row], series: Sequence[Series], columns: Sequence[Column]) -> Markup:
    """A line a bar, in the answer's order: its label, the bar from zero on, and its number."""
    across, up, *by = columns
    looks = {each.name: each.look for each in series}
    values = [y for each in series for _, y in each.points]
    low, high = min(0.0, *values), max(0.0, *values)
    span = (high - low) or 1.0
    lines = []
    for row in rows:
        point = _point(row, across, up)
        group = _label(row[by[0].place]) if by else ""
        if point is None or group not in looks:
            continue
        start, end = sorted(((point[1] - low) / span, -low / span))
        bar = element("rect", x=at(start), width=at(max(end - start, 0.002)), height="100%")
        picture = element("svg", bar, class_=f"bar {looks[group]}", aria_hidden="true")
        name = element(
            "th",
            _label(row[across.place]),
            *([" ", element("small", group)] if group else []),
            scope="row",
        )
        number_of = element("td", figure(point[1]), class_="n")
        lines.append(element("tr", name, element("td", picture, class_="drawn"), number_of))
    heads = element(
        "tr",
        element("th", across.name, scope="col"),
        element("td"),
        element("th", up.name, scope="col", class_="n"),
    )
    return element("table", element("thead", heads), element("tbody", *lines), class_="bars")


def _plot(series: Sequence[Series], across: Column, up: Column, *, is_line: bool) -> Markup:
    """Lines or dots over two axes."""
    axis = _axis(series, across)
    low, high, step = plots.axis_of([y for each in series for _, y in each.points])

    def place(point: tuple[Any, float]) -> plots.Point:
        return axis.place(point[0]), (high - point[1]) / (high - low)

    marks, names = [], []
    for each in series:
        points = [place(point) for point in each.points]
        if is_line:
            points.sort(key=lambda point: point[0])
        label = f"{each.name or up.name}: {integer(len(points))} points"
        inner = (
            [plots.line_of(points), plots.dots(points[-1:])] if is_line else [plots.dots(points)]
        )
        look = f"{each.look}{'' if is_line else ' dots'}"
        marks.append(element("g", element("title", label), *inner, class_=look))
        last = max(each.points, key=lambda point: axis.place(point[0]))
        if is_line and each.name:
            y = place(last)[1]
            names.append(plots.Name(name=each.name, figure=figure(last[1]), y=y, look=each.look))
    picture = plots.grid(
        marks,
        left=[
            plots.Tick(place=(high - value) / (high - low), label=label)
            for value, label in plots.steps(low, high, step)
        ],
        below=plots.labels_below(axis.ticks, across.name),
        names=names,
        label=f"{up.name} over {across.name}",
    )
    legend = (
        Markup()
        if is_line or len(series) < 2
        else plots.legend((each.name, each.look) for each in series)
    )
    return element("p", up.name, class_="up") + picture + legend


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """The axis across: the place of a value, and labels."""

    place: Callable[[Any], float]
    ticks: tuple[plots.Tick, ...]


def _axis(series: Sequence[Series], column: Column) -> Axis:
    values = [x for each in series for x, _ in each.points]
    if column.kind == "words":
        return _word_axis([_label(value) for value in values])
    numbers = [_seconds(value) if column.kind == "time" else float(value) for value in values]
    low, high = plots.widened(min(numbers), max(numbers))
    span = high - low

    def place(value: Any) -> float:
        found = _seconds(value) if column.kind == "time" else float(value)
        return plots.ROOM * (found - low) / span

    labels = _time_labels(low, high) if column.kind == "time" else plots.ticks_within(low, high)
    ticks = (
        plots.Tick(place=plots.ROOM * (value - low) / span, label=label) for value, label in labels
    )
    return Axis(place=place, ticks=tuple(ticks))


def _word_axis(labels: Sequence[str]) -> Axis:
    """Words at even distances, in the order in which they are met; about five of them are written."""
    places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    last = max(1, len(places) - 1)
    every = -(-len(places) // 5)
    ticks = tuple(
        plots.Tick(place=plots.ROOM * place / last, label=label[:12])
        for label, place in places.items()
        if place % every == 0
    )
    return Axis(place=lambda value: plots.ROOM * places[_label(value)] / last, ticks=ticks)


def _seconds(value: Any) -> float:
    """A date or a moment in seconds; without a time zone it is UTC."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    return float(value.timestamp())


FIRST, LAST = datetime.date.min, datetime.date.max
"""Days of the calendar; room beside a picture's values may reach past them."""


def _time_labels(low: float, high: float) -> Iterator[tuple[float, str]]:
    """The first moment, the one in the middle and the last, as far as the calendar has them.

    >>> [label for _, label in _time_labels(-62_151_364_800.0, -20_717_121_600.0)]
    ['0001-01-01', '0657-04-02', '1313-07-02']
    """
    low, high = (min(max(each, _seconds(FIRST)), _seconds(LAST)) for each in (low, high))
    day = 86_400
    for value in dict.fromkeys((low, (low + high) / 2, high)):
        moment = datetime.datetime.fromtimestamp(value, datetime.UTC)
        yield value, str(moment.date() if high - low > 2 * day else moment.time())[:10]
