"""Forecast of a dry plan by phase: artefacts to build with reasons, tokens, steps, time and cost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from curriculum.inspection.formats import Line, count, duration, number
from curriculum.inspection.runs import whole_steps
from curriculum.mixing.diet_check import PhaseCheck
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline.attempts import Attempt, SlotQueue, attempt_state, resumed_step
from curriculum.pipeline.checks import known_supply, supply_warnings
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import FinishedStep, Scope, Verb, execute, run_in_process
from curriculum.pipeline.gates import APPROVAL
from curriculum.pipeline.phase_training import UNKNOWN
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.steps import tokens_per_step
from curriculum.pipeline.training_time import (
    NO_WORK,
    Speed,
    Workload,
    expected,
    last_speed,
    workload_of,
)
from curriculum.store import Artefact
from curriculum.train.run_directory import resumable
from schemas.errors import MixtureError
from schemas.study import study_remark


def money(cost: float | None) -> str:
    """Return a price with two decimals; empty if the price is unknown.

    >>> money(1234.5), money(0.0), money(None)
    ('1,234.50', '0.00', '')
    """
    return "" if cost is None else f"{cost:,.2f}"


Until = Literal["build", "mix", "train"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseForecast:
    """Forecast of one phase."""

    phase: str
    to_make: Mapping[str, int]
    """Number of missing artefacts by stage. An artefact that phases share counts for the first of them."""
    tokens: int = 0
    """Maximum number of valid tokens to train on. It may be fewer if the gate opens earlier."""
    steps: int = 0
    work: Workload = NO_WORK
    """Work of training the phase, with its evaluations."""
    note: str = ""
    whole: str = ""
    """Sentence about tokens of the budget that aren't used because only whole steps are trained, if any."""
    is_refused: bool = False
    """True if the phase's mixture can't be built, so that it has no tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Forecast of a command, phase by phase."""

    phases: tuple[PhaseForecast, ...]
    model: str
    speed: Speed | None
    price: float | None
    """Price of a GPU hour; None if unknown."""
    warnings: tuple[str, ...] = ()
    """Warnings: the plan is a study, rows are too few, or the supply of a phase is unknown."""
    refusal: MixtureError | None = None
    """Error with which the command would certainly end; None if there is none."""

    @property
    def tokens(self) -> int:
        """Number of tokens of all phases."""
        return sum(phase.tokens for phase in self.phases)

    @property
    def work(self) -> Workload:
        """Training work of all phases."""
        return sum((phase.work for phase in self.phases), NO_WORK)

    @property
    def seconds(self) -> float | None:
        """Estimated seconds of training; None if the speed is unknown."""
        return self.speed.seconds(self.work) if self.speed else None

    @property
    def cost(self) -> float | None:
        """Cost of the GPU hours of all phases; None if speed or price is unknown."""
        return self.speed.cost(self.work, self.price) if self.speed else None


def forecast(plan: RunPlan, scope: Scope, context: Context) -> Forecast:
    """Return the forecast for the part `scope` of a dry plan.

    Raises:
        JobError: if a phase would start from a run that doesn't exist.
    """
    by_phase = {
        event.phase: event for event in execute(plan, run_in_process(context), scope, context)
    }
    made = [*by_phase.values()]
    found, unmixed = (
        None,
        [event.phase for event in made if event.mixture and event.mixture.planned],
    )
    if unmixed:
        found = known_supply(plan, {event.phase: event.built for event in made if event.built})
    checks = {phase.phase.name: phase for phase in found.phases} if found else {}
    queue = SlotQueue.read(context.resources.slots_of(plan.store.root))
    return Forecast(
        phases=tuple(_phase_forecasts(plan, scope, made, checks, queue)),
        model=plan.diet.model,
        speed=last_speed(plan, context.resources),
        price=context.resources.gpu_price,
        warnings=(
            *([study_remark(plan.diet.study)] if plan.diet.study else []),
            *(supply_warnings(plan, found, unmixed) if found else ()),
        ),
        refusal=found.refusal if found else None,
    )


def forecast_lines(found: Forecast, *, until: Verb) -> Iterator[Line]:
    """Yield one table row per phase: artefacts to build, and for training tokens, steps, time and cost."""
    for phase in found.phases:
        line = {"phase": phase.phase, "artefacts to make": _stages(phase.to_make)}
        if until == "train":
            seconds = found.speed.seconds(phase.work) if found.speed and phase.tokens else None
            cost = found.speed.cost(phase.work, found.price) if found.speed else None
            line |= {
                "tokens": count(phase.tokens) if phase.tokens else "",
                "steps": f"{phase.steps:,}" if phase.steps else "",
                "time": "" if seconds is None else duration(seconds),
                "cost": money(cost) if phase.tokens else "",
                "note": phase.note,
            }
        yield line


def forecast_summary(found: Forecast, *, until: Verb) -> Iterator[Line]:
    """Yield one short table row per phase, for pages that cut off wide tables.

    The cost is only included if a price is known.
    """
    names = ["tokens", "steps", "time", *(["cost"] if found.price is not None else [])]
    lines = forecast_lines(found, until=until)
    for phase, line in zip(found.phases, lines, strict=True):
        made = number(sum(phase.to_make.values()), "artefact") if phase.to_make else "nothing"
        figures = {name: line[name] for name in names} if until == "train" else {}
        yield {"phase": phase.phase, "artefacts": made, **figures}


def notes_words(found: Forecast) -> Iterator[str]:
    """Yield the notes of each phase, with the name of the phase."""
    yield from (f"{phase.phase}: {phase.note}" for phase in found.phases if phase.note)


def _stages(to_make: Mapping[str, int]) -> str:
    """Return a text with the number of artefacts to build in each stage.

    >>> _stages({"rows": 2, "mixtures": 1}), _stages({})
    ('rows 2, mixtures 1', 'nothing')
    """
    return ", ".join(f"{stage} {made}" for stage, made in to_make.items()) or "nothing"


_LAST_STEP_DONE = (
    "No training steps are left: each run only has to be finished from its last checkpoint."
)


def forecast_words(found: Forecast, *, until: Verb) -> Iterator[str]:
    """Yield sentences about tokens left out because steps are whole, and about total time and cost."""
    for phase in found.phases:
        if phase.whole:
            yield f"{phase.phase}: {phase.whole}"
    refused = [phase.phase for phase in found.phases if phase.is_refused]
    if until != "train":
        yield "the build time isn't estimated"
    elif found.tokens:
        without = f"without {', '.join(refused)}: " if refused else ""
        yield f"{without}{expected(found.work, found.model, found.speed)}"
        if found.price is None:
            yield "set $CURRICULUM_GPU_PRICE, the price of a GPU hour, to see the cost"
        elif found.cost is not None:
            yield f"{money(found.cost)} at {found.price:g} for a GPU hour"
    elif not refused and found.refusal is None:
        is_open = any("runs" in phase.to_make for phase in found.phases)
        yield _LAST_STEP_DONE if is_open else "Nothing to train: every run is finished."


def _phase_forecasts(
    plan: RunPlan,
    scope: Scope,
    made: Sequence[FinishedStep],
    checks: Mapping[str, PhaseCheck],
    queue: SlotQueue,
) -> Iterator[PhaseForecast]:
    seen: set[Path] = set()
    blocked = ""
    for event in made:
        name, phase = event.phase, plan.phase(event.phase)
        new = [
            artefact
            for artefact in event.phase_artefacts
            if artefact.planned and artefact.path not in seen
        ]
        seen |= {artefact.path for artefact in new}
        to_make = Counter(artefact.manifest.stage for artefact in new)
        if event.mixture is None or event.run is None:
            yield PhaseForecast(phase=name, to_make=to_make)
            continue
        if event.run.planned:
            ahead = _training(plan, phase, event.mixture, event.run, checks.get(name), queue)
            if ahead.tokens:
                ahead = replace(ahead, work=workload_of(phase, ahead.tokens, ahead.steps))
            again = scope.retrain and name == scope.phase and not resumed_step(event.run.path)
            of_a_run = [
                "a new attempt" if again else "",
                "its gate may end it earlier" if phase.advance_when else "",
                "it needs an approval" if APPROVAL in phase.require else "",
            ]
            notes = [blocked, ahead.note, *([] if ahead.is_refused else of_a_run)]
            yield replace(ahead, to_make=to_make, note="; ".join(filter(None, notes)))
            if ahead.is_refused and not blocked:
                blocked = f"only after {name} has enough rows"
            continue
        closed = "" if event.gate is None or event.gate.is_open else event.gate.why
        note = "; ".join(filter(None, (blocked, closed)))
        yield PhaseForecast(phase=name, to_make=to_make, note=note)
        if closed and not blocked:
            blocked = f"only after the gate of {name} opens"


def _training(
    plan: RunPlan,
    phase: ResolvedPhase,
    mixture: Artefact,
    run: Artefact,
    check: PhaseCheck | None,
    queue: SlotQueue,
) -> PhaseForecast:
    """Return the remaining tokens and steps of a phase, and the state of its open attempt."""
    name, step = phase.name, tokens_per_step(plan)
    ahead = PhaseForecast(phase=name, to_make={})
    if mixture.planned and check is not None and check.fault is not None:
        how = "" if check.is_certain else "by the estimate, it "
        return replace(ahead, note=f"{how}will be refused", is_refused=True)
    if mixture.planned and check is not None and check.whole is not None:
        whole, tokens = check.whole, check.phase.tokens
        if check.is_estimate or not check.is_counted:
            note = "steps are estimated: its rows aren't built" if check.is_estimate else ""
            return replace(ahead, tokens=tokens, steps=max(whole.steps, 1), note=note)
        return replace(
            ahead,
            tokens=whole.tokens,
            steps=whole.steps,
            whole=whole_steps(whole.steps, step, whole.tokens, tokens),
        )
    if mixture.planned:
        tokens, resumed = phase.tokens, plan.resume_point_of(phase)
        if resumed is not None:
            # An approximate number of tokens that were already trained on.
            tokens -= phase.tokens * resumed.step // max(resumed.job.steps, 1)
        note = "steps are estimated: its mixture isn't built"
        return replace(ahead, tokens=tokens, steps=max(tokens // step, 1), note=note)
    report = mixture_report_of(mixture)
    is_known = run.manifest.revision != UNKNOWN
    done = resumed_step(run.path) if is_known else 0
    left = max(report.steps - done, 0)
    return replace(
        ahead,
        tokens=report.tokens * left // max(report.steps, 1),
        steps=left,
        note=_open_words(plan, run.path, f"{done:,} of {report.steps:,}", queue)
        if is_known
        else "",
        whole=whole_steps(report.steps, report.tokens_per_step, report.tokens, report.budget),
    )


def _open_words(plan: RunPlan, run: Path, step: str, queue: SlotQueue) -> str:
    """Return a text about the open attempt that a run would resume; empty if there is none."""
    begun = resumable(run)
    if begun is None:
        return ""
    found = attempt_state(plan.store, Attempt.at(begun), queue)
    if found.state in ("running", "waiting"):
        return f"{'is running' if found.state == 'running' else 'waits'}: {found.why}"
    return f"resumes at step {step}" if resumed_step(run) else ""
