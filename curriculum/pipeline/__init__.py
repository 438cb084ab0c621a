"""Library interface of the pipeline that runs a specialist's curriculum.

    from curriculum.pipeline import Pipeline

    pipeline = Pipeline("workspace")
    built = pipeline.build("templates.demo", phase="syntax")
    runs = pipeline.train("templates.demo")

The loop over phases is in execute.py, the settings are in run_config.py, and plan.py resolves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing import Unpack

    from curriculum.pipeline.context import Context
    from curriculum.pipeline.execute import FinishedStep, Verb
    from curriculum.pipeline.run_config import (
        BuildConfig,
        CorpusConfig,
        MixConfig,
        ResumeConfig,
        TrainConfig,
    )
    from curriculum.stages import Built
    from curriculum.store import Artefact


class Groups(TypedDict, total=False):
    """Groups of settings of a RunConfig; a missing group has its defaults."""

    corpus: CorpusConfig
    build: BuildConfig
    mix: MixConfig
    resume: ResumeConfig
    train: TrainConfig


class Pipeline:
    """Library interface to a workspace: builds, mixes and trains, and reuses artefacts that are up to date.

    Imports are deferred, so that a Pipeline can be created without torch and tree-sitter.
    """

    def __init__(self, workspace: Path | str = "workspace", context: Context | None = None) -> None:
        self.workspace = Path(workspace).absolute()
        self._context = context

    def build(
        self, diet: str, *, phase: str | None = None, **groups: Unpack[Groups]
    ) -> dict[str, Built]:
        """Build the packed rows of a diet and return them by phase.

        Raises:
            CurriculumError: for a mistake in the diet, the corpus or the config.
        """
        events = self._events(diet, "build", phase, groups)
        return {event.phase: event.built for event in events if event.built is not None}

    def mix(
        self, diet: str, *, phase: str | None = None, **groups: Unpack[Groups]
    ) -> dict[str, Artefact]:
        """Build rows, select and order the training rows, and return the mixture of each phase.

        Raises:
            CurriculumError: for a mistake in the diet, the corpus or the config.
        """
        events = self._events(diet, "mix", phase, groups)
        return {event.phase: event.mixture for event in events if event.mixture is not None}

    def train(
        self, diet: str, *, phase: str | None = None, **groups: Unpack[Groups]
    ) -> tuple[Artefact, ...]:
        """Build, mix and train phase by phase until a gate is closed, and return the finished runs.

        Raises:
            CurriculumError: for a mistake in the diet, the corpus or the config, or if training fails.
        """
        from curriculum.pipeline.execute import runs_of

        return runs_of(self._events(diet, "train", phase, groups))

    def _events(
        self, diet: str, until: Verb, phase: str | None, groups: Groups
    ) -> Iterator[FinishedStep]:
        from curriculum.pipeline.checks import require_steps
        from curriculum.pipeline.context import Context
        from curriculum.pipeline.execute import Scope, execute, run_in_process
        from curriculum.pipeline.plan import resolve_plan
        from curriculum.pipeline.run_config import RunConfig

        context = self._context or Context()
        config = RunConfig(specialist=diet, workspace=self.workspace, **groups)
        plan, scope = resolve_plan(config), Scope(until=until, phase=phase)
        if until != "build":
            require_steps(plan, scope, context)
        return execute(plan, run_in_process(context), scope, context)
