"""What a flow does when a phase is trained, a curriculum done, or a run broken down: it says so."""

from collections.abc import Sequence
from typing import Any

from prefect.client.schemas.objects import FlowRun, State

from curriculum.pipeline import closed_gates
from curriculum.pipeline.gates import Verdict
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from flows import settings, telling, tracking
from flows.page.write import rewritten, shows
from flows.tracking import Log
from schemas.errors import JobError


def trained(plan: RunPlan, run: Artefact, gate: Verdict) -> None:
    """A phase is trained: its specialist's report is on the run, and a closed gate is told."""
    say = Log().warning
    closed_gates.note(plan, run, gate)
    telling.at_gate(plan, run, gate, say)
    if not (gate.is_open and shows(plan, run)):
        drawn(plan)


def drawn(plan: RunPlan) -> None:
    """Write a specialist's report anew, and link it on the run's page."""
    if (file := rewritten(plan, Log().warning)) is not None:
        address = settings.reports_at(plan.store.root)
        place = f"{address}/{file.name}" if address else file.as_uri()
        tracking.link(f"report-{file.stem}", f"Report of {file.stem}", place)


def walked(plan: RunPlan, runs: Sequence[Artefact]) -> None:
    """All phases were gone through, as far as their gates let them."""
    drawn(plan)
    telling.at_end(plan, runs, Log().warning)


def broke_down(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """Tell that a flow run of a deployment crashed or failed; what training says itself isn't said again.

    Of a run in somebody's terminal the terminal tells.
    """
    if flow_run.deployment_id is None:
        return
    if state.is_failed() and isinstance(state.result(raise_on_failure=False), JobError):
        return
    whose = telling.whose(settings.home(), str(flow_run.parameters.get("specialist", "")))
    words = state.message or state.name or "it doesn't say why"
    telling.broken_down(whose, flow_run.name, words, mark=f"{flow_run.id}-{state.id}")
