"""Hooks of the flows: names of flow runs, crash notifications, and the report that each run links."""

from typing import Any

from prefect import runtime
from prefect.client.schemas.objects import FlowRun, State

from curriculum.pipeline import notifications
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.status import record_status
from dashboards.report.write import rewritten
from flows import artifacts, settings
from flows.artifacts import Log
from flows.parameters import BuildChanges, Changes
from flows.settings.contexts import context_of, resources
from schemas.errors import JobError

SWITCHES = {"onwards": "and those after it", "again": "anew"}
"""Words in a run's name for a switch of its form."""
LONGEST = 40
"""Characters of a value in a name."""


def link_report(plan: RunPlan) -> None:
    """Write a specialist's report and the workspace's status anew; link the report on the flow run's page."""
    record_status(plan.store.root, resources(), Log().warning)
    if (file := rewritten(plan, resources(), Log().warning)) is not None:
        address = settings.reports_at(plan.store.root)
        place = f"{address}/{file.name}" if address else file.as_uri()
        artifacts.link(f"report-{file.stem}", f"Report of {file.stem}", place)


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


def run_name() -> str:
    """The name of the flow run that begins, from what its form was filled with.

    run templates.demo syntax, token_budget=10K
    """
    given = runtime.flow_run.parameters
    switches = [words for name, words in SWITCHES.items() if given.get(name)]
    first = " ".join([runtime.flow_run.flow_name, given["specialist"], given["phase"], *switches])
    changes = given["changes"]
    if not isinstance(changes, BuildChanges):
        changes = Changes.model_validate(changes)
    return ", ".join([first, *_changed(changes)])


def _changed(changes: BuildChanges) -> list[str]:
    """Return the changed fields, as the command line would write them."""
    listed = changes.model_dump(exclude_defaults=True)
    return [
        name if value is True else f"{name}={_short(_words(value))}"
        for name, value in listed.items()
    ]


def _words(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


HOOKS: dict[str, Any] = {
    "flow_run_name": run_name,
    "on_crashed": [broke_down],
    "on_failure": [broke_down],
}
"""Arguments of each flow's decorator."""
