"""Progress of a stage, and events to notify a person of who is away from the screen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from schemas.text import Strict

EventKind = Literal[
    "gate_waiting", "gate_not_met", "not_finite", "out_of_memory", "stalled", "crashed", "done"
]


class Event(Strict):
    """One thing that happened to a specialist, as it is sent: JSON with these fields."""

    event: EventKind
    text: str
    """Text in a sentence, with the cure; chats that take webhooks show a field of this name."""
    workspace: str
    specialist: str
    branch: str | None = None
    phase: str | None = None
    run: str | None = None
    """Its directory, relative to the workspace."""
    when: str
    """ISO 8601, UTC."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """One item of a stage, `done` of `total` units; `total` None where the end isn't known."""

    stage: str
    item: str
    done: int
    total: int | None
    unit: str
    note: str = ""
    after: float = 0.0
    """Seconds that are known to follow the last unit."""


ProgressCallback = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Drop an item of progress."""


def ignore_message(_: str) -> None:
    """Drop a message."""
