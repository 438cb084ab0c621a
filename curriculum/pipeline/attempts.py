"""State of an attempt that isn't finished: running, waiting, failed or interrupted."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from curriculum.inspection.formats import count
from curriculum.pipeline.context import Resources
from curriculum.pipeline.references import Begun, checkpoints
from curriculum.store import Store, inside
from curriculum.store.owner import is_alive, this_process
from curriculum.train.launch.gpu_slots import Slots
from curriculum.train.run_directory import HEARTBEAT, REPORT, STATE
from schemas.job import Heartbeat, Report, RunState, SlotState
from schemas.moment import seconds_from

State = Literal["running", "waiting", "failed", "interrupted"]
SILENT_SECONDS = 600
"""After which the state of another machine's run isn't believed any more."""
GO_ON = "the same command goes on from there"


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """State of an open attempt, and the reason."""

    state: State
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotQueue:
    """Holders of this machine's slots, and jobs that wait for one, the first first."""

    holders: tuple[SlotState, ...]
    waiting: tuple[SlotState, ...]

    @staticmethod
    def of(store: Store, resources: Resources) -> "SlotQueue":
        """Read the queue of the slots that a workspace uses."""
        slots = Slots(resources.slots_of(store.root), resources.gpu_slots)
        if not slots.folder.is_dir():
            return SlotQueue(holders=(), waiting=())
        holders = tuple(each for each in slots.holders() if each is not None)
        return SlotQueue(holders=holders, waiting=tuple(slots.line()))

    def words(self, run: Path) -> str | None:
        """For whom a run waits; None if it doesn't."""
        runs = [Path(each.run) for each in self.waiting]
        if run not in runs:
            return None
        ahead = runs.index(run)
        held = ", ".join(f"process {each.pid} with {_short(each.run)}" for each in self.holders)
        behind = f", behind {ahead}" if ahead else ""
        return f"for a GPU slot{behind}; held by {held or 'another process'}"


def attempt(store: Store, begun: Begun, line: SlotQueue) -> Attempt:
    """Determine the state of an open attempt."""
    run = begun.path
    if waits := line.words(run):
        return Attempt(state="waiting", why=waits)
    owner = _owner(store, begun)
    if owner is not None and _lives(owner, run):
        return Attempt(state="running", why=_progress(begun, owner))
    report = inside.read(Report, run / REPORT)
    if report is not None and report.stopped == "failed":
        return Attempt(state="failed", why=report.reason)
    step = max((number for number, _ in checkpoints(run)), default=0)
    how = "cancelled" if report is not None and report.stopped == "cancelled" else "stopped"
    where = (
        f"{how} at step {step:,} of {begun.job.steps:,}" if step else f"{how} before a checkpoint"
    )
    return Attempt(state="interrupted", why=f"{where}; {GO_ON if step else 'it begins anew'}")


def _owner(store: Store, begun: Begun) -> RunState | None:
    """Return the process that trains a run, or that launches it."""
    launcher = store.root / ".locks" / f"{begun.job.run_key}.launch.json"
    return inside.read(RunState, begun.path / STATE) or inside.read(RunState, launcher)


def _lives(owner: RunState, run: Path) -> bool:
    """Return True for a process that is alive; one of another machine is while its heartbeat is fresh."""
    if owner.host == this_process().host:
        return is_alive(owner)
    beat = inside.read(Heartbeat, run / HEARTBEAT)
    return seconds_from(max(owner.at, beat.at if beat else "")) < SILENT_SECONDS


def _progress(begun: Begun, owner: RunState) -> str:
    who = f"process {owner.pid} on {owner.host}"
    beat = inside.read(Heartbeat, begun.path / HEARTBEAT)
    if beat is None:
        return f"begins; {who}"
    bits = "" if beat.val_bpb is None else f", val_bpb {beat.val_bpb:.3f}"
    speed = f"{count(beat.tokens_per_second)} tokens/s"
    return f"step {beat.step:,} of {beat.steps:,}, {speed}{bits}; {who}"


def _short(run: str) -> str:
    """A run's directory as its specialist and phase.

    >>> _short("/w/runs/specialist=fmt/branch=demo/phase=syntax/0a1b/attempt=1")
    'fmt/demo/syntax'
    """
    labels = (part.partition("=") for part in Path(run).parts)
    return "/".join(value for name, _, value in labels if name in ("specialist", "branch", "phase"))
