"""Approval of runs in the flows: a flow run is suspended at a closed gate until a person approves."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import Pause
from prefect.flow_runs import resume_flow_run, suspend_flow_run
from prefect.input import RunInput
from prefect.states import Completed
from pydantic import Field, ValidationError

from curriculum.inspection.runs import report_of, run_words
from curriculum.pipeline import gates
from curriculum.pipeline.execute import FinishedStep
from curriculum.pipeline.gates import verdict
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from flows import dispatch
from flows.artifacts import Log, unmarked
from schemas.visible import visible

SUSPENDED = "Suspended"
ENDS = {"holds": "Holds", "waits": "Waits", "cancelled": "Interrupted"}


class ApprovalForm(RunInput):
    """Form that Prefect's Resume button shows."""

    who: str = Field(title="Who", description="Your name; recorded with the run.", min_length=1)
    comment: str = Field(
        default="", title="Comment", description="Comment on the approval; recorded with the run."
    )


def gate_passed(plan: RunPlan, event: FinishedStep, run: Artefact) -> FinishedStep:
    """Return the event of a trained phase, after waiting for an approval if its gate requires one.

    Only flow runs of deployments can wait. The process of this flow run ends here; when a person resumes the
    flow run, Prefect starts it again from the beginning.
    """
    gate = event.gate
    if gate is not None and gate.kind == "waits" and dispatch.in_deployment():
        ticket = gates.approval_ticket(plan.store, run)
        try:
            approval = suspended_until_approved(ticket, _question(run))
        except Pause:
            Log().warning(
                f"Phase {event.phase} is trained and waits for approval. Check the artifacts of "
                "this run, then choose Resume in the menu at the top right of this page."
            )
            raise
        gates.write_approval(plan.store, run, who=approval.who, comment=approval.comment)
        gate = verdict(plan, event.phase, run)
    if gate is not None and not gate.is_open:
        Log().warning(gate.why)
    return replace(event, gate=gate)


def final_state(trained: Sequence[FinishedStep]) -> tuple[FinishedStep, ...]:
    """Return the final result of a curriculum flow.

    If the last gate is closed, the result is a Completed state whose name says so; Prefect takes the value of
    the flow run from the data of that state.
    """
    gate = trained[-1].gate if trained else None
    if gate is None or gate.is_open:
        return tuple(trained)
    state: State[tuple[FinishedStep, ...]] = Completed(
        name=ENDS[gate.kind], message=visible(gate.why), data=tuple(trained)
    )
    return cast("tuple[FinishedStep, ...]", state)


def _question(run: Artefact) -> str:
    report = report_of(run)
    return (
        f"Phase **{unmarked(report.phase)}** of {unmarked(report.specialist)} is trained: "
        f"{unmarked(run_words(report))}. Run: `{run.path.name}` of `{run.key[:KEY_DIGITS]}`. "
        "Resume approves this run and starts the next phase. To stop instead, close this dialog "
        "and choose Cancel in the run's menu."
    )


def suspended_until_approved(ticket: str, question: str) -> ApprovalForm:
    """Suspend this flow run until a person submits the approval form, and return the form.

    Suspending ends the process. After the form was submitted, the flow starts again and this function returns
    at once. Works only in flow runs of a deployment.
    """
    form = ApprovalForm.with_initial_data(description=question)
    for number in itertools.count():
        try:
            return suspend_flow_run(wait_for_input=form, key=f"{ticket}-{number}")
        except ValidationError:
            # The run was suspended and restarted without an answer (somebody retried it). It asks again.
            continue
    raise AssertionError


def resume(ticket: str, *, who: str, comment: str, warn: Callable[[str], None]) -> str:
    """Resume the flow runs that wait for the approval of a run, and return a sentence that names them.

    `ticket` identifies the approved run; `who` and `comment` are passed to the flow runs. The result is empty
    if no flow run waits.
    """
    try:
        with get_client(sync_client=True) as client:
            suspended = client.read_flow_runs(
                flow_run_filter=FlowRunFilter(state={"name": {"any_": [SUSPENDED]}})
            )
        mine = [flow_run for flow_run in suspended if _waits_for(flow_run, ticket)]
        for flow_run in mine:
            resume_flow_run(flow_run.id, run_input={"who": who, "comment": comment})
    except httpx.HTTPError as failed:
        warn(
            f"The approval is recorded, but the server didn't answer ({failed}). Resume the flow "
            "run in the Prefect UI."
        )
        return ""
    return ", ".join(f"Flow run {flow_run.name} resumes on the server." for flow_run in mine)


def _waits_for(run: FlowRun, ticket: str) -> bool:
    key = run.state.state_details.pause_key if run.state else None
    return key is not None and key.rpartition("-")[0] == ticket
