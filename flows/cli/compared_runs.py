"""The runs that `curriculum compare` holds against each other, as they are read."""

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
    """Runs that are held against each other: those named, or those of one phase."""

    phase: str
    """Empty where runs were named, whatever their phases."""
    runs: tuple[ComparedRun, ...]


def groups(home: Path, what: Sequence[str]) -> list[ComparedRuns]:
    """The runs that are named as one group; where a specialist is named, a group a phase."""
    found = [runs_by_phase(home, each) for each in what]
    if all(len(each) == 1 for each in found):
        return [
            ComparedRuns(phase="", runs=tuple(side for each in found for side in each.values()))
        ]
    phases = dict.fromkeys(phase for each in found for phase in each)
    return [
        ComparedRuns(phase=phase, runs=tuple(each[phase] for each in found if phase in each))
        for phase in phases
    ]


def runs_by_phase(home: Path, what: str) -> dict[str, ComparedRun]:
    """Read the run that is meant, by phase; of a specialist's name each of its phases, in their order.

    Raises:
        JobError: for what is no run.
        StoreError: for a specialist of several branches.
    """
    store = store_of(home, what)
    begun = attempts_in(store)
    whose = named(store.root, what, {each.ref for each in begun})
    if whose is None or whose.phase is not None:
        run = run_of(store, what, name="a run")
        return {run.job.phase: _side(store, _title(what, run), run)}
    mine = [each for each in begun if each.ref == whose.ref]
    mine.sort(key=RunHistory.read(store).position)
    phases = dict.fromkeys(each.job.phase for each in mine)
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
    """Return the name as it was given, or of a path the first digits of its key."""
    return run.job.run_key[:KEY_DIGITS] if Path(what).exists() else what
