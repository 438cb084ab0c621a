"""Runs that `curriculum compare` compares, with the data recorded about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from curriculum.inspection.comparison import ComparedRun
from curriculum.inspection.runs import mixture_of
from curriculum.pipeline.attempts import Attempt, RunHistory, SlotQueue, attempt_state, attempts_in
from curriculum.pipeline.references import named, run_of, store_of
from curriculum.store import Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import read_report
from flows.settings.contexts import resources
from schemas.specialist import format_reference


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedRuns:
    """Group of runs to compare with each other: the runs that the user named, or those of one phase."""

    phase: str
    """Phase of the runs; empty if the user named runs rather than specialists."""
    runs: tuple[ComparedRun, ...]


def groups(home: Path, what: Sequence[str]) -> list[ComparedRuns]:
    """Return the named runs as one group; if specialists are named, return one group per phase."""
    found = [runs_by_phase(home, name) for name in what]
    if all(len(by_phase) == 1 for by_phase in found):
        return [
            ComparedRuns(
                phase="", runs=tuple(side for by_phase in found for side in by_phase.values())
            )
        ]
    phases = dict.fromkeys(phase for by_phase in found for phase in by_phase)
    return [
        ComparedRuns(
            phase=phase, runs=tuple(by_phase[phase] for by_phase in found if phase in by_phase)
        )
        for phase in phases
    ]


def runs_by_phase(home: Path, what: str) -> dict[str, ComparedRun]:
    """Return the runs that a name refers to, by phase.

    The name of a run gives one phase with this run. The name of a specialist gives its phases in order.

    Raises:
        JobError: for a name that isn't a run.
        StoreError: for a specialist with several branches.
    """
    store = store_of(home, what)
    begun = attempts_in(store)
    whose = named(store.root, what, {attempt.ref for attempt in begun})
    if whose is None or whose.phase is not None:
        run = run_of(store, what, name="a run")
        return {run.job.phase: _side(store, _title(what, run), run)}
    mine = [attempt for attempt in begun if attempt.ref == whose.ref]
    mine.sort(key=RunHistory.read(store).position)
    phases = dict.fromkeys(attempt.job.phase for attempt in mine)
    runs = (run_of(store, format_reference(whose.ref, phase), name="a run") for phase in phases)
    return {run.job.phase: _side(store, what, run) for run in runs}


def _side(store: Store, title: str, run: Attempt) -> ComparedRun:
    closed, mixture = run.is_finished, mixture_of(store, run.job)
    slots = SlotQueue.read(resources().slots_of(store.root))
    return ComparedRun(
        title=title,
        path=run.path,
        job=run.job,
        report=read_report(run.path) if closed else None,
        progress=None if closed else attempt_state(store, run, slots),
        mixture=mixture,
        tools=store.load(run.path).manifest.tools if closed else {},
    )


def _title(what: str, run: Attempt) -> str:
    """Return the title of a run: the name that the user gave, or the first digits of its key for a path."""
    return run.job.run_key[:KEY_DIGITS] if Path(what).exists() else what
