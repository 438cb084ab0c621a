"""Hooks of the flows: names of flow runs, crash notifications, and the report that each run links."""

from typing import Any

from prefect.client.schemas.objects import FlowRun, State

from curriculum.pipeline import notifications
from curriculum.pipeline.plan import RunPlan
from flows import settings, tracking
from flows.contexts import context_of
from flows.names import run_name
from flows.page.write import rewritten
from flows.status import record
from flows.tracking import Log
from schemas.errors import JobError


def link_report(plan: RunPlan) -> None:
    """Write a specialist's report and the workspace's status anew; link the report on the flow run's page."""
    record(plan.store.root, Log().warning)
    if (file := rewritten(plan, Log().warning)) is not None:
        address = settings.reports_at(plan.store.root)
        place = f"{address}/{file.name}" if address else file.as_uri()
        tracking.link(f"report-{file.stem}", f"Report of {file.stem}", place)


def broke_down(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """Notify of a flow run of a deployment that crashed or failed, unless its training did so itself.

    A run in a terminal prints its own error.
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


HOOKS: dict[str, Any] = {
    "flow_run_name": run_name,
    "on_crashed": [broke_down],
    "on_failure": [broke_down],
}
"""Arguments of each flow's decorator."""
