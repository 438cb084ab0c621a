"""Chart of an answer to a question: bars, lines or dots over its columns, with a choice to begin with."""

import datetime
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from markupsafe import Markup

from curriculum.catalog.page_query import Reply
from curriculum.inspection.formats import integer, number
from dashboards.charts import marks, plots
from dashboards.charts.marks import element
from dashboards.charts.plots import Point, Scale, Series
from dashboards.palette import family_class, series_class

Kind = Literal["bars", "line", "scatter"]
KINDS: tuple[Kind, ...] = ("bars", "line", "scatter")
NO_CHART = "none"
MOST_BARS, MOST_POINTS, MOST_SERIES = 40, 5000, 8
"""Bars, points and series that are drawn, the first of them."""
MIN_BAR = 0.002
"""Share of the width of a bar, at least."""
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
    groups = _grouped(shown, across, up, by)
    if len(groups) > MOST_SERIES:
        notes.append(f"{MOST_SERIES} of {len(groups)} values of {choice.by}, the first.")
        groups = dict(itertools.islice(groups.items(), MOST_SERIES))
    empty = sum(_values(row, across, up) is None for row in shown)
    if empty:
        notes.append(f"{number(empty, 'row')} without a value that can be drawn left out.")
    if choice.kind == "scatter" and across.kind == "words":
        picture = element("p", f"Dots need numbers or times across, and {across.name} has words.")
    elif not groups:
        picture = element("p", f"{up.name} has no number to draw.")
    elif choice.kind == "bars":
        picture = _bars(shown, groups, [across, up, *([by] if by else [])])
    else:
        picture = _plot(groups, across, up, is_line=choice.kind == "line")
    return Chart(picture=picture, notes=tuple(notes))


def _number(value: Any) -> float | None:
    """A number up to LARGEST; None for every other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    found = float(value)
    return found if abs(found) <= LARGEST else None


def _values(row: Row, across: Column, up: Column) -> tuple[Any, float] | None:
    """Value across and number up; None where one of them can't be drawn."""
    x, y = row[across.place], _number(row[up.place])
    if across.kind == "number":
        x = _number(x)
    elif across.kind == "time" and not isinstance(x, datetime.date):
        x = None
    return None if x is None or y is None else (x, y)


def _grouped(
    rows: Sequence[Row], across: Column, up: Column, by: Column | None
) -> dict[str, list[tuple[Any, float]]]:
    """Return values across and up by the label of a third column; all under "" without one."""
    grouped: dict[str, list[tuple[Any, float]]] = {}
    for row in rows:
        values = _values(row, across, up)
        if values is not None:
            grouped.setdefault(_label(row[by.place]) if by else "", []).append(values)
    return grouped


def _looks(groups: Iterable[str]) -> dict[str, str]:
    """Return the class of each group: families keep their colours."""
    names = [*groups]
    if all(map(family_class, names)):
        return {name: family_class(name) for name in names}
    is_only = len(names) == 1
    return {name: series_class(None if is_only else at) for at, name in enumerate(names)}


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


def _bars(
    rows: Sequence[Row],
    groups: Mapping[str, Sequence[tuple[Any, float]]],
    columns: Sequence[Column],
) -> Markup:
    """A line a bar, in the answer's order: its label, the bar from zero on, and its number."""
    across, up, *by = columns
    looks = _looks(groups)
    found = [value for values in groups.values() for _, value in values]
    low, high = min(0.0, *found), max(0.0, *found)
    span = (high - low) or 1.0
    lines = []
    for row in rows:
        values = _values(row, across, up)
        group = _label(row[by[0].place]) if by else ""
        if values is None or group not in looks:
            continue
        start, end = sorted(((values[1] - low) / span, -low / span))
        bar = marks.bar(max(end, start + MIN_BAR), start=start, look=looks[group])
        name = element(
            "th",
            _label(row[across.place]),
            *([" ", element("small", group)] if group else []),
            scope="row",
        )
        number_of = element("td", figure(values[1]), class_="n")
        lines.append(element("tr", name, element("td", bar, class_="drawn"), number_of))
    heads = element(
        "tr",
        element("th", across.name, scope="col"),
        element("td"),
        element("th", up.name, scope="col", class_="n"),
    )
    return element("table", element("thead", heads), element("tbody", *lines), class_="bars")


def _plot(
    groups: Mapping[str, Sequence[tuple[Any, float]]], across: Column, up: Column, *, is_line: bool
) -> Markup:
    """Lines or dots over two axes."""
    looks = _looks(groups)
    x, places = _across([value for values in groups.values() for value, _ in values], across)
    series = []
    for name, values in groups.items():
        points: list[Point] = [(places[value], found) for value, found in values]
        if is_line:
            points.sort(key=lambda point: point[0])
        series.append(
            Series(
                points=points,
                look=looks[name],
                name=name,
                figure=figure(points[-1][1]) if is_line else "",
                is_line=is_line,
                dots="last" if is_line else "each",
            )
        )
    picture = plots.plot(
        series,
        x=x,
        y=plots.around([found for curve in series for _, found in curve.points]),
        label=f"{up.name} over {across.name}",
        below=across.name,
    )
    return element("p", up.name, class_="up") + picture


def _across(values: Sequence[Any], column: Column) -> tuple[Scale, Mapping[Any, float]]:
    """Return the scale across, and the number on it of each value."""
    if column.kind == "words":
        labels = {label: at for at, label in enumerate(dict.fromkeys(map(_label, values)))}
        return plots.words(labels), {value: labels[_label(value)] for value in values}
    if column.kind == "time":
        seconds = {value: _seconds(value) for value in values}
        return plots.times(min(seconds.values()), max(seconds.values()), parts=2), seconds
    numbers = {value: float(value) for value in values}
    return plots.within(min(numbers.values()), max(numbers.values())), numbers


def _seconds(value: Any) -> float:
    """A date or a moment in seconds; without a time zone it is UTC."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    return float(value.timestamp())
