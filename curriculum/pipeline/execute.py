"""The loop over phases: build, mix and train each phase until a gate is closed.

The loop passes each step to the callable `perform`, which runs it and returns its result. `run_in_process`
runs the step in this process; Prefect wraps it in a task, or trains on another machine. Steps of a dry plan
only plan artefacts.
"""

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Literal, Protocol, TypeVar

from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline import notifications, phase_training, steps
from curriculum.pipeline.context import Context
from curriculum.pipeline.gates import Verdict, record_gate, verdict
from curriculum.pipeline.plan import RunPlan
from curriculum.stages import Built
from curriculum.store import Artefact
from schemas.errors import DietError
from schemas.specialist import SpecialistRef, format_reference

NOTHING_TO_DO = "Nothing to do: everything is up to date."


Verb = Literal["sample", "build", "mix", "train"]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Step(Generic[Result]):
    """One step of a phase, ready to run."""

    verb: Verb
    plan: RunPlan
    phase: str
    run: Callable[[Context], Result]
    """Function that runs the step and marks its artefact as current; with a dry plan, it only plans it."""
    retrain: bool = False
    """True to train again although a finished run exists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedStep:
    """A finished step, with the results of all steps of its phase so far."""

    verb: Verb
    phase: str
    documents: tuple[Artefact, ...] = ()
    """Some documents of each family, if only samples are made."""
    built: Built | None = None
    """Rows of the phase, with everything that they are made of."""
    mixture: Artefact | None = None
    run: Artefact | None = None
    gate: Verdict | None = None
    """State of the gate after the run; None for a planned run."""

    @property
    def step_artefacts(self) -> Sequence[Artefact]:
        """Artefacts of this step, without those of earlier steps."""
        if self.verb == "mix" or self.verb == "train":
            return self.phase_artefacts[-1:]
        return self.phase_artefacts

    @property
    def phase_artefacts(self) -> Sequence[Artefact]:
        """Artefacts of all steps of the phase so far, in step order."""
        built = self.built.artefacts() if self.built else ()
        return [*self.documents, *built, *filter(None, (self.mixture, self.run))]


class Perform(Protocol):
    """Callable that runs one step, here or elsewhere, and returns its result."""

    def __call__(self, step: Step[Result], /) -> Result:
        """Run a step, and return its result."""


def run_in_process(context: Context) -> Perform:
    """Return the Perform that runs each step in this process."""

    def perform(step: Step[Result], /) -> Result:
        return step.run(context)

    return perform


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """The part of a plan to run; by default the whole plan."""

    until: Verb = "train"
    """Last step to run in each phase."""
    phase: str | None = None
    """Only phase to run; by default every phase of the plan is run."""
    later_phases: bool = False
    """With `phase`, True to continue with later phases."""
    retrain: bool = False
    """With `phase`, True to train it again although a finished run exists."""
    resume: bool = True
    """Without `phase`, True to start with the phase of the run that the plan resumes."""
    gates: bool = True
    """True to stop at the first closed gate."""
    sample: int = 1
    """Number of documents per family, if only samples are made."""


def execute(
    plan: RunPlan, perform: Perform, scope: Scope, context: Context
) -> Iterator[FinishedStep]:
    """Run a plan phase by phase, and yield a FinishedStep after each step.

    Unless the plan is dry, the workspace is leased meanwhile. The caller may wait for an approval before it
    asks for the next step; a gate that needs this approval is then checked again.

    Raises:
        DietError: for a phase that the diet doesn't list, or a trainer command that isn't allowed.
        CurriculumError: from the steps.
    """
    is_dry = plan.store.dry
    last: FinishedStep | None = None
    if scope.until == "train" and not is_dry:
        context.permit(plan)
    with contextlib.nullcontext() if is_dry else plan.store.leased():
        for phase in _listed(plan, scope):
            last = yield from _phase(plan, phase.name, perform, scope, context)
            if scope.gates and not _has_passed(plan, last, context):
                return
    if last is not None and last.run is not None and not is_dry:
        notifications.at_end(plan, last.run, context)


def runs_of(events: Iterable[FinishedStep]) -> tuple[Artefact, ...]:
    """Return the runs of the training steps among `events`."""
    return tuple(event.run for event in events if event.run is not None)


def selected(plan: RunPlan, scope: Scope) -> tuple[str, ...]:
    """Return the names of the phases in a scope.

    Raises:
        DietError: for a phase that the diet doesn't list.
    """
    return tuple(phase.name for phase in _listed(plan, scope))


def _phase(
    plan: RunPlan, name: str, perform: Perform, scope: Scope, context: Context
) -> Generator[FinishedStep, None, FinishedStep]:
    """Run the steps of one phase, yield a FinishedStep after each, and return the last one."""
    if scope.until == "sample":
        sample = partial(steps.sample_phase, plan, name, scope.sample)
        documents = perform(Step(verb="sample", plan=plan, phase=name, run=sample))
        yield (last := FinishedStep(verb="sample", phase=name, documents=documents))
        return last
    build = partial(steps.build_phase, plan, name)
    built = perform(Step(verb="build", plan=plan, phase=name, run=build))
    yield (last := FinishedStep(verb="build", phase=name, built=built))
    if scope.until == "build":
        return last
    mix = partial(steps.mix_phase, plan, name, built)
    mixture = perform(Step(verb="mix", plan=plan, phase=name, run=mix))
    yield (last := replace(last, verb="mix", mixture=mixture))
    if scope.until == "mix":
        return last
    retrain = scope.retrain and name == scope.phase
    train = partial(phase_training.train_phase, plan, name, built, mixture, retrain=retrain)
    run = perform(Step(verb="train", plan=plan, phase=name, run=train, retrain=retrain))
    gate = None if run.planned else _gate(plan, name, run, context)
    yield (last := replace(last, verb="train", run=run, gate=gate))
    return last


def _gate(plan: RunPlan, name: str, run: Artefact, context: Context) -> Verdict:
    """Return the state of the gate after a run. Record a closed gate, and send its notification."""
    gate = verdict(plan, name, run)
    if not plan.store.dry:
        record_gate(plan, run, gate)
        notifications.at_gate(plan, run, gate, context)
    return gate


def _has_passed(plan: RunPlan, event: FinishedStep, context: Context) -> bool:
    """Return True if there is no gate, if it is open, or if it was approved in the meantime."""
    run, gate = event.run, event.gate
    if run is None or gate is None:
        return True
    if gate.kind == "waits" and not plan.store.dry:
        gate = _gate(plan, event.phase, run, context)
    return gate.is_open


def _listed(plan: RunPlan, scope: Scope) -> Sequence[ResolvedPhase]:
    """Return the phases of a scope in order. A plan that resumes a run starts with the phase of that run."""
    if scope.phase is None:
        resumed = plan.resume if scope.resume else None
        first = plan.phases[0].name if resumed is None else resumed.job.phase
    else:
        first = plan.phase(scope.phase).name
        if plan.resume is not None and plan.resume.job.phase != first:
            name = format_reference(SpecialistRef(plan.diet.specialist, plan.diet.branch), first)
            raise DietError(
                "--phase",
                first,
                cause=f"the run to continue belongs to phase {plan.resume.job.phase}",
                cure=f"Name a run of that phase: --continue {name}",
            )
        if not scope.later_phases:
            return [plan.phase(first)]
    return [*itertools.dropwhile(lambda phase: phase.name != first, plan.phases)]
