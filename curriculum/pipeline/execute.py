"""The one loop over phases: build, mix and train each, as far as the gates between them are open.

`perform` is called with each step and returns its result: `here` runs the step in this process; Prefect wraps
it in a task, and trains on another machine; the steps of a dry plan make nothing.
"""

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline import notifications, steps
from curriculum.pipeline.context import Context
from curriculum.pipeline.gates import Verdict, record_gate, verdict
from curriculum.pipeline.plan import RunPlan
from curriculum.stages import Built
from curriculum.store import Artefact
from schemas.errors import DietError
from schemas.specialist import SpecialistRef, spelled

NOTHING_TO_DO = "Nothing to do: everything is up to date."


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseSampled:
    """Some documents of each family of a phase, to look at."""

    phase: str
    documents: tuple[Artefact, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseBuilt:
    """The rows of a phase, with all that they are made of."""

    phase: str
    built: Built


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseMixed:
    """The plan of a phase's rows."""

    phase: str
    mixture: Artefact


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseTrained:
    """A run of a phase."""

    phase: str
    run: Artefact
    gate: Verdict | None
    """The gate behind it; None of a run that is only planned."""


Event = PhaseSampled | PhaseBuilt | PhaseMixed | PhaseTrained


Verb = Literal["sample", "build", "mix", "train"]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Step(ABC, Generic[Result]):
    """One step of a phase, ready to run."""

    plan: RunPlan
    phase: str

    @abstractmethod
    def run(self, context: Context) -> Result:
        """Carry the step out and make its artefact current; with a dry plan, only plan it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleStep(Step[tuple[Artefact, ...]]):
    """Make some documents of each family of a phase."""

    number: int

    def run(self, context: Context) -> tuple[Artefact, ...]:
        """Make the documents."""
        return steps.sample_phase(self.plan, self.phase, self.number, context)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildStep(Step[Built]):
    """Build the rows of a phase."""

    def run(self, context: Context) -> Built:
        """Build the rows, and all that they are made of."""
        return steps.build_phase(self.plan, self.phase, context)


@dataclass(frozen=True, kw_only=True, slots=True)
class MixStep(Step[Artefact]):
    """Select and order the rows of a phase."""

    built: Built

    def run(self, context: Context) -> Artefact:
        """Make the mixture."""
        return steps.mix_phase(self.plan, self.phase, self.built, context)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainStep(Step[Artefact]):
    """Train a phase on its mixture."""

    built: Built
    mixture: Artefact
    retrain: bool
    """Train anew where a run is there."""

    def run(self, context: Context) -> Artefact:
        """Train the phase, from the end of the phase before it, and return the closed run."""
        return steps.train_phase(
            self.plan, self.phase, self.built, self.mixture, retrain=self.retrain, context=context
        )

    def finished(self, context: Context) -> Artefact | None:
        """Return the closed run of a phase of which nothing is left to train, if there is one."""
        if self.retrain:
            return None
        return steps.trained(self.plan, self.phase, self.built, self.mixture, context)


class Perform(Protocol):
    """Carries one step out, here or elsewhere, and returns its result."""

    def __call__(self, step: Step[Result], /) -> Result:
        """Return the result of a step."""


def here(context: Context) -> Perform:
    """Return the Perform that runs each step in this process."""

    def perform(step: Step[Result], /) -> Result:
        return step.run(context)

    return perform


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """The part of a plan that is carried out: by default all of it."""

    until: Verb = "train"
    """The last step of each phase."""
    phase: str | None = None
    """Only this phase; otherwise every phase that this version can build."""
    later_phases: bool = False
    """True with `phase` to continue with the phases after it."""
    retrain: bool = False
    """True with `phase` to train it again where a run is there."""
    resume: bool = True
    """Without `phase`: begin with the phase of the run that the plan resumes."""
    gates: bool = True
    """End at the first gate that isn't open."""
    sample: int = 1
    """Documents of each family, where only samples are made."""


def execute(plan: RunPlan, perform: Perform, scope: Scope, context: Context) -> Iterator[Event]:
    """Carry a plan out phase by phase, with one event for each step that is done.

    A plan whose store isn't dry holds a lease of the workspace meanwhile. After the event of a trained phase
    its gate is read again, so that a consumer may wait for an approval before it takes the next event.

    Raises:
        DietError: for a phase that the diet doesn't list, and for a trainer's command
            that may not run.
        CurriculumError: as the steps do.
    """
    is_dry, runs = plan.store.dry, []
    if scope.until == "train" and not is_dry:
        context.permit(plan)
    with contextlib.nullcontext() if is_dry else plan.store.leased():
        for phase in _listed(plan, scope):
            run = yield from _phase(plan, phase.name, perform, scope, context)
            if run is None or run.planned:
                continue
            runs.append(run)
            if not _gate(plan, phase.name, run, context).is_open and scope.gates:
                break
    if runs and not is_dry:
        notifications.at_end(plan, runs, context)


def selected(plan: RunPlan, scope: Scope) -> tuple[str, ...]:
    """Return the names of the phases that are carried out: those in the scope.

    Raises:
        DietError: for a named phase that the diet doesn't list.
    """
    return tuple(each.name for each in _listed(plan, scope))


def _phase(
    plan: RunPlan, name: str, perform: Perform, scope: Scope, context: Context
) -> Generator[Event, None, Artefact | None]:
    """Carry out the steps of one phase; the result is its run, if it came to one."""
    if scope.until == "sample":
        documents = perform(SampleStep(plan=plan, phase=name, number=scope.sample))
        yield PhaseSampled(phase=name, documents=documents)
        return None
    built = perform(BuildStep(plan=plan, phase=name))
    yield PhaseBuilt(phase=name, built=built)
    if scope.until == "build":
        return None
    mixture = perform(MixStep(plan=plan, phase=name, built=built))
    yield PhaseMixed(phase=name, mixture=mixture)
    if scope.until == "mix":
        return None
    retrain = scope.retrain and name == scope.phase
    run = perform(TrainStep(plan=plan, phase=name, built=built, mixture=mixture, retrain=retrain))
    gate = None if run.planned else _gate(plan, name, run, context)
    yield PhaseTrained(phase=name, run=run, gate=gate)
    return run


def _gate(plan: RunPlan, name: str, run: Artefact, context: Context) -> Verdict:
    """Read the gate behind a run; one that is closed is recorded, and whoever asked for it notified."""
    gate = verdict(plan, name, run)
    if not plan.store.dry:
        record_gate(plan, run, gate)
        notifications.at_gate(plan, run, gate, context)
    return gate


def _listed(plan: RunPlan, scope: Scope) -> Sequence[ResolvedPhase]:
    """The phases of a scope, in order. A plan that resumes a run begins with that run's phase."""
    if scope.phase is None:
        resumed = plan.resume if scope.resume else None
        first = plan.phases[0].name if resumed is None else resumed.job.phase
    else:
        first = plan.phase(scope.phase).name
        if plan.resume is not None and plan.resume.job.phase != first:
            name = spelled(SpecialistRef(plan.diet.specialist, plan.diet.branch), first)
            raise DietError(
                "--phase",
                first,
                cause=f"the run to continue is of {plan.resume.job.phase}",
                cure=f"Name a run of that phase: --continue {name}",
            )
        if not scope.later_phases:
            return [plan.phase(first)]
    return [*itertools.dropwhile(lambda each: each.name != first, plan.phases)]
