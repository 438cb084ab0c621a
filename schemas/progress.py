"""Progress of a stage, and events to notify a person of who is away from the screen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from schemas.json_text import Sealed
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


def is_url(target: str) -> bool:
    """Return True for a target that events are posted to; any other is a command."""
    return target.lower().startswith(("http://", "https://"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """One item of a stage, `done` of `total` units; `total` None where the end isn't known."""

    stage: str
    item: str
    done: int
    total: int | None
    unit: str
    note: str = ""


ProgressCallback = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Drop an item of progress."""


class Approval(Sealed):
    """approvals/<run key12>-<attempt>.json: it holds for these weights, not for another attempt."""

    run_key: str
    attempt: int
    content: str
    """Content of the run that was looked at."""
    specialist: str
    branch: str | None = None
    phase: str
    who: str
    when: str
    """ISO 8601, UTC."""
    comment: str = ""


class ClosedGate(Sealed):
    """gates/<run key12>-<attempt>.json: gone when a walk finds it open, or somebody approves."""

    kind: Literal["holds", "waits"]
    """holds: its budget ended before it opened; waits: for somebody's approval."""
    run: str
    """Its directory, relative to the workspace."""
    content: str
    """Content of the run: the gate is closed behind these weights."""
    specialist: str
    branch: str | None = None
    phase: str
    why: str
    cure: str
    """The command that helps."""


STATUS_NAME = "status.parquet"
"""The file's name in the folder current."""
DIGEST = b"computed_from"
"""The entry of the schema's metadata that holds the digest of what a status was computed from."""
_TEXT: pa.DataType = pa.string()
_NUMBER: pa.DataType = pa.int64()
STATUS_SCHEMA = pa.schema(
    [
        pa.field("specialist", _TEXT, nullable=False),
        pa.field("branch", _TEXT),
        pa.field("phase", _TEXT, nullable=False),
        pa.field("state", _TEXT, nullable=False),
        pa.field("why", _TEXT, nullable=False),
        pa.field("key", _TEXT),
        pa.field("attempt", _NUMBER),
        pa.field("path", _TEXT),
    ]
)
"""key, attempt and path are those of the run that a state is about; null where there is none."""
