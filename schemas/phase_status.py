"""Closed gates, approvals of runs, and the columns of current/status.parquet."""

from typing import Literal

import pyarrow as pa

from schemas.json_text import Sealed


class Approval(Sealed):
    """approvals/<run key12>-<attempt>.json: approval of the weights of one attempt."""

    run_key: str
    attempt: int
    content: str
    """Content (digest) of the approved run."""
    specialist: str
    branch: str | None = None
    phase: str
    who: str
    when: str
    """UTC time in ISO 8601."""
    comment: str = ""


class ClosedGate(Sealed):
    """gates/<run key12>-<attempt>.json: a closed gate.

    The file is deleted once a command finds the gate open, or the run is approved.
    """

    kind: Literal["holds", "waits"]
    """holds: the budget ended before the gate opened; waits: the gate needs an approval."""
    run: str
    """Run directory, relative to the workspace."""
    content: str
    """Content (digest) of the run. The gate is closed only for these weights."""
    specialist: str
    branch: str | None = None
    phase: str
    why: str
    cure: str
    """Command that opens the gate."""


STATUS_NAME = "status.parquet"
"""File name in the folder `current`."""
DIGEST = b"computed_from"
"""Metadata key of the digest of everything that a status depends on."""
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
"""current/status.parquet: one row per phase. key, attempt and path belong to the run that the state
describes; they are null without a run.
"""
