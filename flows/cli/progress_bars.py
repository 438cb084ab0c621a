"""Progress of stages in the terminal: bars, or plain lines if the output isn't a terminal."""

import contextlib
import datetime
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from curriculum.inspection.formats import duration
from flows.cli.console import ACCENT, MUTED, err
from schemas.progress import Progress, ProgressCallback
from schemas.visible import one_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

LINE_EVERY_S = 10.0
"""Seconds between the lines of a stage without a terminal."""
MAX_BARS = 12
BAR_WIDTH = 20
FRAME = 30
"""Number of columns that the spinner, the times and the gaps take in the line of a bar."""
TASKS = "tasks"
"""Unit of the progress of build stages, whose items share one line.

Of stages with another unit, such as training, each item has its own line.
"""


@contextlib.contextmanager
def watching() -> Iterator[ProgressCallback]:
    """Yield a callback that shows progress on stderr: as bars on a terminal, as plain lines otherwise."""
    if not err.is_terminal:
        yield _Lines().watch
        return
    from rich import (
        progress,
    )  # This import takes as long as the rest of a short command's terminal output.

    class Remaining(progress.TimeRemainingColumn):
        """Column with the remaining time; it includes the work that is known to follow the last step."""

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
    """Return the title of the line that shows `progress`, and the note at its end."""
    if progress.unit == TASKS:
        return progress.stage, " ".join(filter(None, (progress.item, progress.note)))
    return f"{progress.stage} {progress.item}".strip(), progress.note


class _Drawn:
    """Progress as bars, one per stage.

    A stage that starts again resets its bar. If there are too many bars, the oldest finished one is removed.
    """

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
        """Truncate a note to the width that the other columns leave."""
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
        if len(shown) >= MAX_BARS:
            oldest = next((task for task in shown if task.finished), shown[0])
            self.bars.update(oldest.id, visible=False)


class _Lines:
    """Progress as plain lines: one when a stage starts, waits or ends, and one at intervals in between."""

    def __init__(self) -> None:
        self.printed: dict[str, float] = {}
        self.clocks: dict[str, _Clock] = {}
        self.last: dict[str, Progress] = {}

    def watch(self, progress: Progress) -> None:
        title, note = _line_of(progress)
        ended = progress.total is not None and progress.done >= progress.total
        now, before = time.monotonic(), self.last.get(title)
        begins = before is None or progress.done < before.done
        if begins:
            self.clocks[title] = _Clock(now)
        times = self.clocks[title].times(progress, now)
        # Progress that is unchanged but has a new note is waiting for something.
        waits = before is not None and before.done == progress.done and before.note != progress.note
        self.last[title] = progress
        if begins:
            # For a single task the final line is enough, unless it is slow.
            self.printed[title] = now
            begins = progress.unit != TASKS or progress.total != 1
        if begins or ended or waits or now - self.printed[title] >= LINE_EVERY_S:
            self.printed[title] = now
            of = f"/{progress.total:,}" if progress.total is not None else ""
            words = (f"{title}: {progress.done:,}{of} {progress.unit}", times, note)
            line = one_line("  ".join(filter(None, words)))
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - a terminal's width must not cut it


class _Clock:
    """Clock of a stage from its start to its end.

    >>> from dataclasses import replace
    >>> clock, at = _Clock(0.0), Progress(stage="train", item="", done=0, total=9, unit="steps")
    >>> [clock.times(replace(at, done=done), now) for done, now in ((0, 0), (1, 16), (3, 20), (9, 32))]
    ['', '16 s', '20 s, about 12 s left', '32 s']
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self.first: tuple[int, float] | None = None
        """Number of items and time when items were first reported as finished.

        The time before counts as startup, not as work on items.
        """

    def times(self, progress: Progress, now: float) -> str:
        """Return the elapsed and the estimated remaining time in words; empty until an item is finished."""
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
