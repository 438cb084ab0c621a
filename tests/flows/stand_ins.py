"""Stand-ins for the steps build, mix and train: their order, gates and dispatch remain to be tested."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from curriculum.pipeline import phase_training, steps
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.gates import Verdict, verdict
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact, Recipe, Store
from flows import tasks
from schemas.job import Report, Stopped
from schemas.progress import Progress
from tests import factories


def report(*, phase: str = "syntax", stopped: Stopped = "budget", attempt: int = 1) -> Report:
    """Return the report of a run of three steps."""
    return factories.run_report(phase=phase, attempt=attempt, stopped=stopped, reason="why")


def gates_judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the phases whose gates are judged from now on, wherever that is."""
    judged: list[str] = []

    def noted(plan: RunPlan, phase: str, run: Artefact) -> Verdict:
        judged.append(phase)
        return verdict(plan, phase, run)

    for module in [*sys.modules.values()]:
        if vars(module).get("verdict") is verdict and module.__name__ != __name__:
            monkeypatch.setattr(module, "verdict", noted)
    return judged


def finished(store: Store, said: Report, *, weights: str = "") -> Artefact:
    """A run that left this report, with these weights."""
    labels = (("specialist", "templates"), ("branch", "demo"), ("phase", said.phase))
    recipe = Recipe(stage="runs", labels=labels, revision=1, config={"phase": said.phase})
    folder = store.root / recipe.directory / f"attempt={said.attempt}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(said.model_dump_json())
    (folder / "weights").write_text(weights)
    store.open()
    return store.publish_run(folder, recipe, said.model_dump(mode="json"), content="weights")


def _show_nothing(step: object, made: object) -> None:
    """Replace the display of rows and plans, which are names alone here."""


@dataclass
class FakeSteps:
    """Stands in for build, mix and train; notes in which order they were opened."""

    opened: list[str] = field(default_factory=list)
    anew: list[bool] = field(default_factory=list)
    stops: dict[str, Stopped] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    attempts: dict[str, list[Artefact]] = field(default_factory=dict)
    """Attempts by phase; a trained phase is found unless it is retrained."""

    def build(self, plan: RunPlan, phase: str, context: Context) -> object:
        self.opened.append(f"build {phase}")
        context.watch(Progress(stage="rows", item=phase, done=0, total=2, unit="documents"))
        context.watch(Progress(stage="rows", item=phase, done=2, total=2, unit="documents"))
        if self.failures:
            raise self.failures.pop()
        return "rows"

    def mix(self, plan: RunPlan, phase: str, built: object, context: Context) -> object:
        assert built == "rows"
        self.opened.append(f"mix {phase}")
        return "mixture"

    def train(
        self,
        plan: RunPlan,
        phase: str,
        built: object,
        mixture: object,
        context: Context,
        *,
        retrain: bool,
    ) -> Artefact:
        assert (built, mixture) == ("rows", "mixture")
        self.opened.append(f"train {phase}")
        self.anew.append(retrain)
        attempt = 1 + len(self.attempts.get(phase, ()))
        if attempt > 1 and not retrain:
            return self.attempts[phase][-1]
        said = report(phase=phase, stopped=self.stops.get(phase, "budget"), attempt=attempt)
        run = finished(plan.store, said, weights=f"{phase} {attempt}")
        self.attempts.setdefault(phase, []).append(run)
        return run

    def trained(self, plan: RunPlan, phase: str, resources: Resources) -> Artefact | None:
        return next(reversed(self.attempts.get(phase, ())), None)

    def stand_in(self, patch: pytest.MonkeyPatch, home: Path) -> None:
        """Replace the pipeline's steps in a workspace."""
        patch.setenv("CURRICULUM_HOME", str(home))
        patch.setattr(steps, "build_phase", self.build)
        patch.setattr(steps, "mix_phase", self.mix)
        patch.setattr(phase_training, "train_phase", self.train)
        patch.setattr("flows.dispatch.trained_run", self.trained)
        shown = {**tasks._SHOW, "build": _show_nothing, "mix": _show_nothing}
        patch.setattr(tasks, "_SHOW", shown)
