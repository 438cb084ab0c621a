"""`--dry-run`: what a command would do, on how many tokens, how long it takes and what that costs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.text import Text

from curriculum.corpus.sources import resolved_once
from curriculum.diets.resolve import ResolvedPhase
from curriculum.inspection.formats import Line, count
from curriculum.mix import report_of as mixture_report_of
from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.events import Event, PhaseBuilt, PhaseMixed, PhaseSkipped, PhaseTrained
from curriculum.pipeline.execute import Scope, execute, here
from curriculum.pipeline.gates import verdict
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.references import checkpoints
from curriculum.pipeline.speed import Speed, duration, expected, last_speed, money
from curriculum.pipeline.steps import UNKNOWN, tokens_per_step
from curriculum.store import Artefact
from curriculum.train.recipe import attempts
from flows import settings
from flows.contexts import context_of
from flows.show import MUTED, out, table, warn
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
    """What one phase would ask for."""

    phase: str
    to_make: Mapping[str, int]
    """Artefacts by stage that aren't there yet; what several phases share counts for the first."""
    tokens: int
    """Valid tokens that would be trained on, at most: a gate may open before."""
    steps: int
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What a command would ask for, phase by phase."""

    phases: tuple[Ahead, ...]
    model: str
    speed: Speed | None
    price: float | None
    """Of a GPU hour."""

    @property
    def tokens(self) -> int:
        """Of all phases."""
        return sum(each.tokens for each in self.phases)

    @property
    def seconds(self) -> float | None:
        """That training takes by the last measured speed; None where none was measured."""
        return self.speed.seconds(self.tokens) if self.speed else None

    @property
    def cost(self) -> float | None:
        """Of the GPU hours of all phases; None where speed or price aren't known."""
        return self.speed.cost(self.tokens, self.price) if self.speed else None


def forecasted(
    config: RunConfig,
    phase: str | None,
    *,
    until: Until,
    anew: str | None = None,
    onwards: bool = False,
) -> None:
    """Print what a command would ask for.

    Raises:
        CurriculumError: for a mistake in the order, as the command itself would.
    """
    plan = resolve_plan(config, dry=True)
    scope = Scope(until=until, phase=phase, onwards=onwards, retrain=anew is not None, gates=False)
    with resolved_once(clones="aside"):
        found = forecast(plan, scope)
    show(found, until=until)


def forecast(plan: RunPlan, scope: Scope) -> Forecast:
    """Forecast a part of a dry plan.

    Raises:
        SettingError: for a price that is none.
        JobError: for a phase whose run before isn't there.
    """
    return Forecast(
        phases=tuple(_ahead(plan, scope)),
        model=plan.diet.model,
        speed=last_speed(plan.store, plan.diet.model),
        price=settings.gpu_price(),
    )


def show(found: Forecast, *, until: Until) -> None:
    """Print a forecast: a line a phase, then what they come to."""
    out.print(table(_lines(found, until=until)))
    if until != "train":
        out.print(Text("how long building takes isn't measured", MUTED))
        return
    if not found.tokens:
        out.print("Nothing to train: every run is there.")
        return
    out.print(expected(found.tokens, found.model, found.speed), soft_wrap=True)
    if found.price is None:
        out.print(Text("$CURRICULUM_GPU_PRICE, the price of a GPU hour, gives the cost", MUTED))
    elif found.cost is not None:
        out.print(f"{money(found.cost)} at {found.price:g} for a GPU hour")


def _ahead(plan: RunPlan, scope: Scope) -> Iterator[Ahead]:
    seen: set[Path] = set()
    held, anew = "", scope.phase if scope.retrain else None
    for name, made in _made(plan, scope):
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


def _made(plan: RunPlan, scope: Scope) -> Iterator[tuple[str, list[Artefact]]]:
    """The artefacts of each phase, the one of the last step at the end."""
    context, made = context_of(), list[Artefact]()
    for event in execute(plan, here(context), scope, context):
        match event:
            case PhaseSkipped():
                warn(f"{event.phase} is skipped: {event.why}")
                continue
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
    """What may end a phase early, or keep the next one from beginning."""
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


def _lines(found: Forecast, *, until: Until) -> Iterator[Line]:
    for each in found.phases:
        line = {"phase": each.phase, "to make": _stages(each.to_make)}
        if until == "train":
            seconds = found.speed.seconds(each.tokens) if found.speed and each.tokens else None
            cost = found.speed.cost(each.tokens, found.price) if found.speed else None
            line |= {
                "tokens": count(each.tokens) if each.tokens else "",
                "steps": f"{each.steps:,}" if each.steps else "",
                "time": "" if seconds is None else duration(seconds),
                "cost": money(cost) if each.tokens else "",
                "note": each.note,
            }
        yield line


def _stages(to_make: Mapping[str, int]) -> str:
    """How many artefacts of each stage.

    >>> _stages({"rows": 2, "mixtures": 1}), _stages({})
    ('rows 2, mixtures 1', 'nothing')
    """
    return ", ".join(f"{stage} {made}" for stage, made in to_make.items()) or "nothing"
