"""Closed gates, and approvals of runs that a diet does not let pass without one."""

from typing import Literal

from schemas.json_text import Sealed


class Approval(Sealed):
    """approvals/<run key12>-<attempt>.json: it holds for these weights, not for another attempt."""

    run_key: str
    attempt: int
    content: str
    """Of the run: what was looked at."""
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
    """Of the run: the gate is closed behind these weights."""
    specialist: str
    branch: str | None = None
    phase: str
    why: str
    cure: str
    """The command that helps."""
