"""Forecast of a plan: artefacts to make, tokens, steps, time and cost, phase by phase."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline.attempts import checkpoints
from curriculum.pipeline.context import Context
from curriculum.pipeline.events import Event, PhaseBuilt, PhaseMixed, PhaseTrained
from curriculum.pipeline.execute import Scope, execute, here
from curriculum.pipeline.gates import verdict
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.speed import Speed, last_speed
from curriculum.pipeline.steps import UNKNOWN, tokens_per_step
from curriculum.store import Artefact
from curriculum.train.recipe import attempts
from schemas.manifest import MANIFEST_NAME

Until = Literal["build", "mix", "train"]
_LAST: Mapping[str, type[Event]] = {
    "build": PhaseBuilt,
    "mix": PhaseMixed,
    "train": PhaseTrained,
}
"""The event of the last step of a phase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ahead:
    """Forecast of one phase."""

    phase: str
    to_make: Mapping[str, int]
    """Artefacts by stage that aren't there yet; what several phases share counts for the first."""
    tokens: int
    """Valid tokens that would be trained on, at most: a gate may open before."""
    steps: int
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Forecast of a command, phase by phase."""

    phases: tuple[Ahead, ...]
    model: str
    speed: Speed | None
    price: float | None
    """Price of a GPU hour."""

    @property
    def tokens(self) -> int:
        """Tokens of all phases."""
        return sum(each.tokens for each in self.phases)

    @property
    def seconds(self) -> float | None:
        """Seconds of training by the last measured speed; None where none was measured."""
        return self.speed.seconds(self.tokens) if self.speed else None

    @property
    def cost(self) -> float | None:
        """Cost of the GPU hours of all phases; None where speed or price aren't known."""
        return self.speed.cost(self.tokens, self.price) if self.speed else None


def forecast(plan: RunPlan, scope: Scope, context: Context) -> Forecast:
    """Forecast a part of a dry plan.

    Raises:
        JobError: for a phase whose run before isn't there.
    """
    return Forecast(
        phases=tuple(_ahead(plan, scope, context)),
        model=plan.diet.model,
        speed=last_speed(plan.store, plan.diet.model),
        price=context.resources.gpu_price,
    )


def _ahead(plan: RunPlan, scope: Scope, context: Context) -> Iterator[Ahead]:
    seen: set[Path] = set()
    held, anew = "", scope.phase if scope.retrain else None
    for name, made in _made(plan, scope, context):
        phase = plan.phase(name)
        fresh = [each for each in made if each.planned and each.path not in seen]
        seen |= {each.path for each in fresh}
        run = made[-1] if scope.until == "train" else None
        tokens, steps, note = _training(plan, phase, made) if run and run.planned else (0, 0, "")
        gate = _gate(plan, phase, run, anew=anew)
        yield Ahead(
            phase=name,
            to_make=Counter(each.manifest.stage for each in fresh),
            tokens=tokens,
            steps=steps,
            note="; ".join(filter(None, (held, note, gate))),
        )
        if run and not run.planned and gate:
            held = held or f"not before {name} is let pass"


def _made(plan: RunPlan, scope: Scope, context: Context) -> Iterator[tuple[str, list[Artefact]]]:
    """The artefacts of each phase, the one of the last step at the end."""
    made = list[Artefact]()
    for event in execute(plan, here(context), scope, context):
        match event:
            case PhaseBuilt():
                made = [*event.built.artefacts()]
            case PhaseMixed():
                made.append(event.mixture)
            case PhaseTrained():
                made.append(event.run)
        if isinstance(event, _LAST[scope.until]):
            yield event.phase, made


def _training(
    plan: RunPlan, phase: ResolvedPhase, made: Sequence[Artefact]
) -> tuple[int, int, str]:
    """Tokens and steps that are still to be trained on, and where that goes on."""
    *_, mixture, run = made
    if mixture.planned:
        tokens = phase.tokens - _trained_before(plan, phase)
        return (
            tokens,
            max(tokens // tokens_per_step(plan), 1),
            "steps are a guess: it isn't mixed yet",
        )
    report = mixture_report_of(mixture)
    done = 0 if run.manifest.revision == UNKNOWN else _done(run)
    left = max(report.steps - done, 0)
    note = f"goes on from step {done:,} of {report.steps:,}" if done else ""
    return report.budget * left // max(report.steps, 1), left, note


def _trained_before(plan: RunPlan, phase: ResolvedPhase) -> int:
    """Valid tokens, about, of the steps before the middle that a course goes on from."""
    middle = plan.goes_on_in(phase)
    return phase.tokens * middle.step // max(middle.job.steps, 1) if middle else 0


def _done(run: Artefact) -> int:
    """The step of the last checkpoint of the attempt that would go on."""
    newest = attempts(run.path)[-1:]
    if not newest or (newest[0] / MANIFEST_NAME).is_file():
        return 0
    return max((step for step, _ in checkpoints(newest[0])), default=0)


def _gate(plan: RunPlan, phase: ResolvedPhase, run: Artefact | None, *, anew: str | None) -> str:
    """Describe what may end a phase early, or keep the next one from beginning."""
    if run is None:
        return ""
    if not run.planned:
        gate = verdict(plan, phase.name, run)
        return "" if gate.is_open else gate.why
    said = [
        "a new attempt" if phase.name == anew else "",
        "its gate may end it earlier" if phase.advance_when else "",
        "somebody must approve it" if "approval" in phase.require else "",
    ]
    return "; ".join(filter(None, said))
