"""Flow runs that wait for approval: suspended at a closed gate, and resumed by somebody."""

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
    """The form of Resume."""

    who: str = Field(title="Who", description="Your name: it is kept with the run.", min_length=1)
    comment: str = Field(default="", title="Comment", description="What is to be remembered of it.")


def gate_passed(plan: RunPlan, event: FinishedStep, run: Artefact) -> FinishedStep:
    """Return the event of a trained phase, once somebody has approved its run, where a flow run can wait.

    Only a flow run of a deployment can: it ends here, and begins anew when it is resumed.
    """
    gate = event.gate
    if gate is not None and gate.kind == "waits" and dispatch.in_deployment():
        ticket = gates.approval_ticket(plan.store, run)
        try:
            approval = suspended_until_approved(ticket, _question(run))
        except Pause:
            Log().warning(
                f"{event.phase} is trained and waits for approval: look at its artifacts, then "
                "choose Resume in the menu at the top right of this page."
            )
            raise
        gates.write_approval(plan.store, run, who=approval.who, comment=approval.comment)
        gate = verdict(plan, event.phase, run)
    if gate is not None and not gate.is_open:
        Log().warning(gate.why)
    return replace(event, gate=gate)


def final_state(trained: Sequence[FinishedStep]) -> tuple[FinishedStep, ...]:
    """Return the final state of a curriculum: completed, under a name that shows a closed gate.

    It is a state, of which Prefect hands on what it holds.
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
        f"**{unmarked(report.phase)}** of {unmarked(report.specialist)} is trained: "
        f"{unmarked(run_words(report))}. Its run is "
        f"`{run.path.name}` of `{run.key[:KEY_DIGITS]}`. Resume approves it, and the next phase begins. "
        "To end here instead, close this and choose Cancel in the run's menu."
    )


def suspended_until_approved(ticket: str, question: str) -> ApprovalForm:
    """End this flow run until somebody resumes it; when it begins anew, return the form of Resume.

    It works in flow runs of a deployment only.
    """
    form = ApprovalForm.with_initial_data(description=question)
    for number in itertools.count():
        try:
            return suspend_flow_run(wait_for_input=form, key=f"{ticket}-{number}")
        except ValidationError:
            # It was suspended so and began again without an answer: somebody retried it. It asks again.
            continue
    raise AssertionError


def resume(ticket: str, *, who: str, comment: str, warn: Callable[[str], None]) -> str:
    """Resume the flow runs that are suspended for a run, and return a line that names them, if any."""
    try:
        with get_client(sync_client=True) as client:
            suspended = client.read_flow_runs(
                flow_run_filter=FlowRunFilter(state={"name": {"any_": [SUSPENDED]}})
            )
        mine = [each for each in suspended if _waits_for(each, ticket)]
        for each in mine:
            resume_flow_run(each.id, run_input={"who": who, "comment": comment})
    except httpx.HTTPError as failed:
        warn(f"The approval stands, but the server didn't answer ({failed}). Resume the run there.")
        return ""
    return ", ".join(f"{each.name} resumes on the server." for each in mine)


def _waits_for(run: FlowRun, ticket: str) -> bool:
    key = run.state.state_details.pause_key if run.state else None
    return key is not None and key.rpartition("-")[0] == ticket
