"""The beginning of each flow: a form's fields as a plan, and the plan carried out step by step."""

from collections.abc import Iterator
from dataclasses import replace

from prefect import runtime

from curriculum.pipeline import recorded_config
from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.execute import Perform, PhaseTrained, Scope, execute
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Store
from dashboards.report.write import shows
from flows import settings, tasks
from flows.artifacts import Log
from flows.hooks import link_report
from flows.parameters import ALL_PHASES, BuildChanges
from flows.settings import trust
from schemas.progress import ignore_progress


def start(specialist: str, changes: BuildChanges) -> RunPlan:
    """Resolve a form into the plan of this flow run, as the run first saw it.

    Training that another run asked for goes by that one's config.

    Raises:
        CurriculumError: for what the diet, the phases or the corpus can't give.
    """
    config = RunConfig.of(specialist=specialist, workspace=settings.home(), **changes.model_dump())
    for line in trust.shadow_words(config.workspace):
        Log().warning(line)
    parent, store = runtime.flow_run.parent_flow_run_id, Store(config.workspace)
    if parent and recorded_config.place_of(store, parent).is_file():
        return recorded_config.read_plan(store, parent)
    return recorded_config.first_plan(config, runtime.flow_run.id)


def carry_out(
    plan: RunPlan, scope: Scope, phase: str, perform: Perform = tasks.perform
) -> Iterator[PhaseTrained]:
    """Carry a plan out in tasks, and yield each phase that is trained.

    The report is written before a closed gate is returned, since nobody may look at the run afterwards.
    """
    named = None if phase == ALL_PHASES else phase
    context = tasks.flow_context(ignore_progress)
    for event in execute(plan, perform, replace(scope, phase=named), context):
        if isinstance(event, PhaseTrained):
            if not (event.gate and event.gate.is_open and shows(plan, event.run)):
                link_report(plan)
            yield event
