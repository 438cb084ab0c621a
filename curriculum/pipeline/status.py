"""Status of each phase of a specialist, compared with its current diet, corpus and gates.

The status is written to current/status.parquet for SQL and pages, with a digest of its inputs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar, cast

from curriculum.corpus.sources import Sources
from curriculum.inspection.formats import number
from curriculum.inspection.runs import marked, report_of
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline.attempts import (
    Attempt,
    SlotQueue,
    attempt_state,
    attempts_in,
    current_artefacts,
    current_runs,
    newest_unfinished,
    specialist_of,
)
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.execute import NOTHING_TO_DO, Scope, Step, execute, selected
from curriculum.pipeline.explanations import why
from curriculum.pipeline.gates import verdict
from curriculum.pipeline.phase_job import job_of
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.recorded_config import newest_plan
from curriculum.pipeline.run_config import command
from curriculum.pipeline.steps import build_phases
from curriculum.stages import Built
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.store.attempt_state import AttemptState
from curriculum.train.launch.gpu_slots import Machine
from curriculum.train.run_directory import finished, run_recipe
from schemas.errors import CorpusError, CurriculumError
from schemas.job import Report
from schemas.specialist import SpecialistRef
from schemas.study import Study

Result = TypeVar("Result")
State = Literal[
    "done", "running", "stale", "missing", "waiting", "failed", "interrupted", "holds", "earlier"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseStatus:
    """Status of a phase of a specialist, with the attempt that represents the phase, and the reason.

    The reason starts with the study, if there is one. If the current diet still leads to a finished run, this
    run represents its phase even if a newer attempt was started; the reason then also names that attempt.
    """

    ref: SpecialistRef
    phase: str
    state: State
    why: str
    run: Path | None = None
    key: str = ""
    attempt: int | None = None
    report: Report | None = None
    """Report of the run if it is finished."""
    progress: AttemptState | None = None
    """Progress of the attempt if it is unfinished."""
    study: Study | None = None
    """Study that the run belongs to."""
    unfinished: "PhaseStatus | None" = None
    """Status of a newer attempt that is unfinished, and so doesn't replace the run."""

    @property
    def steps(self) -> int | None:
        """Number of finished steps; None if there is no attempt."""
        if self.report is not None:
            return self.report.steps
        return self.progress.steps if self.progress else None

    @property
    def valid_tokens(self) -> int | None:
        """Number of valid tokens in these steps."""
        if self.report is not None:
            return self.report.tokens.valid
        return self.progress.valid_tokens if self.progress else None


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusInputs:
    """Everything that the status of a workspace depends on, except the history of repositories."""

    store: Store
    attempts: Sequence[Attempt]
    """Attempts in start order."""
    queue: SlotQueue
    plans: Mapping[SpecialistRef, RunPlan | CurriculumError]
    """Plan of each specialist for its current diet, or the error that prevents one."""

    @staticmethod
    def read(store: Store, resources: Resources) -> "StatusInputs":
        """Read the inputs of a workspace's status. Nothing is built, cloned or fetched.

        `store` must be dry.
        """
        assert store.dry
        attempts = attempts_in(store)
        refs = {attempt.ref for attempt in attempts}
        refs |= {specialist_of(artefact) for artefact in store.artefacts("mixtures")}
        plans: dict[SpecialistRef, RunPlan | CurriculumError] = {}
        for ref in sorted(refs, key=lambda ref: (ref.specialist, ref.branch or "")):
            try:
                plans[ref] = newest_plan(store, ref, attempts)
            except CurriculumError as wrong:
                plans[ref] = wrong
        return StatusInputs(
            store=store,
            attempts=attempts,
            queue=SlotQueue.read(resources.slots_of(store.root)),
            plans=plans,
        )

    def phase_statuses(self) -> Iterator[PhaseStatus]:
        """Yield the status of every phase of every specialist that has artefacts, in curriculum order."""
        sources = Sources.from_workspace(self.store.root, clones="none")
        for ref, plan in self.plans.items():
            runs = _SpecialistRuns.of(self.store, ref, self.attempts, self.queue)
            try:
                if isinstance(plan, CurriculumError):
                    raise plan
                planned = PlannedArtefacts.of(replace(plan, sources=sources))
            except CurriculumError as wrong:
                yield from runs.without_diet(wrong)
            else:
                yield from runs.phase_statuses(plan, planned)


def phase_statuses(plan: RunPlan, resources: Resources) -> tuple[PhaseStatus, ...]:
    """Return the status of every phase of a plan, compared with the plan's config, not its current diet.

    Raises:
        CurriculumError: if its corpus can't be read.
    """
    return planned_statuses(plan, resources)[1]


def trained_run(plan: RunPlan, phase: str, resources: Resources) -> Artefact | None:
    """Return the finished run of a phase if nothing of the phase is left to train, or None.

    Raises:
        CurriculumError: if its corpus can't be read.
    """
    found = next(
        phase_status
        for phase_status in phase_statuses(plan, resources)
        if phase_status.phase == phase
    )
    is_trained = found.report is not None and found.state != "stale"
    return plan.store.load(found.run) if found.run is not None and is_trained else None


def phases_left(plan: RunPlan, resources: Resources) -> tuple[str, ...]:
    """Return the names of the phases that a run of the plan would still train.

    If the corpus can't be read, all phases are returned, because none is known to be finished.
    """
    try:
        found = phase_statuses(plan, resources)
    except CorpusError:
        return tuple(phase.name for phase in plan.phases)
    return tuple(status.phase for status in found if status.state != "done")


def later_phases(plan: RunPlan, phase: str) -> list[str]:
    """Return the names of the phases after `phase`; empty if the plan doesn't list it."""
    names = [later_phase.name for later_phase in plan.phases]
    return names[names.index(phase) + 1 :] if phase in names else []


def outcome(
    plan: RunPlan,
    phase: str,
    runs: Sequence[Artefact],
    left: Collection[str],
    earlier: Collection[Path],
) -> str:
    """Return a one-line summary of the runs of a plan.

    `phase` is the phase that was trained alone, if any. `left` are the phases that the next run would train.
    `earlier` are the paths of runs that were current before the command; any other run is new, whether this
    process trained it or another one.
    """
    if all(run.path in earlier for run in runs):
        return NOTHING_TO_DO
    is_alone = phase in [plan_phase.name for plan_phase in plan.phases]
    later = later_phases(plan, report_of(runs[-1]).phase) if is_alone else []
    if stale := ", ".join(name for name in later if name in left):
        again = command("run", plan.config)
        return (
            f"{phase} was trained again. Later phases are outdated: {stale}. "
            f"`{again}` continues from here."
        )
    if later:
        return f"{phase} was trained again; later phases are up to date."
    return (
        f"{number(len(runs), 'phase')} trained: {', '.join(report_of(run).phase for run in runs)}."
    )


def planned_statuses(
    plan: RunPlan, resources: Resources
) -> tuple["PlannedArtefacts", tuple[PhaseStatus, ...]]:
    """Return the artefacts that a plan leads to now, and the status of each of its phases.

    Raises:
        CurriculumError: if its corpus can't be read.
    """
    store = Store(plan.store.root, dry=True)
    ref = SpecialistRef(plan.diet.specialist, plan.diet.branch)
    queue = SlotQueue.read(resources.slots_of(store.root))
    runs = _SpecialistRuns.of(store, ref, attempts_in(store), queue)
    sources = replace(plan.sources, clones="none")
    dry = replace(plan, store=store, planned={}, sources=sources)
    planned = PlannedArtefacts.of(dry)
    return planned, tuple(runs.phase_statuses(dry, planned))


def replaced_runs(store: Store) -> Iterator[PhaseStatus]:
    """Yield the finished runs that other runs have replaced, in start order."""
    current = {run.path for run in current_artefacts(store, "runs")}
    for attempt in attempts_in(store):
        if attempt.is_finished and attempt.path not in current:
            yield _finished(store.load(attempt.path), "earlier", "")


@dataclass(frozen=True, kw_only=True, slots=True)
class _SpecialistRuns:
    """Runs and open attempts of one specialist, to compare with its plan phase by phase."""

    store: Store
    ref: SpecialistRef
    current: Mapping[str, Artefact]
    """Finished runs by phase."""
    unfinished: Mapping[str, Attempt]
    """Newest attempt by phase, only if it is unfinished and newer than the finished run."""
    queue: SlotQueue

    @staticmethod
    def of(
        store: Store, ref: SpecialistRef, attempts: Sequence[Attempt], queue: SlotQueue
    ) -> "_SpecialistRuns":
        """Return the runs of one specialist among all attempts."""
        runs = current_runs(store, ref)
        by_phase: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            if attempt.ref == ref:
                by_phase.setdefault(attempt.job.phase, []).append(attempt)
        unfinished = {
            phase: newest
            for phase, begun in by_phase.items()
            if (newest := newest_unfinished(begun, runs.get(phase))) is not None
        }
        return _SpecialistRuns(
            store=store, ref=ref, current=runs, unfinished=unfinished, queue=queue
        )

    def phase_statuses(self, plan: RunPlan, planned: "PlannedArtefacts") -> Iterator[PhaseStatus]:
        """Yield the status of each phase of a plan."""
        before: list[PhaseStatus] = []
        for phase in plan.phases:
            status = self._phase(plan, phase, planned, before)
            before.append(status)
            yield status

    def without_diet(self, wrong: CurriculumError) -> Iterator[PhaseStatus]:
        """Yield what is known about a specialist whose diet or corpus can't be read."""
        unsure = f"can't be compared with its diet: {wrong}"
        for name, attempt in self.unfinished.items():
            if name not in self.current:
                yield self._open(attempt)
        for name, run in self.current.items():
            yield self._of_finished(name, run, "done", unsure)
        if not self.unfinished and not self.current:
            yield PhaseStatus(ref=self.ref, phase="", state="missing", why=unsure)

    def _phase(
        self,
        plan: RunPlan,
        phase: ResolvedPhase,
        planned: "PlannedArtefacts",
        before: Sequence[PhaseStatus],
    ) -> PhaseStatus:
        run, unfinished = self.current.get(phase.name), self.unfinished.get(phase.name)
        if run is None and unfinished is not None:
            return self._open(unfinished)
        if run is None:
            held = next((status for status in before if status.state != "done"), None)
            state: State = "missing" if held is None else "waiting"
            why = f"comes next: {command('run', plan.config)}"
            if held is not None:
                why = f"for {held.phase}, which {_verb(held.state)}"
            return PhaseStatus(ref=self.ref, phase=phase.name, state=state, why=why)
        stale = planned.why_stale(phase, run, before)
        if stale is not None:
            if unfinished is not None and unfinished.job.run_key == stale.key:
                return self._open(unfinished)
            return self._of_finished(phase.name, run, "stale", stale.why)
        gate = verdict(plan, phase.name, run)
        if gate.is_open:
            return self._of_finished(phase.name, run, "done", report_of(run).reason)
        state = "holds" if gate.kind == "holds" else "waiting"
        return self._of_finished(phase.name, run, state, gate.why)

    def _of_finished(self, phase: str, run: Artefact, state: State, why: str) -> PhaseStatus:
        """Return the status of a finished run; the reason also names a newer attempt."""
        status = replace(_finished(run, state, why), ref=self.ref)
        attempt = self.unfinished.get(phase)
        if attempt is None:
            return status
        begun = self._open(attempt)
        other = "" if begun.key == status.key else f" of {begun.key[:KEY_DIGITS]}"
        note = f"attempt {begun.attempt}{other} {_verb(begun.state)}: {begun.why}"
        why = "; ".join(filter(None, (status.why, note)))
        return replace(status, why=why, unfinished=begun)

    def _open(self, attempt: Attempt) -> PhaseStatus:
        found = attempt_state(self.store, attempt, self.queue)
        return PhaseStatus(
            ref=self.ref,
            phase=attempt.job.phase,
            state=found.state,
            why=marked(attempt.job.study, found.why),
            run=attempt.path,
            key=attempt.job.run_key,
            attempt=attempt.job.attempt,
            progress=found,
            study=attempt.job.study,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedArtefacts:
    """The artefacts that a plan leads to now. They are planned, not built."""

    plan: RunPlan
    built: Built
    mixtures: Mapping[str, Artefact]
    """Mixtures by phase."""

    @staticmethod
    def of(plan: RunPlan) -> "PlannedArtefacts":
        """Return the planned artefacts of all phases; one pass over the corpus plans their rows."""
        scope = Scope(until="mix", resume=False)
        built = build_phases(plan, selected(plan, scope), Context())

        def perform(step: Step[Result], /) -> Result:
            if step.verb == "build":
                return cast("Result", built)
            return step.run(Context())

        mixtures = {
            event.phase: event.mixture
            for event in execute(plan, perform, scope, Context())
            if event.mixture is not None
        }
        return PlannedArtefacts(plan=plan, built=built, mixtures=mixtures)

    def why_stale(
        self, phase: ResolvedPhase, run: Artefact, before: Sequence[PhaseStatus]
    ) -> "Staleness | None":
        """Return why the current run of a phase isn't the run that the plan leads to; None if it is."""
        plan = self.plan
        mixture = self.mixtures[phase.name]
        last = before[-1] if before and not plan.resume_point_of(phase) else None
        if last is not None and (last.report is None or last.state == "stale"):
            return Staleness(why=f"it starts from {last.phase}, which {_verb(last.state)}")
        if mixture.planned:
            recipes = (step.recipe for step in reversed(plan.store.steps))
            recipe = next(
                planned_recipe for planned_recipe in recipes if planned_recipe.key == mixture.key
            )
            return Staleness(why=why(plan.store, recipe))
        previous = None if last is None else plan.current("runs", plan.phase(last.phase))
        job = job_of(plan, phase, self.built, mixture, previous, _machine(run))
        found = finished(plan.store, job)
        if found is None:
            return Staleness(why=why(plan.store, run_recipe(job)), key=job.run_key)
        if found.path == run.path:
            return None
        name = found.path.parent.name
        return Staleness(why=f"its diet now leads to another finished run, {name}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Staleness:
    """Reason why a finished run isn't the run that a plan leads to now."""

    why: str
    key: str = ""
    """Key of the run that the plan leads to; empty if unknown, or if that run is finished."""


def _machine(run: Artefact) -> Machine:
    """Return the machine that trained a run. Another machine doesn't make a run stale."""
    job = Attempt.at(run.path).job
    return Machine(device=job.device, threads=job.threads)


def _finished(run: Artefact, state: State, why: str) -> PhaseStatus:
    report = report_of(run)
    return PhaseStatus(
        ref=specialist_of(run),
        phase=report.phase,
        state=state,
        why=marked(report.study, why),
        run=run.path,
        key=run.key,
        attempt=report.attempt,
        report=report,
        study=report.study,
    )


def _verb(state: State) -> str:
    """Return a verb phrase for a state.

    >>> _verb("running"), _verb("failed"), _verb("stale")
    ('is running', 'failed', 'is stale')
    """
    plain = {
        "failed": "failed",
        "holds": "holds",
        "waiting": "waits",
        "interrupted": "was interrupted",
    }
    return plain.get(state, f"is {state}")
