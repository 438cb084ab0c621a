"""Forecast of a dry plan: artefacts to make and why, tokens, steps, time and cost, phase by phase."""

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
from curriculum.pipeline.execute import FinishedStep, Scope, Verb, execute, here
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
    """A price to the cent; empty where there is none.

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
    """Artefacts by stage that aren't there yet; what several phases share counts for the first."""
    tokens: int = 0
    """Valid tokens that would be trained on, at most: a gate may open before."""
    steps: int = 0
    work: Workload = NO_WORK
    """Its tokens with its evaluations, as a run."""
    note: str = ""
    whole: str = ""
    """The tokens of whole steps against its budget, where they leave out some."""
    is_refused: bool = False
    """True where its mixture can't be made, so that it has no tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Forecast of a command, phase by phase."""

    phases: tuple[PhaseForecast, ...]
    model: str
    speed: Speed | None
    price: float | None
    """Price of a GPU hour."""
    warnings: tuple[str, ...] = ()
    """A study; servings of which too little is there, and what follows; phases of which it isn't known."""
    refusal: MixtureError | None = None
    """The error that the command is bound to end with."""

    @property
    def tokens(self) -> int:
        """Tokens of all phases."""
        return sum(phase.tokens for phase in self.phases)

    @property
    def work(self) -> Workload:
        """Work of all phases."""
        return sum((phase.work for phase in self.phases), NO_WORK)

    @property
    def seconds(self) -> float | None:
        """Seconds of training by the speed that is known; None where none is."""
        return self.speed.seconds(self.work) if self.speed else None

    @property
    def cost(self) -> float | None:
        """Cost of the GPU hours of all phases; None where speed or price aren't known."""
        return self.speed.cost(self.work, self.price) if self.speed else None


def forecast(plan: RunPlan, scope: Scope, context: Context) -> Forecast:
    """Forecast a part of a dry plan.

    Raises:
        JobError: for a phase whose run before isn't there.
    """
    by_phase = {event.phase: event for event in execute(plan, here(context), scope, context)}
    made = [*by_phase.values()]
    found, unmixed = None, [each.phase for each in made if each.mixture and each.mixture.planned]
    if unmixed:
        found = known_supply(plan, {each.phase: each.built for each in made if each.built})
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
    """A line a phase: what would be made, and of training its tokens, steps, time and cost."""
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
    """A line a phase in narrow columns, for a page that cuts wide tables; no cost without a price."""
    names = ["tokens", "steps", "time", *(["cost"] if found.price is not None else [])]
    lines = forecast_lines(found, until=until)
    for each, line in zip(found.phases, lines, strict=True):
        made = number(sum(each.to_make.values()), "artefact") if each.to_make else "nothing"
        figures = {name: line[name] for name in names} if until == "train" else {}
        yield {"phase": each.phase, "artefacts": made, **figures}


def notes_words(found: Forecast) -> Iterator[str]:
    """The note of each phase that has one, with its name."""
    yield from (f"{phase.phase}: {phase.note}" for phase in found.phases if phase.note)


def _stages(to_make: Mapping[str, int]) -> str:
    """List the artefacts to make of each stage.

    >>> _stages({"rows": 2, "mixtures": 1}), _stages({})
    ('rows 2, mixtures 1', 'nothing')
    """
    return ", ".join(f"{stage} {made}" for stage, made in to_make.items()) or "nothing"


_LAST_STEP_DONE = "No step is left to train: each run is finished from its last checkpoint."


def forecast_words(found: Forecast, *, until: Verb) -> Iterator[str]:
    """Sentences on tokens that whole steps leave out, on the time and the cost of all phases together."""
    for each in found.phases:
        if each.whole:
            yield f"{each.phase}: {each.whole}"
    refused = [each.phase for each in found.phases if each.is_refused]
    if until != "train":
        yield "how long building takes isn't measured"
    elif found.tokens:
        without = f"without {', '.join(refused)}: " if refused else ""
        yield f"{without}{expected(found.work, found.model, found.speed)}"
        if found.price is None:
            yield "$CURRICULUM_GPU_PRICE, the price of a GPU hour, gives the cost"
        elif found.cost is not None:
            yield f"{money(found.cost)} at {found.price:g} for a GPU hour"
    elif not refused and found.refusal is None:
        is_open = any("runs" in phase.to_make for phase in found.phases)
        yield _LAST_STEP_DONE if is_open else "Nothing to train: every run is there."


def _phase_forecasts(
    plan: RunPlan,
    scope: Scope,
    made: Sequence[FinishedStep],
    checks: Mapping[str, PhaseCheck],
    queue: SlotQueue,
) -> Iterator[PhaseForecast]:
    seen: set[Path] = set()
    blocked = ""
    for each in made:
        name, phase = each.phase, plan.phase(each.phase)
        new = [one for one in each.phase_artefacts if one.planned and one.path not in seen]
        seen |= {one.path for one in new}
        to_make = Counter(one.manifest.stage for one in new)
        if each.mixture is None or each.run is None:
            yield PhaseForecast(phase=name, to_make=to_make)
            continue
        if each.run.planned:
            ahead = _training(plan, phase, each.mixture, each.run, checks.get(name), queue)
            if ahead.tokens:
                ahead = replace(ahead, work=workload_of(phase, ahead.tokens, ahead.steps))
            again = scope.retrain and name == scope.phase and not resumed_step(each.run.path)
            of_a_run = [
                "a new attempt" if again else "",
                "its gate may end it earlier" if phase.advance_when else "",
                "somebody must approve it" if APPROVAL in phase.require else "",
            ]
            notes = [blocked, ahead.note, *([] if ahead.is_refused else of_a_run)]
            yield replace(ahead, to_make=to_make, note="; ".join(filter(None, notes)))
            if ahead.is_refused and not blocked:
                blocked = f"not before {name} can be served"
            continue
        closed = "" if each.gate is None or each.gate.is_open else each.gate.why
        note = "; ".join(filter(None, (blocked, closed)))
        yield PhaseForecast(phase=name, to_make=to_make, note=note)
        if closed and not blocked:
            blocked = f"not before {name} is let pass"


def _training(
    plan: RunPlan,
    phase: ResolvedPhase,
    mixture: Artefact,
    run: Artefact,
    check: PhaseCheck | None,
    queue: SlotQueue,
) -> PhaseForecast:
    """Tokens and steps that are still to be trained on, and the state of an attempt that was begun."""
    name, step = phase.name, tokens_per_step(plan)
    ahead = PhaseForecast(phase=name, to_make={})
    if mixture.planned and check is not None and check.fault is not None:
        how = "" if check.is_certain else "by the estimate, it "
        return replace(ahead, note=f"{how}will be refused", is_refused=True)
    if mixture.planned and check is not None and check.whole is not None:
        whole, tokens = check.whole, check.phase.tokens
        if check.is_estimate or not check.is_counted:
            note = "steps are a guess: its rows aren't built" if check.is_estimate else ""
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
            # About so many were trained on before.
            tokens -= phase.tokens * resumed.step // max(resumed.job.steps, 1)
        note = "steps are a guess: it isn't mixed yet"
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
    """Describe the attempt that a run would resume at a step; empty where none was begun."""
    begun = resumable(run)
    if begun is None:
        return ""
    found = attempt_state(plan.store, Attempt.at(begun), queue)
    if found.state in ("running", "waiting"):
        return f"{'is running' if found.state == 'running' else 'waits'}: {found.why}"
    return f"resumes at step {step}" if resumed_step(run) else ""
