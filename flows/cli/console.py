"""Console output: progress, tables, numbers."""

import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.highlighter import JSONHighlighter
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bars,
)
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from curriculum.inspection.formats import Line
from dashboards.palette import DOCUMENT_COLOURS
from schemas.progress import Progress, ProgressCallback
from schemas.visible import in_json, one_line, visible

ACCENT = "cyan"
MUTED = "bright_black"
LINE_EVERY_S = 10.0
"""Seconds between the lines of a stage where there is no terminal."""
MOST_BARS = 12

WIDTH = 160
"""Columns where there is no terminal that has some."""


class _Shown(Console):
    """A console that sends no control character but its own; text is escaped wherever it is drawn.

    Paths and names hold brackets and colons, which are no markup.
    """

    def __init__(self, *, width: int | None = None, stderr: bool = False) -> None:
        super().__init__(width=width, stderr=stderr, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Draw something; a part of it is drawn by the same method, before its width is adjusted."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


out = _Shown(width=None if sys.stdout.isatty() else WIDTH)
err = _Shown(stderr=True)


def print_json(value: object) -> None:
    """Print a value as JSON, with colours on a terminal; hidden characters are escaped as JSON has it."""
    text = in_json(json.dumps(value, ensure_ascii=False, indent=1))
    out.print(JSONHighlighter()(text) if out.is_terminal else Text(text), soft_wrap=True)


def print_line(line: str) -> None:
    """Print a line, however long."""
    out.print(Text(one_line(line)), soft_wrap=True)


def warn(line: str) -> None:
    """A line that a person should not miss, on stderr."""
    err.print(Text(line, "yellow"), soft_wrap=True)


def colour(index: int) -> str:
    """The colour of a row's index-th document; neighbours differ."""
    return DOCUMENT_COLOURS[index % len(DOCUMENT_COLOURS)]


IDENTITIES = frozenset(("name", "specialist", "phase", "run", "stage", "key"))
"""Columns that stand whole on one line at every width: what they hold is copied into other commands."""
EXPLANATIONS = frozenset(("state", "why"))
"""Columns that are left out only after all others."""
LEAST_TEXT = 12
"""Characters of a column of text below which folding it is no use."""
LEAST_FLEXIBLE = 4
"""Characters of a column that takes a share of what the others leave; its words are cut."""
GAP = 2


class FittedTable(Table):
    """A table that leaves out columns where the width doesn't hold all of them, and names those below it."""

    def __init__(self, *, dropped_first: Sequence[str] = ()) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=MUTED)
        self.dropped_first = dropped_first

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw what fits, then the names of what doesn't."""
        dropped = self._dropped(console, options)
        if not dropped:
            yield from super().__rich_console__(console, options)
            return
        kept = FittedTable()
        for index, column in enumerate(each for each in self.columns if each not in dropped):
            kept.columns.append(replace(column, _index=index, _cells=column._cells))
        kept.rows = self.rows
        yield from Table.__rich_console__(kept, console, options)
        names = ", ".join(str(each.header) for each in dropped)
        yield Text(f"not shown at {options.max_width} columns: {names}", MUTED)

    def _dropped(self, console: Console, options: ConsoleOptions) -> list[Column]:
        widths = [_least_width(console, options, each) for each in self.columns]
        surplus = sum(widths) + GAP * (len(widths) - 1) - options.max_width
        dropped = []
        for column, width in sorted(
            zip(self.columns, widths, strict=True), key=lambda each: self._priority(each[0])
        ):
            if surplus <= 0 or column.header in IDENTITIES:
                break
            surplus -= width + GAP
            dropped.append(column)
        return sorted(dropped, key=self.columns.index)

    def _priority(self, column: Column) -> tuple[int, int]:
        """Order of leaving out: as the caller says, then from the right, explanations last of all."""
        name = str(column.header)
        if name in self.dropped_first:
            return 0, self.dropped_first.index(name)
        group = 3 if name in IDENTITIES else 2 if name in EXPLANATIONS else 1
        return group, -self.columns.index(column)


def _least_width(console: Console, options: ConsoleOptions, column: Column) -> int:
    """Characters that a column needs at least: all of a number or a name, and some of a text."""
    if column.flexible:
        return LEAST_FLEXIBLE
    cells = (Measurement.get(console, options, each) for each in column.cells)
    most = max((each.maximum for each in cells), default=0)
    whole = column.no_wrap or column.justify == "right"
    return max(len(str(column.header)), most if whole else min(most, LEAST_TEXT))


def plain_table(*names: str, dropped_first: Sequence[str] = ()) -> Table:
    """A table without lines, as calm as text; numbers go right by `justify` of the caller."""
    table = FittedTable(dropped_first=dropped_first)
    for name in names:
        table.add_column(one_line(name), overflow="fold", no_wrap=name in IDENTITIES)
    return table


def table(lines: Iterable[Line], *, dropped_first: Sequence[str] = ()) -> Table:
    """Lines as a table; numbers and what looks like one go right."""
    lines = list(lines)
    names = list(lines[0]) if lines else []
    drawn = plain_table(*names, dropped_first=dropped_first)
    for column, name in zip(drawn.columns, names, strict=True):
        filled = [line[name] for line in lines if line[name] != ""]
        column.justify = "right" if all(map(_numeric, filled)) else "left"
    for line in lines:
        first, *rest = (
            f"{value:,}" if isinstance(value, int) else one_line(value) for value in line.values()
        )
        # As text: a path may look like markup.
        drawn.add_row(Text(first, "bold"), *map(Text, rest))
    return drawn


def _numeric(value: str | int) -> bool:
    return isinstance(value, int) or value.lstrip("+−")[:1].isdigit()


@contextlib.contextmanager
def watching() -> Iterator[ProgressCallback]:
    """A watch that draws bars on a terminal and writes plain lines elsewhere, to stderr both."""
    if not err.is_terminal:
        yield _Lines().watch
        return
    with Bars(
        SpinnerColumn(style=ACCENT),
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(bar_width=32, complete_style=ACCENT),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        TextColumn("{task.fields[note]}", style=MUTED, markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
    ) as bars:
        yield _Drawn(bars).watch


class _Drawn:
    """A bar a stage and item; the oldest finished ones make room."""

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.tasks: dict[tuple[str, str], TaskID] = {}

    def watch(self, progress: Progress) -> None:
        name = progress.stage, progress.item
        if name not in self.tasks:
            self._make_room()
            title = f"{progress.stage} {progress.item}".strip()
            self.tasks[name] = self.bars.add_task(title, total=progress.total, unit="", note="")
        self.bars.update(
            self.tasks[name],
            completed=progress.done,
            total=progress.total,
            unit=progress.unit,
            note=progress.note,
        )

    def _make_room(self) -> None:
        shown = [task for task in self.bars.tasks if task.visible]
        if len(shown) >= MOST_BARS:
            oldest = next((task for task in shown if task.finished), shown[0])
            self.bars.update(oldest.id, visible=False)


class _Lines:
    """A line when something begins, waits, ends, and every so many seconds between."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], float] = {}
        self.still: dict[tuple[str, str], Progress] = {}

    def watch(self, progress: Progress) -> None:
        name = progress.stage, progress.item
        ended = progress.total is not None and progress.done >= progress.total
        now, before = time.monotonic(), self.still.get(name)
        # What doesn't move and has something else to say waits for something.
        waits = before is not None and before.done == progress.done and before.note != progress.note
        self.still[name] = progress
        if ended or waits or now - self.told.get(name, float("-inf")) >= LINE_EVERY_S:
            self.told[name] = now
            of = f"/{progress.total:,}" if progress.total is not None else ""
            note = f"  {progress.note}" if progress.note else ""
            title = f"{progress.stage} {progress.item}".strip()
            line = f"{title}: {progress.done:,}{of} {progress.unit}{note}"
            print(one_line(line), file=sys.stderr, flush=True)  # noqa: T201 - a terminal's width must not cut it
