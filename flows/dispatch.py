"""Training as a separate flow run in the pool whose slots are GPUs; slots are granted in order of request.

The flow run of a whole curriculum is the parent; each phase that it trains is a child flow run. A parent that
is started again finds its earlier children by their idempotency keys: it waits for training that still runs
and doesn't repeat finished training. A child adds the path of its run artefact to its labels at the end.
"""

import itertools
import time
from collections.abc import Callable
from typing import TypeVar, cast
from uuid import UUID

import httpx
from prefect import runtime, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
)
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.states import Cancelling

from curriculum.mixing.diet_files import is_path
from curriculum.pipeline.execute import Perform, Step
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.status import trained_run
from curriculum.store import Artefact
from flows import settings, tasks
from flows.artifacts import Log, progress_of
from flows.final_states import as_prefect_state, result_of
from flows.forms import Changes
from flows.settings.contexts import resources
from schemas.errors import JobError, JobKilledError

Result = TypeVar("Result")
TRAIN = "train"
POLL_S = 1.0
PROGRESS_S = 5.0
"""Seconds between polls of the training's progress."""


def in_deployment() -> bool:
    """Return True in a flow run of a deployment; only such flow runs have work pools."""
    return runtime.deployment.id is not None


def perform_or_dispatch(changes: Changes) -> Perform:
    """Return the function that performs the steps of this flow run.

    In a flow run of a deployment, training steps become flow runs of the gpu pool. All other steps are tasks
    of this flow run.
    """
    if not in_deployment():
        return tasks.perform

    def perform(step: Step[Result], /) -> Result:
        if step.verb == "train":
            ended = dispatch_task(
                step.phase, cast("Step[Artefact]", step), changes, return_state=True
            )
            return cast("Result", result_of(ended))
        return tasks.perform(step)

    return perform


@task(name="train", task_run_name="train {phase}", **tasks.RETRIED)
@as_prefect_state
def dispatch_task(phase: str, step: Step[Artefact], changes: Changes) -> Artefact:
    """Train a phase as a flow run of the gpu pool, and start it again if it crashes.

    A phase that is already trained doesn't wait for a slot.
    """
    run = None if step.retrain else trained_run(step.plan, phase, resources())
    if run is None:
        try:
            child = _start(step.plan, phase, changes, again=step.retrain)
            run = _artefact_of(step.plan, phase, _await_end(child.id, Log().info))
        except BaseException:
            _cancel_children_if_cancelled()
            raise
    tasks.show_run(step, run)
    return run


def _start(plan: RunPlan, phase: str, changes: Changes, *, again: bool) -> FlowRun:
    """Start the flow run that trains a phase and return it.

    If an earlier attempt of this parent started the flow run already, return that flow run unless it failed.
    """
    specialist = plan.config.specialist
    parameters = {
        "specialist": specialist,
        "phase": phase,
        "again": again,
        "changes": changes.model_dump(mode="json", exclude_defaults=True),
    }
    for attempt in itertools.count():
        child = run_deployment(
            settings.deployment(TRAIN),
            parameters=parameters,
            flow_run_name=f"{TRAIN} {_short_name(plan)} {phase}",
            # For a known key Prefect starts nothing and returns the earlier flow run in its current state.
            idempotency_key=f"{_own_id()}-{plan.mark_of(TRAIN, phase)}-{attempt}",
            timeout=0,
        )
        assert isinstance(child, FlowRun), "called inside an event loop"
        if child.state is None or not child.state.is_final() or child.state.is_completed():
            return child
    raise AssertionError


def _short_name(plan: RunPlan) -> str:
    """Return the name of a plan's diet; for an ablation arm, return the branch, which is the arm's name."""
    specialist = plan.config.specialist
    return plan.diet.branch or specialist if is_path(specialist) else specialist


def _cancel_children_if_cancelled() -> None:
    """Cancel the unfinished child runs if this flow run is being cancelled.

    If this flow run crashes instead, its children keep running, and a retry of this flow run finds them
    again.
    """
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(_own_id()).state
        if state is None or not (state.is_cancelling() or state.is_cancelled()):
            return
        # Ask the server: an idempotency key would start a child that doesn't exist.
        children = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=[TRAIN])),
            flow_run_filter=FlowRunFilter(
                parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[_own_id()])
            ),
        )
        for child in children:
            if child.state is None or not child.state.is_final():
                message = "The parent flow run was cancelled."
                client.set_flow_run_state(child.id, Cancelling(message=message))


def _await_end(child: UUID, log: Callable[[str], None]) -> FlowRun:
    """Wait until the flow run `child` has ended and return it; log its states and progress meanwhile.

    This function tolerates a server that is unavailable for a while. Prefect's own function fails at the
    first request without an answer.
    """
    logged = progress = ""
    looked = time.monotonic()
    with get_client(sync_client=True) as client:
        while True:
            try:
                run = client.read_flow_run(child)
                state = (run.state and run.state.name) or "Scheduled"
                if run.state and run.state.is_final():
                    return run
                if time.monotonic() >= looked + PROGRESS_S:
                    looked, before, progress = (
                        time.monotonic(),
                        progress,
                        progress_of(client, child),
                    )
                    if progress not in ("", before):
                        log(progress)
            except (httpx.TransportError, httpx.HTTPStatusError) as away:
                if isinstance(away, httpx.HTTPStatusError) and not away.response.is_server_error:
                    raise
                state = "unknown: the server doesn't answer"
            if state != logged:
                logged = state
                log(f"{TRAIN} is {state}")
            time.sleep(POLL_S)


def _artefact_of(plan: RunPlan, phase: str, ended: FlowRun) -> Artefact:
    """Return the run artefact whose path a finished training flow run has in its labels.

    Raises:
        JobKilledError: if the flow run crashed.
        JobError: if it failed or was cancelled.
    """
    assert ended.state
    if ended.state.is_completed():
        return plan.store.load(plan.store.root / str(ended.labels[tasks.RUN]))
    kind = JobKilledError if ended.state.is_crashed() else JobError
    raise kind(
        f"phase {phase}",
        ended.state.name,
        cause=(ended.state.message or f"its training flow run ended as {ended.name}").rstrip("."),
        cure="Retry resumes from its last checkpoint",
    )


def _own_id() -> UUID:
    return UUID(runtime.flow_run.id)
