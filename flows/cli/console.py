"""Console output: progress, tables, numbers."""

import contextlib
import datetime
import json
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.highlighter import JSONHighlighter
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from curriculum.inspection.formats import Line, duration, first_names
from dashboards.palette import DOCUMENT_COLOURS
from schemas.progress import Progress, ProgressCallback
from schemas.visible import in_json, one_line, shortened, visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

ACCENT = "cyan"
MUTED = "bright_black"
GOOD, BAD = "green", "bold red"
LINE_EVERY_S = 10.0
"""Seconds between the lines of a stage where there is no terminal."""
MOST_BARS = 12
BAR_WIDTH = 20
FRAME = 30
"""Columns of a bar's line for its spinner, its times and the gaps between."""
TASKS = "tasks"
"""Unit of a build's stages: their items share one line; a training or an index has its own."""

WIDTH = 160
"""Columns where there is no terminal that has some."""


class _Shown(Console):
    """A console that sends no control character but its own; text is escaped wherever it is drawn.

    Paths and names hold brackets and colons, which are no markup.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)

    @property
    def size(self) -> ConsoleDimensions:
        """The terminal's size; WIDTH columns where there is no terminal."""
        found = super().size
        return found if self.is_terminal else ConsoleDimensions(WIDTH, found.height)

    @size.setter
    def size(self, given: tuple[int, int]) -> None:
        self._width, self._height = given

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Draw something; a part of it is drawn by the same method, before its width is adjusted."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


out = _Shown()
err = _Shown(stderr=True)


def print_json(value: object) -> None:
    """Print a value as JSON, with colours on a terminal; hidden characters are escaped as JSON has it."""
    text = in_json(json.dumps(value, ensure_ascii=False, indent=1))
    out.print(JSONHighlighter()(text) if out.is_terminal else Text(text), soft_wrap=True)


def print_line(line: str) -> None:
    """Print a line, however long."""
    out.print(Text(one_line(line)), soft_wrap=True)


def warn(line: str) -> None:
    """A line that a person should not miss, on stderr, of at most MAX_SHOWN characters."""
    err.print(Text(shortened(line), "yellow"), soft_wrap=True)


def colour(index: int) -> str:
    """The colour of a row's index-th document; neighbours differ."""
    return DOCUMENT_COLOURS[index % len(DOCUMENT_COLOURS)]


IDENTITIES = frozenset(
    ("name", "specialist", "phase", "run", "stage", "key", "row", "document", "commit", "pack_id")
)
"""Columns that stand whole on one line at every width: what they hold is copied into other commands."""
DETAILS = frozenset(("state", "why", "file", "path", "study"))
"""Columns that stand in a line below their row where the width doesn't hold them, and are never left out."""
LEAST_TEXT, LEAST_DETAIL = 12, 32
"""Characters of a column of text below which folding it is no use."""
LONGEST_WORD = 60
"""Characters of a word, such as a path, that is broken only in a column of its own."""
LEAST_FLEXIBLE = 4
"""Characters of a column that takes a share of what the others leave; its words are cut."""
GAP = 2
MAX_NAMED_COLUMNS = 12
"""Columns that a note names as not shown."""


class FittedTable(Table):
    """A table that leaves out columns where the width doesn't hold all of them, and names those below it.

    Details stand in a line below their row then.
    """

    def __init__(
        self, *, dropped_first: Sequence[str] = (), details: Collection[str] = DETAILS
    ) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=MUTED)
        self.dropped_first = dropped_first
        self.details = details

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw what fits, with details below each row, then the names of what doesn't."""
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

    def _part(self, columns: Sequence[Column], rows: Sequence[int], *, head: bool) -> Table:
        """Some rows of some columns, as a plain table."""
        part = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=MUTED)
        part.show_header, part.expand = head, self.expand
        for index, column in enumerate(columns):
            cells = [column._cells[row] for row in rows]
            part.columns.append(replace(column, _index=index, _cells=cells))
        part.rows = [self.rows[row] for row in rows]
        return part

    def _removed(self, console: Console, options: ConsoleOptions) -> list[Column]:
        """The columns that the width doesn't hold; never the first."""
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
        """Order of removal: long details, then others (the caller's first), short details, names."""
        name, place = str(column.header), self.columns.index(column)
        if name in self.details:
            is_long = _natural_width(console, console.options, column) > LEAST_DETAIL
            return (0 if is_long else 3), -place
        if name in self.dropped_first:
            return 1, self.dropped_first.index(name)
        return (4 if name in IDENTITIES else 2), -place


def _detail(columns: Sequence[Column], row: int) -> str:
    """The cells of a row in one line; names and states with the names of their columns."""
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
    """Columns as wide as they need to be; those that need more than is left share it."""
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
    """Characters that a column takes where nothing is folded."""
    cells = (Measurement.get(console, options.update(width=1 << 16), cell) for cell in column.cells)
    most = max((cell.maximum for cell in cells), default=0)
    return max(len(str(column.header)), most)


def _least_width(console: Console, options: ConsoleOptions, column: Column) -> int:
    """Characters that a column needs at least: all of a number or a name, and the words of a text."""
    if column.flexible:
        return LEAST_FLEXIBLE
    most = _natural_width(console, options, column)
    if column.no_wrap or column.justify == "right":
        return most
    cells = (Measurement.get(console, options.update(width=1 << 16), cell) for cell in column.cells)
    word = min(max((cell.minimum for cell in cells), default=0), LONGEST_WORD)
    least = LEAST_DETAIL if str(column.header) in DETAILS else LEAST_TEXT
    return max(len(str(column.header)), min(most, max(least, word)))


def plain_table(
    *names: str, dropped_first: Sequence[str] = (), details: Collection[str] = DETAILS
) -> Table:
    """A table without lines, as calm as text; numbers go right by `justify` of the caller."""
    table = FittedTable(dropped_first=dropped_first, details=details)
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
        is_text = name in IDENTITIES | DETAILS or not all(map(_numeric, filled))
        column.justify = "left" if is_text else "right"
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
    from rich import progress  # It takes as long as all else of a short command's terminal.

    class Remaining(progress.TimeRemainingColumn):
        """Remaining time, with what is known to follow the last step."""

        def render(self, task: progress.Task) -> Text:
            left = task.time_remaining
            if task.finished or left is None:
                return super().render(task)
            whole = datetime.timedelta(seconds=round(left + task.fields["after"]))
            return Text(str(whole), "progress.remaining")

    with progress.Progress(
        progress.SpinnerColumn(style=ACCENT),
        progress.TextColumn("{task.description}", style="bold", markup=False),
        progress.BarColumn(bar_width=BAR_WIDTH, complete_style=ACCENT),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[unit]}", markup=False),
        progress.TimeElapsedColumn(),
        Remaining(),
        progress.TextColumn("{task.fields[note]}", style=MUTED, markup=False),
        console=err,
    ) as bars:
        yield _Drawn(bars).watch


def _line_of(progress: Progress) -> tuple[str, str]:
    """The title of the line that a stage has, and its note: what of the stage has been done last."""
    if progress.unit == TASKS:
        return progress.stage, " ".join(filter(None, (progress.item, progress.note)))
    return f"{progress.stage} {progress.item}".strip(), progress.note


class _Drawn:
    """A bar a stage, which begins again where the stage does; the oldest finished ones make room."""

    def __init__(self, bars: "Bars") -> None:
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}

    def watch(self, progress: Progress) -> None:
        title, note = _line_of(progress)
        if title not in self.tasks:
            self._make_room()
            self.tasks[title] = self.bars.add_task(
                title, total=progress.total, unit="", note="", after=0.0
            )
        task = self.bars.tasks[self.bars.task_ids.index(self.tasks[title])]
        if progress.done < task.completed:
            self.bars.reset(task.id, total=progress.total)
        self.bars.update(
            task.id,
            completed=progress.done,
            total=progress.total,
            unit=progress.unit,
            note=self._cut(note),
            after=progress.after,
        )

    def _cut(self, note: str) -> str:
        """Cut a note to what the other columns leave of a line."""
        drawn = (
            len(task.description)
            + len(f"{task.completed:.0f}/{task.total}")
            + len(task.fields["unit"])
            for task in self.bars.tasks
        )
        left = self.bars.console.width - BAR_WIDTH - FRAME - max(drawn)
        return note if len(note) <= left else note[: max(0, left - 1)] + "…" * (left > 0)

    def _make_room(self) -> None:
        shown = [task for task in self.bars.tasks if task.visible]
        if len(shown) >= MOST_BARS:
            oldest = next((task for task in shown if task.finished), shown[0])
            self.bars.update(oldest.id, visible=False)


class _Lines:
    """A line when a stage begins, waits, ends, and every so many seconds between."""

    def __init__(self) -> None:
        self.told: dict[str, float] = {}
        self.clocks: dict[str, _Clock] = {}
        self.still: dict[str, Progress] = {}

    def watch(self, progress: Progress) -> None:
        title, note = _line_of(progress)
        ended = progress.total is not None and progress.done >= progress.total
        now, before = time.monotonic(), self.still.get(title)
        begins = before is None or progress.done < before.done
        if begins:
            self.clocks[title] = _Clock(now)
        times = self.clocks[title].times(progress, now)
        # What doesn't move and has something else to say waits for something.
        waits = before is not None and before.done == progress.done and before.note != progress.note
        self.still[title] = progress
        if begins:
            # The end of a single task says enough, unless it is slow.
            self.told[title] = now
            begins = progress.unit != TASKS or progress.total != 1
        if begins or ended or waits or now - self.told[title] >= LINE_EVERY_S:
            self.told[title] = now
            of = f"/{progress.total:,}" if progress.total is not None else ""
            words = (f"{title}: {progress.done:,}{of} {progress.unit}", times, note)
            line = one_line("  ".join(filter(None, words)))
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - a terminal's width must not cut it


class _Clock:
    """Elapsed and remaining time of one round of a stage.

    >>> clock, at = _Clock(0.0), Progress(stage="train", item="", done=0, total=9, unit="steps")
    >>> [clock.times(replace(at, done=done), now) for done, now in ((0, 0), (1, 16), (3, 20), (9, 32))]
    ['', '16 s', '20 s, about 12 s left', '32 s']
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self.first: tuple[int, float] | None = None
        """Items that were done at the first report of any, and the time: what came before is starting up."""

    def times(self, progress: Progress, now: float) -> str:
        """Elapsed and remaining time; empty until an item is done."""
        if not progress.done:
            return ""
        elapsed = duration(now - self.began)
        if self.first is None:
            self.first = progress.done, now
        first, since = self.first
        is_over = progress.total is None or progress.done >= progress.total
        if is_over or progress.done <= first:
            return elapsed
        assert progress.total is not None
        left = (now - since) * (progress.total - progress.done) / (progress.done - first)
        return f"{elapsed}, about {duration(left + progress.after)} left"
