"""Runs whose worker is gone: their processes ended with it, and the server is told so at once."""

from collections.abc import Sequence

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Cancelled, Crashed, Scheduled

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
