"""Work pools, deployments and automations of a Prefect server; flows/prefect.yaml lists the deployments.

`python -m flows.deployments [--shared] [--idle cpu gpu]` creates or updates them, and prints the suffix of
the names of the deployments. The command runs in a process of its own, because Prefect reads its settings
when it is imported. Deployments load their flows by module path.
"""

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from prefect.automations import EventTrigger, Posture
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentUpdate, WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import State, StateType, VersionInfo
from prefect.deployments.runner import RunnerDeployment
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.flows import Flow
from prefect.states import Cancelled, Crashed, Scheduled
from prefect.types.entrypoint import EntrypointType
from prefect.utilities.importtools import import_object
from prefect.workers.process import ProcessWorker

from curriculum.store import Store
from curriculum.store.store import WorkspaceFile
from flows import settings
from flows.flow_process import ENDED

DECLARED = Path(__file__).with_name("prefect.yaml")
FLOW_PROCESS = "flows.flow_process"
FIXED = {"command", "env", "working_dir"}
"""Variables of a run's process that no run, deployment or form may set."""
SIMPLE_VERSION = "prefect:simple"
"""Type of the version of a deployment that says nothing about a git repository."""
OWN_DIGITS = 4
"""Number of digits of a workspace's uuid in its suffix, if another workspace has the same name."""
HEARTBEAT = "prefect.flow-run.heartbeat"
SILENCE = timedelta(seconds=90)
"""Time without heartbeats after which a run counts as crashed: three intervals."""
START = timedelta(minutes=10)
"""Time within which the process of a flow run should start, even on a busy machine."""
_LEFT = ("Completed", "Failed", "Crashed", "Cancelled", "Cancelling")
_WAITING = ("Paused", "Suspended", "Scheduled", "AwaitingRetry", "Resuming", "Late")
"""States in which no process works on a run."""
MESSAGE = (
    "The run ended with its worker, because the machine or curriculum serve was stopped. Retry "
    "resumes from the last checkpoint."
)
"""Message on the page of a run that was marked as crashed."""


def deploy(*, shared: bool, idle: tuple[str, ...] = ()) -> str:
    """Create or update pools, deployments and automations; return the suffix of their names.

    Args:
        shared: True if other workspaces use the same Prefect database. The suffix is then the workspace's
            name, followed by digits of its uuid if another workspace has the same name. Otherwise it is
            empty.
        idle: Kinds of pools whose worker isn't running. Abandoned runs of these pools are ended.
    """
    store = Store(settings.home())
    store.open()
    workspace = store.workspace()
    with get_client(sync_client=True) as client:
        suffix = _claim(client, workspace) if shared else ""
        for kind in (settings.CPU, settings.GPU):
            _own(client, f"{kind}{suffix}", workspace)
            client.update_work_pool(
                f"{kind}{suffix}", WorkPoolUpdate(base_job_template=job_template())
            )
        for declared in declared_deployments(suffix):
            _apply(client, declared)
        renew_automations(client, suffix)
        for kind in idle:
            client.update_work_pool(f"{kind}{suffix}", WorkPoolUpdate(is_paused=False))
        if not shared:
            end_abandoned_runs(client, [f"{kind}{suffix}" for kind in idle])
    return suffix


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """Deployment from flows/prefect.yaml, with the names that it has for one workspace."""

    name: str
    entrypoint: str
    pool: str
    tags: tuple[str, ...]


def job_template() -> dict[str, Any]:
    """Return the base job template of our pools, whose command is fixed.

    Prefect's own template lets anyone who creates a run or a deployment set its command, environment and
    working directory. Our template runs this Python in the environment of the worker, which names the
    workspace. The template has no `env`, because Prefect would merge a caller's `env` into it.
    """
    template = ProcessWorker.get_default_base_job_template()
    command = f"{shlex.quote(sys.executable)} -P -m {FLOW_PROCESS}"
    fixed = template["job_configuration"] | {"command": command}
    variables = template["variables"]
    given = {name: value for name, value in variables["properties"].items() if name not in FIXED}
    return {
        "job_configuration": {
            name: value for name, value in fixed.items() if name not in FIXED - {"command"}
        },
        "variables": variables | {"properties": given},
    }


def declared_deployments(suffix: str) -> list[Declared]:
    """Return the deployments of flows/prefect.yaml, with `suffix` appended to their names."""
    return [
        Declared(
            name=f"{declared['name']}{suffix}",
            entrypoint=declared["entrypoint"],
            pool=f"{declared['work_pool']['name']}{suffix}",
            tags=tuple(f"{tag}{suffix}" for tag in declared["tags"]),
        )
        for declared in yaml.safe_load(DECLARED.read_text())["deployments"]
    ]


def _claim(client: SyncPrefectClient, workspace: WorkspaceFile) -> str:
    """Reserve a suffix for this workspace by creating its pool, and return the suffix.

    The suffix is the workspace's name, with digits of its uuid only if another workspace has that name
    already.
    """
    name = re.sub(r"[^A-Za-z0-9._]+", "-", workspace.name).strip("-") or "workspace"
    ends = (f"-{name}", f"-{name}-{workspace.uuid[:OWN_DIGITS]}", f"-{name}-{workspace.uuid}")
    return next(end for end in ends if _own(client, f"{settings.CPU}{end}", workspace))


def _own(client: SyncPrefectClient, pool: str, workspace: WorkspaceFile) -> bool:
    """Create a work pool unless it exists; return True if the pool belongs to this workspace."""
    description = f"Workspace {workspace.name}, {workspace.uuid}"
    try:
        client.create_work_pool(WorkPoolCreate(name=pool, type="process", description=description))
    except ObjectAlreadyExists:
        return client.read_work_pool(pool).description == description
    return True


def _apply(client: SyncPrefectClient, declared: Declared) -> None:
    """Create or update a deployment, but keep schedules and defaults that users set."""
    flow: Flow[..., Any] = import_object(declared.entrypoint)
    wanted = RunnerDeployment.from_flow(
        flow,
        name=declared.name,
        tags=[*declared.tags],
        work_pool_name=declared.pool,
        job_variables={},
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    try:
        known = client.read_deployment_by_name(f"{flow.name}/{wanted.name}")
    except ObjectNotFound:
        # Without a version Prefect would run git in the parent folders of this file, where anyone may have
        # planted a repository, and send the remote's URL to the server, including a password in it.
        wanted.apply(version_info=VersionInfo(type=SIMPLE_VERSION, version=wanted.version or ""))
        return
    ours = {"description", "entrypoint", "tags", "work_pool_name", "job_variables"}
    renewed = wanted.model_dump(include=ours)
    form = wanted._parameter_openapi_schema.model_dump(exclude_unset=True)
    client.update_deployment(
        known.id, DeploymentUpdate(**renewed, parameter_openapi_schema=form, pull_steps=[])
    )


def renew_automations(client: SyncPrefectClient, suffix: str) -> None:
    """Create or update the automations.

    Unchanged automations are not updated, because an update would reset triggers that are waiting for their
    timeout. On a shared database the automations match only runs of this workspace.
    """
    silent = _automation(
        f"Crashed when its heartbeat stops{suffix}",
        suffix,
        after=HEARTBEAT,
        expect=(HEARTBEAT, ENDED, *(_event(state) for state in (*_LEFT, *_WAITING))),
        within=SILENCE,
        message=f"No heartbeat for {SILENCE.seconds} s: the process was killed or its machine is "
        "down. Retry resumes from the last checkpoint.",
    )
    stuck = _automation(
        f"Crashed when it doesn't start{suffix}",
        suffix,
        after=_event("Pending"),
        expect=(HEARTBEAT, ENDED, *(_event(state) for state in ("Running", *_LEFT, *_WAITING))),
        within=START,
        message=f"A worker accepted the run but didn't start it within {START.seconds // 60} "
        "minutes; the worker was killed. Retry starts the run again.",
    )
    for automation in (silent, stuck):
        known = client.read_automations_by_name(automation.name)
        if not known:
            client.create_automation(automation)
        elif AutomationCore(**known[0].model_dump(exclude={"id"})) != automation:
            client.update_automation(known[0].id, automation)


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


def end_abandoned_runs(client: SyncPrefectClient, pools: Sequence[str]) -> None:
    """End the flow runs that a dead worker left behind in `pools`.

    Running flow runs become Crashed and cancelling ones Cancelled. Flow runs that had not started yet are
    scheduled again.
    """
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
        assert run.state
        state: State[None] = Crashed(message=MESSAGE)
        if run.state.type == StateType.PENDING:
            state = Scheduled(scheduled_time=run.expected_start_time)
        elif run.state.type == StateType.CANCELLING:
            state = Cancelled()
        client.set_flow_run_state(run.id, state, force=True)


def main() -> None:
    """Run the module's command."""
    arguments = argparse.ArgumentParser(prog="flows.deployments")
    arguments.add_argument("--shared", action="store_true")
    arguments.add_argument("--idle", nargs="*", default=[])
    given = arguments.parse_args()
    sys.stdout.write(f"{deploy(shared=given.shared, idle=tuple(given.idle))}\n")


if __name__ == "__main__":
    main()
