"""The beginning of each flow: a form's fields as a plan, the phases to go through, errors worth a retry."""

from collections.abc import Iterator
from typing import Any

from prefect import runtime

from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Store
from flows import orders, settings, trust, work
from flows.parameters import ALL_PHASES, BuildChanges
from flows.tracking import Log
from schemas.errors import CurriculumError, JobKilledError


def start(specialist: str, changes: BuildChanges) -> RunPlan:
    """The course of what a form asked for, in this machine's workspace, as this flow run first saw it.

    Training that another run asked for goes by that one's order.

    Raises:
        CurriculumError: for what the diet, the phases or the corpus can't give.
    """
    config = RunConfig.of(specialist=specialist, workspace=settings.home(), **changes.model_dump())
    for line in trust.shadow_words(config.workspace):
        Log().warning(line)
    parent = runtime.flow_run.parent_flow_run_id
    if parent and orders.place_of(Store(config.workspace), parent).is_file():
        return orders.thaw(Store(config.workspace), parent)
    return orders.frozen_course(config, runtime.flow_run.id)


def chosen(plan: RunPlan, phase: str, *, onwards: bool = False) -> Iterator[str]:
    """The phases to go through, in order: all, one, or one and those after it.

    What can't be built by this version is skipped, and said so.
    """
    named = None if phase == ALL_PHASES else phase
    yield from work.chosen(plan, named, Log().warning, onwards=onwards)


def worth_another_try(task: Any, run: Any, state: Any) -> bool:
    """Whether a failure may pass by itself: a killed process does, a user's mistake doesn't."""
    failure = state.result(raise_on_failure=False)
    return isinstance(failure, JobKilledError) or not isinstance(failure, CurriculumError)
