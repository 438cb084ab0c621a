"""A gate that a walk through the phases found closed."""

from typing import Literal

from schemas.json_text import Sealed


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
