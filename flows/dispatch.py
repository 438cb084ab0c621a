"""Training as a flow run of its own, in the pool whose slots are GPUs: they are taken as they are asked for.

What one process lays down as the label `run` of its flow run, its parent reads there. A parent that begins
again finds what it started: training that still goes on is waited for, training that is done isn't repeated.
"""

import time
from collections.abc import Callable
from typing import TypeVar, cast
from uuid import UUID

import httpx
from prefect import runtime, task
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
)
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments import run_deployment
from prefect.states import Cancelling

from curriculum.pipeline.execute import Perform, Step, TrainStep
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from flows import settings, tasks
from flows.artifacts import Log
from flows.parameters import Changes
from schemas.errors import JobError, JobKilledError
from schemas.progress import ignore_progress

Result = TypeVar("Result")
TRAIN, RUN = "train", "run"
POLL_S = 1.0


def here() -> bool:
    """Return True in a flow run of a deployment, where there are pools."""
    return runtime.deployment.id is not None


def leave(plan: RunPlan, run: Artefact) -> None:
    """Let the parent know which run this flow run came to."""
    if not here():
        return
    with get_client(sync_client=True) as client:
        path = run.path.relative_to(plan.store.root).as_posix()
        client.update_flow_run_labels(_me(), {RUN: path})


def perform_or_dispatch(changes: Changes) -> Perform:
    """Return the Perform of a curriculum, which trains in the gpu pool where there is one."""
    if not here():
        return tasks.perform

    def perform(step: Step[Result], /) -> Result:
        if isinstance(step, TrainStep):
            return cast("Result", dispatch_task(step.phase, step, changes))
        return tasks.perform(step)

    return perform


@task(name="train", task_run_name="train {phase}", **tasks.RETRIED)
def dispatch_task(phase: str, step: TrainStep, changes: Changes) -> Artefact:
    """Train a phase as a flow run of the gpu pool; a run that crashes there is started again.

    A phase that is trained already waits for no slot.
    """
    run = step.finished(tasks.flow_context(ignore_progress))
    if run is None:
        run = _trained_there(step.plan, phase, changes, again=step.retrain)
    tasks.show_run(step, run)
    return run


def _trained_there(plan: RunPlan, phase: str, changes: Changes, *, again: bool) -> Artefact:
    try:
        child = _child(plan, phase, changes, again=again)
        return _run_of(plan, phase, _ended(child.id, Log().info))
    except BaseException:
        cancel_with_us()
        raise


def cancel_with_us() -> None:
    """Cancel the training that this flow run waits for, if it is being cancelled itself.

    One that crashes lets it go on: it is found again by a retry.
    """
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(_me()).state
        if state is None or not (state.is_cancelling() or state.is_cancelled()):
            return
        for child in _children(client):
            if child.state is None or not child.state.is_final():
                message = "The run that asked for it was cancelled."
                client.set_flow_run_state(child.id, Cancelling(message=message))


def _child(plan: RunPlan, phase: str, changes: Changes, *, again: bool) -> FlowRun:
    """The flow run that trains a phase for this one: what was started before, unless it broke down."""
    with get_client(sync_client=True) as client:
        before = [each for each in _children(client) if each.parameters.get("phase") == phase]
    if before and _is_good(before[-1]):
        Log().info(f"{phase} is trained by {before[-1].name}, which was started before")
        return before[-1]
    specialist = plan.config.specialist
    started = run_deployment(
        settings.deployment(TRAIN),
        parameters={
            "specialist": specialist,
            "phase": phase,
            "again": again,
            "changes": changes.model_dump(mode="json", exclude_defaults=True),
        },
        flow_run_name=f"{TRAIN} {specialist} {phase}",
        # An answer that got lost on its way doesn't start a second one.
        idempotency_key=f"{_me()}-{phase}-{len(before)}",
        timeout=0,
    )
    assert isinstance(started, FlowRun), "called inside an event loop"
    return started


def _is_good(child: FlowRun) -> bool:
    """Return True for a flow run that is done or goes on."""
    return child.state is None or not child.state.is_final() or child.state.is_completed()


def _children(client: SyncPrefectClient) -> list[FlowRun]:
    """The trainings that this flow run asked for, in their order."""
    return client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[TRAIN])),
        flow_run_filter=FlowRunFilter(
            parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[_me()])
        ),
        sort=FlowRunSort.EXPECTED_START_TIME_ASC,
    )


def _ended(child: UUID, tell: Callable[[str], None]) -> FlowRun:
    """A flow run when it has ended; a server that is away for a while is waited for."""
    told = ""
    with get_client(sync_client=True) as client:
        while True:
            try:
                run = client.read_flow_run(child)
                word = (run.state and run.state.name) or "Scheduled"
                if run.state and run.state.is_final():
                    return run
            except (httpx.TransportError, httpx.HTTPStatusError) as away:
                if isinstance(away, httpx.HTTPStatusError) and not away.response.is_server_error:
                    raise
                word = "unknown: the server doesn't answer"
            if word != told:
                told = word
                tell(f"{TRAIN} is {word}")
            time.sleep(POLL_S)


def _run_of(plan: RunPlan, phase: str, ended: FlowRun) -> Artefact:
    """Return the run that a flow run left at its end.

    Raises:
        JobKilledError: for one that crashed.
        JobError: for one that failed or was cancelled.
    """
    assert ended.state
    if ended.state.is_completed():
        return plan.store.load(plan.store.root / str(ended.labels[RUN]))
    kind = JobKilledError if ended.state.is_crashed() else JobError
    raise kind(
        f"phase {phase}",
        ended.state.name,
        cause=(ended.state.message or f"its flow run is {ended.name}").rstrip("."),
        cure="Retry goes on from its last checkpoint",
    )


def _me() -> UUID:
    return UUID(runtime.flow_run.id)
