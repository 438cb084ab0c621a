"""Automations that crash silent runs, and recovery of runs whose worker is gone."""

from collections.abc import Sequence
from datetime import timedelta

from prefect.automations import EventTrigger, Posture
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore
from prefect.states import Cancelled, Crashed, Scheduled

from flows import settings
from flows.flow_process import ENDED

HEARTBEAT = "prefect.flow-run.heartbeat"
SILENCE = timedelta(seconds=90)
"""Three heartbeats that didn't come."""
START = timedelta(minutes=10)
"""Until a flow's process is up, even on a machine that is busy."""
LEFT = ("Completed", "Failed", "Crashed", "Cancelled", "Cancelling")
WAITS = ("Paused", "Suspended", "Scheduled", "AwaitingRetry", "Resuming", "Late")
"""States in which nobody works on a run."""


def watch(client: SyncPrefectClient, suffix: str) -> None:
    """Make the automations, or bring what is there up to date.

    What is the same stays as it is: a change would forget which runs are waited for. On a shared database
    they look at this workspace's runs only.
    """
    silent = _automation(
        f"Crashed when its heartbeat stops{suffix}",
        suffix,
        after=HEARTBEAT,
        expect=(HEARTBEAT, ENDED, *(_event(each) for each in (*LEFT, *WAITS))),
        within=SILENCE,
        message=f"No heartbeat for {SILENCE.seconds} s: its process or its machine is gone. "
        "Retry goes on from the last checkpoint.",
    )
    stuck = _automation(
        f"Crashed when it doesn't start{suffix}",
        suffix,
        after=_event("Pending"),
        expect=(HEARTBEAT, ENDED, *(_event(each) for each in ("Running", *LEFT, *WAITS))),
        within=START,
        message=f"Taken by a worker, and not started within {START.seconds // 60} minutes: the worker is "
        "gone. Retry.",
    )
    for automation in (silent, stuck):
        there = client.read_automations_by_name(automation.name)
        if not there:
            client.create_automation(automation)
        elif AutomationCore(**there[0].model_dump(exclude={"id"})) != automation:
            client.update_automation(there[0].id, automation)


def _event(state: str) -> str:
    return f"prefect.flow-run.{state}"


def _automation(
    name: str, suffix: str, *, after: str, expect: tuple[str, ...], within: timedelta, message: str
) -> AutomationCore:
    tagged = {"prefect.resource.id": f"prefect.tag.{settings.tag(suffix)}"} if suffix else {}
    return AutomationCore(
        name=name,
        trigger=EventTrigger(
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related=tagged,
            after={after},
            expect=set(expect),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=within,
        ),
        actions=[ChangeFlowRunState(state=StateType.CRASHED, name="Crashed", message=message)],
    )


MESSAGE = (
    "Its worker ended, and the run with it: the machine, or curriculum serve, was stopped. "
    "Retry goes on from the last checkpoint."
)


def end(client: SyncPrefectClient, pools: Sequence[str]) -> None:
    """Bring the runs of pools that no worker serves to an end; what hadn't begun is scheduled again."""
    if not pools:
        return
    held = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)
    runs = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[*held]))
        ),
        work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[*pools])),
    )
    for run in runs:
        client.set_flow_run_state(run.id, _fate(run), force=True)


def _fate(run: FlowRun) -> State[None]:
    assert run.state
    match run.state.type:
        case StateType.PENDING:
            return Scheduled(scheduled_time=run.expected_start_time)
        case StateType.CANCELLING:
            return Cancelled()
        case _:
            return Crashed(message=MESSAGE)
