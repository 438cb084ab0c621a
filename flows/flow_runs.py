"""Work common to all flow runs: resolve and carry out a plan, link its report, notify of a crash, a name."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from prefect import runtime
from prefect.client.schemas.objects import FlowRun, State

from curriculum.pipeline import notifications, recorded_config
from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.execute import Perform, PhaseTrained, Scope, execute
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.status import record_status
from curriculum.store import Store
from dashboards.report.page import rewritten, shows
from flows import artifacts, settings, tasks
from flows.artifacts import Log
from flows.parameters import ALL_PHASES, BuildChanges, Changes
from flows.settings import trust
from flows.settings.contexts import context_of, resources
from schemas.errors import JobError
from schemas.progress import ignore_progress

SWITCHES = {"onwards": "and those after it", "again": "anew"}
"""Words in a run's name for a switch of its form."""
LONGEST = 40
"""Characters of a value in a name."""


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
    if parent and recorded_config.snapshot_file(store, parent).is_file():
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


def link_report(plan: RunPlan) -> None:
    """Write a specialist's report and the workspace's status anew; link the report on the flow run's page."""
    record_status(plan.store.root, resources(), Log().warning)
    if (file := rewritten(plan, resources(), Log().warning)) is not None:
        address = settings.reports_at(plan.store.root)
        place = f"{address}/{file.name}" if address else file.as_uri()
        artifacts.link(f"report-{file.stem}", f"Report of {file.stem}", place)


def notify_of_failure(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """Notify of a flow run of a deployment that crashed or failed, unless its training did so itself.

    A run in a terminal prints its own error. One whose process is gone is found by server/crash_detection.py.
    """
    if flow_run.deployment_id is None:
        return
    if state.is_failed() and isinstance(state.result(raise_on_failure=False), JobError):
        return
    whose = notifications.whose(settings.home(), str(flow_run.parameters.get("specialist", "")))
    words = state.message or state.name or "it doesn't say why"
    notifications.broken_down(
        whose, flow_run.name, words, mark=f"{flow_run.id}-{state.id}", context=context_of()
    )


def run_name() -> str:
    """The name of the flow run that begins, from what its form was filled with.

    run templates.demo syntax, token_budget=10K
    """
    given = runtime.flow_run.parameters
    switches = [words for name, words in SWITCHES.items() if given.get(name)]
    parts = [" ".join([runtime.flow_run.flow_name, given["specialist"], given["phase"], *switches])]
    changes = given["changes"]
    if not isinstance(changes, BuildChanges):
        changes = Changes.model_validate(changes)
    for name, value in changes.model_dump(exclude_defaults=True).items():
        text = " ".join(value) if isinstance(value, tuple) else str(value)
        short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        parts.append(name if value is True else f"{name}={short}")
    return ", ".join(parts)


HOOKS: dict[str, Any] = {
    "flow_run_name": run_name,
    "on_crashed": [notify_of_failure],
    "on_failure": [notify_of_failure],
}
"""Arguments of each flow's decorator."""
