"""Charts of SQL results: bars, lines or scatter plots. A suitable chart is suggested for each result."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from markupsafe import Markup

from curriculum.catalog.page_query import Reply
from curriculum.inspection.formats import integer, number
from dashboards import html
from dashboards.charts import marks, plots
from dashboards.charts.marks import element
from dashboards.charts.plots import Scale, Series
from dashboards.palette import family_class, series_class

Kind = Literal["bars", "line", "scatter"]
KINDS: tuple[Kind, ...] = ("bars", "line", "scatter")
NO_CHART = "none"
MAX_BARS, MAX_POINTS, MAX_SERIES = 40, 5000, 8
"""Maximum numbers of bars, points and series; further ones are not drawn."""
MIN_BAR = 0.002
"""Minimum width of a bar, as a share of the axis."""
MAX_LETTERS = 40
"""Maximum characters of a label."""
MAX_NUMBER = 1e300
"""Largest drawable number; differences of larger ones may overflow."""
_PLAIN_DIGITS = 1e15
"""Numbers of this size or larger are written with an exponent."""
Held = Literal["number", "time", "words"]
_TYPES: dict[Held, tuple[str, ...]] = {
    "number": (
        *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
    ),
    "time": ("DATE", "TIMESTAMP"),
    "words": ("VARCHAR", "BOOLEAN", "ENUM", "UUID"),
}
"""First letters of the names of DuckDB types, by the kind of their values."""


def _held(kind: str) -> Held | None:
    """Return the kind of values of a DuckDB type: numbers, times or text; None for lists and structs."""
    if "[" in kind:
        return None
    return next((held for held, names in _TYPES.items() if kind.startswith(names)), None)


def is_number(kind: str) -> bool:
    """Return True for numeric DuckDB types.

    >>> is_number("UBIGINT"), is_number("DECIMAL(18,3)"), is_number("BIGINT[]"), is_number("VARCHAR")
    (True, True, False, False)
    """
    return _held(kind) == "number"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerColumn:
    """A column of a result whose values a chart can draw."""

    name: str
    kind: Held
    values: Sequence[Any]

    @property
    def drawable(self) -> list[Any]:
        """The values of the column; those that a chart can't draw are None."""
        return [value if self._is_drawable(value) else None for value in self.values]

    def _is_drawable(self, value: Any) -> bool:
        if self.kind == "number":
            is_amount = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
            return is_amount and abs(float(value)) <= MAX_NUMBER
        return self.kind == "words" or isinstance(value, datetime.date)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartChoice:
    """Choice of a chart: its kind and the columns for x, y and colour.

    `across` is the column of x values, `up` that of y values. `by` is the column whose values give the series
    their colours; it is empty if there is a single series.
    """

    kind: str
    """One of KINDS, or NO_CHART."""
    across: str
    up: str
    by: str = ""


def columns(reply: Reply) -> dict[str, AnswerColumn]:
    """Return the columns that a chart can use, by name; if a name occurs twice, the first column counts.

    If Python can't represent a number or time of a column, such as a date in the year 20000, the column
    counts as text.
    """
    found: dict[str, AnswerColumn] = {}
    rows = reply.rows
    for place, (name, kind) in enumerate(zip(reply.columns, reply.types, strict=True)):
        held = _held(kind)
        if held is not None and name not in found:
            values = [row[place] for row in rows]
            has_text = any(isinstance(value, str) for value in values)
            found[name] = AnswerColumn(name=name, kind="words" if has_text else held, values=values)
    return found


def suggested(reply: Reply) -> ChartChoice | None:
    """Return a suitable chart for a result, or None if it has fewer than two rows or no numeric column.

    If the result has a column of times, or its first column is numeric and ascending, the chart is a line
    over this column. Otherwise, if the result has a text column, the chart has one bar per text. Otherwise it
    is a scatter plot of the first two numeric columns.
    """
    known = [*columns(reply).values()]
    numbers, times, words = ([column for column in known if column.kind == kind] for kind in _TYPES)
    if not numbers or len(numbers[0].values) < 2:
        return None
    if times:
        return _by_words("line", times[0], numbers[0], words)
    if len(numbers) > 1 and known[0] is numbers[0] and _rises(known[0]):
        return _by_words("line", numbers[0], numbers[1], words)
    if words:
        return _by_words("bars", words[0], numbers[0], words[1:])
    if len(numbers) > 1:
        return ChartChoice(kind="scatter", across=numbers[0].name, up=numbers[1].name)
    return ChartChoice(kind="bars", across=numbers[0].name, up=numbers[0].name)


def _by_words(
    kind: Kind, across: AnswerColumn, up: AnswerColumn, words: Sequence[AnswerColumn]
) -> ChartChoice:
    """Return a chart with `across` on the x axis and `up` on the y axis.

    If x values repeat, the first column of `words` with few distinct values gives the colours.
    """
    is_single = len(set(map(str, across.values))) == len(across.values)
    groups = (word.name for word in words if 1 < len(set(map(str, word.values))) <= MAX_SERIES)
    by = "" if is_single else next(groups, "")
    return ChartChoice(kind=kind, across=across.name, up=up.name, by=by)


def _rises(column: AnswerColumn) -> bool:
    values = column.drawable
    return None not in values and values == sorted(values) and values[0] < values[-1]


def resolve_choice(
    reply: Reply, kind: str, across: str, up: str, by: str | None
) -> ChartChoice | None:
    """Return the chart that the reader requested, or None if the result can't be drawn.

    A requested column that the result lacks is replaced by that of the suggested chart.
    """
    usual = suggested(reply)
    if usual is None:
        return None
    known = columns(reply)
    has_number = up in known and known[up].kind == "number"
    groups = usual.by if by is None else by if by in known else ""
    return ChartChoice(
        kind=kind if kind in (*KINDS, NO_CHART) else usual.kind,
        across=across if across in known else usual.across,
        up=up if has_number else usual.up,
        by=groups,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart, and notes that say which data it leaves out."""

    picture: Markup
    notes: tuple[str, ...]


class _Value(NamedTuple):
    """A point of a chart: its x value, its y value, and the group to whose series it belongs."""

    across: Any
    up: float
    group: str


def draw(reply: Reply, choice: ChartChoice) -> Chart:
    """Draw a chart; if its columns can't be drawn, return a sentence with the reason instead."""
    known, notes = columns(reply), list[str]()
    across, up, by = known[choice.across], known[choice.up], known.get(choice.by)
    most = MAX_BARS if choice.kind == "bars" else MAX_POINTS
    if len(up.values) > most:
        notes.append(
            f"Only the first {integer(most)} of {number(len(up.values), 'row')} are drawn."
        )
    groups = [_label(value) for value in by.values] if by else [""] * len(up.values)
    rows = [*zip(across.drawable, up.drawable, groups, strict=True)][:most]
    values = [_Value(x, float(y), group) for x, y, group in rows if None not in (x, y)]
    names = [*dict.fromkeys(value.group for value in values)]
    if len(names) > MAX_SERIES:
        notes.append(
            f"Only the first {MAX_SERIES} of {len(names)} values of {choice.by} are drawn."
        )
    if empty := len(rows) - len(values):
        notes.append(f"{number(empty, 'row')} without a drawable value are not shown.")
    looks = _looks(names[:MAX_SERIES])
    shown = [value for value in values if value.group in looks]
    if choice.kind == "scatter" and across.kind == "words":
        picture = element(
            "p", f"A scatter plot needs numbers or times as x; {across.name} has text."
        )
    elif not shown:
        picture = element("p", f"{up.name} has no numbers to draw.")
    elif choice.kind == "bars":
        picture = _bars(shown, looks, across.name, up.name)
    else:
        picture = _plot(shown, looks, across, up.name, is_line=choice.kind == "line")
    return Chart(picture=picture, notes=tuple(notes))


def _looks(names: Sequence[str]) -> dict[str, str]:
    """Return the CSS class of each group; groups named like families get the colours of the families."""
    if all(map(family_class, names)):
        return {name: family_class(name) for name in names}
    return {name: series_class(at if len(names) > 1 else None) for at, name in enumerate(names)}


def _label(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= MAX_LETTERS else f"{text[: MAX_LETTERS - 1]}…"


def figure(value: float) -> str:
    """Format a number with at most five digits.

    >>> figure(1234567), figure(0.91234567), figure(12.0), figure(-3.5), figure(1e300)
    ('1,234,567', '0.9123', '12', '−3.5', '1e+300')
    """
    is_plain = value == round(value) or abs(value) >= 10_000
    text = integer(abs(value)) if is_plain and abs(value) < _PLAIN_DIGITS else f"{abs(value):.4g}"
    return f"−{text}" if value < 0 else text


def _bars(values: Sequence[_Value], looks: Mapping[str, str], across: str, up: str) -> Markup:
    """Return one line per bar, in the order of the result: its label, the bar from zero, and the number."""
    found = [value.up for value in values]
    low, high = min(0.0, *found), max(0.0, *found)
    lines = []
    for value in values:
        start, end = sorted(((value.up - low) / (high - low or 1.0), -low / (high - low or 1.0)))
        bar = marks.bar(max(end, start + MIN_BAR), start=start, look=looks[value.group])
        lines.append((_label(value.across), value.group, bar, figure(value.up)))
    return html.part("sql.html", "bars", across, up, lines)


def _plot(
    values: Sequence[_Value],
    looks: Mapping[str, str],
    across: AnswerColumn,
    up: str,
    *,
    is_line: bool,
) -> Markup:
    """Return a plot of lines (`is_line`) or points with an x axis and a y axis."""
    groups = {name: [value for value in values if value.group == name] for name in looks}
    x, places = _across([value.across for name in looks for value in groups[name]], across.kind)
    series = []
    for name, look in looks.items():
        points = [(places[value.across], value.up) for value in groups[name]]
        if is_line:
            points.sort(key=lambda point: point[0])
        last = figure(points[-1][1]) if is_line else ""
        dots: Literal["last", "each"] = "last" if is_line else "each"
        series.append(
            Series(points=points, look=look, name=name, figure=last, is_line=is_line, dots=dots)
        )
    y = plots.around([value.up for value in values])
    label = f"{up} over {across.name}"
    return element("p", up, class_="up") + plots.plot(
        series, x=x, y=y, label=label, below=across.name
    )


def _across(values: Sequence[Any], kind: Held) -> tuple[Scale, Mapping[Any, float]]:
    """Return the scale of the x axis, and the position on it for each x value."""
    if kind == "words":
        labels = {label: at for at, label in enumerate(dict.fromkeys(map(_label, values)))}
        return plots.words(labels), {value: labels[_label(value)] for value in values}
    places = {value: _seconds(value) if kind == "time" else float(value) for value in values}
    low, high = min(places.values()), max(places.values())
    return plots.times(low, high, parts=2) if kind == "time" else plots.within(low, high), places


def _seconds(day: datetime.date) -> float:
    """Return a date or time as seconds since 1970; a time without a time zone counts as UTC."""
    if not isinstance(day, datetime.datetime):
        day = datetime.datetime.combine(day, datetime.time())
    return (day if day.tzinfo else day.replace(tzinfo=datetime.UTC)).timestamp()
