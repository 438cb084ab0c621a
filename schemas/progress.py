"""Progress of a stage, and events for notifications."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from schemas.text import Strict

EventKind = Literal[
    "gate_waiting", "gate_not_met", "not_finite", "out_of_memory", "stalled", "crashed", "done"
]


class Event(Strict):
    """One event of a specialist, sent as JSON with these fields."""

    event: EventKind
    text: str
    """One sentence with the hint. Chat services show a field of this name."""
    workspace: str
    specialist: str
    branch: str | None = None
    phase: str | None = None
    run: str | None = None
    """Run directory, relative to the workspace."""
    when: str
    """UTC time in ISO 8601."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Progress of one item of a stage: `done` of `total` units. `total` is None if unknown."""

    stage: str
    item: str
    done: int
    total: int | None
    unit: str
    note: str = ""
    after: float = 0.0
    """Seconds of work that is known to follow the last unit."""


ProgressCallback = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Ignore progress."""


def ignore_message(_: str) -> None:
    """Ignore a message."""
