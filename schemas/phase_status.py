"""Closed gates, approvals of runs, and the columns of current/status.parquet, a line a phase."""

from typing import Literal

import pyarrow as pa

from schemas.json_text import Sealed


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
        pa.field("phase", _TEXT, nullable=False),
        pa.field("state", _TEXT, nullable=False),
        pa.field("why", _TEXT, nullable=False),
        pa.field("key", _TEXT),
        pa.field("attempt", _NUMBER),
        pa.field("path", _TEXT),
    ]
)
"""key, attempt and path are those of the run that a state is about; null where there is none."""
