"""State of unfinished attempts, shared by commands, pages and SQL."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from curriculum.store import inside
from curriculum.store.owners import is_owner_alive, launch_lock, launcher_record, train_lock
from schemas.job import Heartbeat, Job, Report, RunState, Stopped, TokenCounts
from schemas.manifest import MANIFEST_NAME
from schemas.run_folders import STEP, numbered

State = Literal["running", "waiting", "failed", "interrupted"]
CONTINUES = "the same command continues from there"
_STATE, _HEARTBEAT, _REPORT = "state.json", "heartbeat.json", "report.json"


class _Saved(BaseModel):
    """The fields that are read from the state in a checkpoint."""

    step: int
    tokens: TokenCounts


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptState:
    """State of an unfinished attempt, with reason and progress."""

    state: State
    why: str = ""
    """Reason for the state. Empty for a running attempt, which its heartbeat describes."""
    stopped: Stopped | None = None
    """Outcome of the last process that trained it, if this process left a report."""
    owner: RunState | None = None
    """The process that trains it or trained it last."""
    beat: Heartbeat | None = None
    """Last heartbeat; None before the first step, and after the process ended normally."""
    steps: int | None = None
    """Number of finished steps: that of the heartbeat, otherwise that of the newest checkpoint."""
    valid_tokens: int | None = None
    """Number of valid tokens in these steps."""


def state_of_attempt(root: Path, run: Path, job: Job) -> AttemptState:
    """Return the state of an unfinished attempt, except whether it waits for a slot.

    Args:
        root: The workspace.
        run: The attempt's directory.
        job: The job in that directory.
    """
    beat = inside.read(Heartbeat, run / _HEARTBEAT)
    owner = inside.read(RunState, run / _STATE)
    lock = train_lock(root, job.run_key, job.attempt)
    if owner is None:
        owner = inside.read(RunState, launcher_record(root, job.run_key))
        lock = launch_lock(root, job.run_key)
    step, saved_tokens = _saved(run)
    found = AttemptState(
        state="running",
        owner=owner,
        beat=beat,
        steps=beat.step if beat else step,
        valid_tokens=beat.valid_tokens if beat else saved_tokens,
    )
    if owner is not None and is_owner_alive(lock, owner, beat.at if beat else ""):
        return found
    report = inside.read(Report, run / _REPORT)
    stopped = report.stopped if report else None
    if report is not None and stopped == "failed":
        return replace(found, state="failed", why=report.reason, stopped=stopped)
    how = "cancelled" if stopped == "cancelled" else "stopped"
    where = f"at step {step:,} of {job.steps:,}" if step else "before a checkpoint"
    why = f"{how} {where}; {CONTINUES if step else 'it starts again'}"
    return replace(found, state="interrupted", why=why, stopped=stopped)


def _saved(run: Path) -> tuple[int | None, int | None]:
    """Return the step of the newest checkpoint of an attempt and its valid tokens; None if unknown."""
    folders = numbered(run / "checkpoints", STEP)
    whole = [(step, path) for step, path in folders if (path / MANIFEST_NAME).is_file()]
    if not whole:
        return None, None
    newest, path = whole[-1]
    saved = inside.read(_Saved, path / _STATE)
    return newest, saved.tokens.valid if saved else None
