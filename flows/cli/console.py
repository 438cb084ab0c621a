"""Console output: messages and tables, and JSON with the same values."""

import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.highlighter import JSONHighlighter
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Row, Table
from rich.text import Text

from curriculum.inspection.formats import first_names
from curriculum.inspection.units import cell_text
from dashboards.palette import DOCUMENT_COLOURS
from schemas.visible import in_json, one_line, shortened, visible

ACCENT = "cyan"
MUTED = "bright_black"
GOOD, BAD = "green", "bold red"

WIDTH = 160
"""Width in columns without a terminal."""


class _Shown(Console):
    """Console that escapes control characters in text.

    Rich's markup is disabled, because paths and names contain brackets and colons.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)

    @property
    def size(self) -> ConsoleDimensions:
        """Size of the terminal; the width is WIDTH if there is no terminal."""
        found = super().size
        return found if self.is_terminal else ConsoleDimensions(WIDTH, found.height)

    @size.setter
    def size(self, given: tuple[int, int]) -> None:
        self._width, self._height = given

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render an object and escape its text.

        Objects within the object are rendered and escaped before they are aligned.
        """
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


out = _Shown()
err = _Shown(stderr=True)


def print_json(value: object) -> None:
    """Print a value as JSON, coloured on a terminal; invisible characters become JSON escapes.

    Dataclasses and models become objects with their fields. Numbers are not rounded; NaN and infinity become
    null.
    """
    plain = to_jsonable_python(value, inf_nan_mode="null")
    text = in_json(json.dumps(plain, ensure_ascii=False, indent=1))
    out.print(JSONHighlighter()(text) if out.is_terminal else Text(text), soft_wrap=True)


def print_line(line: str, style: str = "") -> None:
    """Print one line without wrapping; line feeds in it are escaped."""
    out.print(Text(one_line(line), style), soft_wrap=True)


def warn(line: str) -> None:
    """Print a warning to stderr, shortened to MAX_SHOWN characters."""
    err.print(Text(one_line(shortened(line)), "yellow"), soft_wrap=True)


def colour(index: int) -> str:
    """Return the colour of the document at `index` in a row; neighbours have different colours."""
    return DOCUMENT_COLOURS[index % len(DOCUMENT_COLOURS)]


IDENTITIES = frozenset(
    [
        "name",
        "specialist",
        "phase",
        "run",
        "stage",
        "key",
        "row",
        "document",
        "document_id",
        "commit",
        "pack_id",
    ]
)
"""Headings of columns that are never wrapped, because users copy their values into other commands."""
DETAILS = frozenset(("state", "why", "file", "path", "study"))
"""Headings of columns that are never dropped; if they don't fit, they move to a line below their row."""
MIN_TEXT, MIN_DETAIL = 12, 32
"""Minimum widths in characters of a text column and of a column with details."""
MAX_WORD = 60
"""Longest word, in characters, that a column is made wide enough for; longer words are broken."""
MIN_FLEXIBLE = 4
"""Minimum width in characters of a column that shares the remaining width; its words are cut off."""
GAP = 2
MAX_NAMED_COLUMNS = 12
"""Maximum number of dropped columns that the note lists."""


class FittedTable(Table):
    """Table that drops columns if the terminal is too narrow, and lists the dropped columns below the table.

    Columns whose headings are in `details` are not dropped; their values are moved to a line below their row.
    """

    def __init__(
        self, *, dropped_first: Sequence[str] = (), details: Collection[str] = DETAILS
    ) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=MUTED)
        self.dropped_first = dropped_first
        self.details = details
        self.more = ""
        """Text below the table that says how many lines aren't shown."""

    def add_values(self, head: str, cells: Sequence[tuple[str, object]], limit: int | None) -> None:
        """Add a column unless all of its cells are empty; align it right if all values are numbers.

        `cells` are pairs of the text and the value of a cell.
        """
        if not any(cell for cell, _ in cells):
            return
        is_text = head in IDENTITIES | DETAILS or not all(_is_numeric(*cell) for cell in cells)
        self.add_column(
            one_line(head),
            overflow="fold",
            no_wrap=head in IDENTITIES,
            justify="left" if is_text else "right",
        )
        style = "" if len(self.columns) > 1 else "bold"
        # Text instead of str, since a path may look like markup.
        self.columns[-1]._cells = [Text(cell, style) for cell, _ in cells[:limit]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the columns that fit, then name the columns that were dropped.

        Values of columns with details that don't fit are rendered below their row.
        """
        removed = self._removed(console, options)
        kept = [column for column in self.columns if column not in removed]
        if not any(column.flexible for column in kept):
            kept = _with_widths(console, options, kept)
        below = [column for column in removed if str(column.header) in {*IDENTITIES, *self.details}]
        if not below:
            yield self._part(kept, range(len(self.rows)), head=True)
        for index in range(len(self.rows)) if below else ():
            yield self._part(kept, [index], head=index == 0)
            detail = _detail(below, index)
            if detail:
                yield Padding(Text(detail, MUTED), (0, 0, 0, 2))
        dropped = [*dict.fromkeys(str(column.header) for column in removed if column not in below)]
        if dropped:
            names = first_names(dropped, MAX_NAMED_COLUMNS)
            yield Text(f"not shown at {options.max_width} columns: {names}", MUTED)
        if self.more:
            yield Text(self.more, MUTED)

    def _part(self, columns: Sequence[Column], rows: Sequence[int], *, head: bool) -> Table:
        """Return a plain table with only some rows and columns."""
        part = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=MUTED)
        part.show_header, part.expand = head, self.expand
        for index, column in enumerate(columns):
            cells = [column._cells[row] for row in rows]
            part.columns.append(replace(column, _index=index, _cells=cells))
        part.rows = [self.rows[row] for row in rows]
        return part

    def _removed(self, console: Console, options: ConsoleOptions) -> list[Column]:
        """Return the columns that must be removed to fit the width; the first column always stays."""
        widths = {id(column): _least_width(console, options, column) for column in self.columns}
        surplus = sum(widths.values()) + GAP * (len(widths) - 1) - options.max_width
        removed: list[Column] = []
        for column in sorted(self.columns[1:], key=lambda column: self._priority(console, column)):
            if surplus <= 0:
                break
            surplus -= widths[id(column)] + GAP
            removed.append(column)
        return sorted(removed, key=self.columns.index)

    def _priority(self, console: Console, column: Column) -> tuple[int, int]:
        """Return the sort key by which columns are removed: columns with a low key are removed first.

        The order is: long details, the columns in `dropped_first`, other columns, short details, names.
        """
        name, place = str(column.header), self.columns.index(column)
        if name in self.details:
            is_long = _natural_width(console, console.options, column) > MIN_DETAIL
            return (0 if is_long else 3), -place
        if name in self.dropped_first:
            return 1, self.dropped_first.index(name)
        return (4 if name in IDENTITIES else 2), -place


def _detail(columns: Sequence[Column], row: int) -> str:
    """Return the values of `columns` in a row as one line.

    Names and states are preceded by the headings of their columns.
    """
    cells = ((str(column.header), str(column._cells[row])) for column in columns)
    words = (
        f"{name} {cell}" if name in IDENTITIES or name == "state" else cell
        for name, cell in cells
        if cell
    )
    return "  ".join(words)


def _with_widths(
    console: Console, options: ConsoleOptions, columns: Sequence[Column]
) -> list[Column]:
    """Return the columns with fixed widths that fill the available width.

    Each column has at least its minimum width and at most its natural width. Space is given to the columns
    that lack the least width first.
    """
    widths = [_least_width(console, options, column) for column in columns]
    needs = [_natural_width(console, options, column) for column in columns]
    left = max(0, options.max_width - sum(widths) - GAP * (len(widths) - 1))
    smallest_first = sorted(range(len(columns)), key=lambda at: needs[at] - widths[at])
    for rank, at in enumerate(smallest_first):
        given = min(max(0, needs[at] - widths[at]), left // (len(columns) - rank))
        widths[at] += given
        left -= given
    return [replace(column, width=width) for column, width in zip(columns, widths, strict=True)]


def _natural_width(console: Console, options: ConsoleOptions, column: Column) -> int:
    """Return the number of characters that a column needs if none of its text is wrapped."""
    cells = (Measurement.get(console, options.update(width=1 << 16), cell) for cell in column.cells)
    most = max((cell.maximum for cell in cells), default=0)
    return max(len(str(column.header)), most)


def _least_width(console: Console, options: ConsoleOptions, column: Column) -> int:
    """Return the minimum width of a column in characters.

    Numbers and names must not be wrapped. In other columns, the longest word must not be broken.
    """
    if column.flexible:
        return MIN_FLEXIBLE
    most = _natural_width(console, options, column)
    if column.no_wrap or column.justify == "right":
        return most
    cells = (Measurement.get(console, options.update(width=1 << 16), cell) for cell in column.cells)
    word = min(max((cell.minimum for cell in cells), default=0), MAX_WORD)
    least = MIN_DETAIL if str(column.header) in DETAILS else MIN_TEXT
    return max(len(str(column.header)), min(most, max(least, word)))


def plain_table(*names: str, details: Collection[str] = DETAILS) -> Table:
    """Return a table without borders; the caller right-aligns numbers with `justify`."""
    table = FittedTable(details=details)
    for name in names:
        table.add_column(one_line(name), overflow="fold", no_wrap=name in IDENTITIES)
    return table


_AS_NAMED: Mapping[str, str | Sequence[str]] = MappingProxyType({})
ABSENT = "–"
"""Cell without a value."""


def table(
    lines: Iterable[object],
    columns: Sequence[str] = (),
    *,
    heads: Mapping[str, str | Sequence[str]] = _AS_NAMED,
    limit: int | None = None,
    things: str = "",
    dropped_first: Sequence[str] = (),
) -> FittedTable:
    """Return a table with one line per value; below the first `limit` lines it says how many are left.

    Args:
        lines: Dataclasses or mappings; print_json prints them with the same names.
        columns: Names of the fields to show; default: all. Columns without any value are dropped.
        heads: Headings that differ from the names; a tuple of headings splits a tuple field into columns.
        limit: Number of lines to show unless --full is given; None for all.
        things: Noun for the lines that are left, as in "… 3 more things (--full)".
        dropped_first: Headings in the order in which columns are dropped on a narrow terminal.
    """
    listed = [_fields(line) for line in lines]
    names = [*columns] or [*(listed[0] if listed else ())]
    drawn = FittedTable(dropped_first=dropped_first)
    for name in names:
        head = heads.get(name, name)
        values = [line[name] for line in listed]
        if isinstance(head, str):
            drawn.add_values(head, [(cell_text(name, value), value) for value in values], limit)
            continue
        for at, title in enumerate(head):
            own = [value[at] for value in values]
            cells = [(ABSENT if value is None else cell_text(name, value), value) for value in own]
            drawn.add_values(title, cells, limit)
    drawn.rows = [Row() for _ in listed[:limit]]
    rest = len(listed) - len(drawn.rows)
    drawn.more = " ".join(filter(None, (f"… {rest:,} more", things, "(--full)"))) if rest else ""
    return drawn


def _fields(line: object) -> Mapping[str, Any]:
    if isinstance(line, Mapping):
        return line
    assert dataclasses.is_dataclass(line)
    return {field.name: getattr(line, field.name) for field in dataclasses.fields(line)}


def _is_numeric(cell: str, value: object) -> bool:
    is_figure = isinstance(value, int | float)
    return not cell or is_figure or cell == ABSENT or cell.lstrip("+−")[:1].isdigit()
