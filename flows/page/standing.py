"""How a phase stands when the report is written."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from curriculum.diets.resolve import ResolvedPhase, missing
from curriculum.store import Artefact
from curriculum.train.directory import HEARTBEAT, JOB, REPORT, STATE, is_alive, this_process
from flows.course import Course
from flows.gates import verdict
from schemas.errors import JobError
from schemas.job import Heartbeat, Report, RunState
from schemas.manifest import MANIFEST_NAME

State = Literal[
    "done",
    "stale",
    "waits",
    "holds",
    "running",
    "interrupted",
    "failed",
    "next",
    "later",
    "missing",
]
SIGN_OF_LIFE_S = 600.0
"""How old the heartbeat of a run on another machine may be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How a phase stands, why, and how far an open run of it is."""

    state: State
    why: str = ""
    heartbeat: Heartbeat | None = None


def standing(plan: Course, phase: ResolvedPhase, *, before: Standing | None) -> Standing:
    """How a phase stands; `before` is how the one before it does, None for the first."""
    if reasons := missing(phase):
        return Standing(state="missing", why=f"{reasons[0].value}; {reasons[0].cause}")
    if (open_run := _open_run(plan, phase)) is not None:
        return open_run
    run = plan.current("runs", phase)
    if run is None:
        ready = before is None or before.state == "done"
        return Standing(state="next" if ready else "later")
    if why := _stale(plan, phase, run, before):
        return Standing(state="stale", why=why)
    return _behind_gate(plan, phase, run)


def _behind_gate(plan: Course, phase: ResolvedPhase, run: Artefact) -> Standing:
    try:
        gate = verdict(plan, phase.name, run)
    except JobError as failed:
        return Standing(state="failed", why=str(failed.value))
    match gate.kind:
        case "open":
            return Standing(state="done")
        case "cancelled":
            return Standing(state="interrupted", why=gate.why)
        case kind:
            return Standing(state=kind, why=gate.why)


def _stale(plan: Course, phase: ResolvedPhase, run: Artefact, before: Standing | None) -> str:
    """What the current run was made from and is no more."""
    used = {record.name: record for record in run.manifest.inputs}
    mixture = plan.current("mixtures", phase)
    if mixture is not None and "plan" in used and used["plan"].key != mixture.key:
        return "trained on an earlier mixture"
    earlier = plan.before(phase)
    if not earlier or "previous" not in used:
        return ""
    last = plan.current("runs", earlier[-1])
    if last is not None and last.content != used["previous"].content:
        return f"goes on from an earlier run of {earlier[-1].name}"
    if before is not None and before.state == "stale":
        return f"{earlier[-1].name} is stale"
    return ""


def attempts(plan: Course, phase: ResolvedPhase) -> list[Path]:
    """The directories of all attempts at a phase, of whatever key, those that began first first."""
    branch = [f"branch={plan.diet.branch}"] if plan.diet.branch else []
    way = [f"specialist={plan.diet.specialist}", *branch, f"phase={phase.name}"]
    jobs = plan.store.root.joinpath("runs", *way).glob(f"*/attempt=*/{JOB}")
    return [file.parent for file in sorted(jobs, key=lambda file: file.stat().st_mtime_ns)]


def _open_run(plan: Course, phase: ResolvedPhase) -> Standing | None:
    """The attempt that began last, where it is open."""
    begun = attempts(plan, phase)
    if not begun or (begun[-1] / MANIFEST_NAME).is_file():
        return None
    folder, life = begun[-1], begun[-1] / HEARTBEAT
    told = Heartbeat.model_validate_json(life.read_text()) if life.is_file() else None
    owner = folder / STATE
    if owner.is_file():
        state = RunState.model_validate_json(owner.read_text())
        fresh = life.is_file() and time.time() - life.stat().st_mtime < SIGN_OF_LIFE_S
        if is_alive(state) or (fresh and not _is_here(state)):
            return Standing(state="running", why=f"on {state.host}", heartbeat=told)
    return _ended(folder, told)


def _is_here(state: RunState) -> bool:
    """Whether an owner is of this machine, so that its process can be looked at."""
    here = this_process()
    return (state.host, state.boot_id) == (here.host, here.boot_id)


def _ended(folder: Path, told: Heartbeat | None) -> Standing:
    report = report_in(folder)
    if report is not None and report.stopped == "failed":
        return Standing(state="failed", why=report.reason, heartbeat=told)
    why = "the same command goes on from its last checkpoint"
    return Standing(state="interrupted", why=why, heartbeat=told)


def report_in(folder: Path) -> Report | None:
    """What an attempt left, if it left something."""
    file = folder / REPORT
    return Report.model_validate_json(file.read_text()) if file.is_file() else None
