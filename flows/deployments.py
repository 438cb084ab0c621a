"""Work pools, deployments and automations of a server; flows/prefect.yaml lists the deployments.

`python -m flows.deployments [--shared] [--idle cpu gpu]` makes or renews them, and prints how their names
end. Prefect reads its settings when it is imported, so it is a process of its own. Each deployment is loaded
by its module's path.
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
"""Variables of a run's process, which no run, deployment or form gives."""
SIMPLE_VERSION = "prefect:simple"
"""Kind of a deployment's version that says nothing of a repository."""
OWN_DIGITS = 4
"""Digits of a workspace's uuid, where another workspace of that name was first."""
HEARTBEAT = "prefect.flow-run.heartbeat"
SILENCE = timedelta(seconds=90)
"""Three heartbeats that didn't come."""
START = timedelta(minutes=10)
"""Until a flow's process is up, even on a machine that is busy."""
_LEFT = ("Completed", "Failed", "Crashed", "Cancelled", "Cancelling")
_WAITING = ("Paused", "Suspended", "Scheduled", "AwaitingRetry", "Resuming", "Late")
"""States in which nobody works on a run."""
MESSAGE = (
    "Its worker ended, and the run with it: the machine, or curriculum serve, was stopped. "
    "Retry resumes from the last checkpoint."
)
"""Message of a crash, shown on the run's page."""


def deploy(*, shared: bool, idle: tuple[str, ...] = ()) -> str:
    """Make pools, deployments and automations, or renew what is there; the answer ends their names.

    On a database of the workspace's own it is empty. On a shared one it is the workspace's name, and
    where another workspace holds that name there, some digits of its own. `idle` are the kinds of pools
    whose workers don't run: what they left behind is brought to an end.
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
    """A deployment of flows/prefect.yaml, for one workspace."""

    name: str
    entrypoint: str
    pool: str
    tags: tuple[str, ...]


def job_template() -> dict[str, Any]:
    """The base job template of our pools: the command of a run's process is fixed, and uses this very Python.

    Its environment is the worker's, which names the workspace. Prefect's own template lets whoever creates a
    run or a deployment give it a command, an environment and a working directory. No `env` is fixed here:
    Prefect would merge a caller's into it.
    """
    template = ProcessWorker.get_default_base_job_template()
    command = f"{shlex.quote(sys.executable)} -P -m {FLOW_PROCESS}"
    fixed = template["job_configuration"] | {"command": command}
    variables = template["variables"]
    given = {name: each for name, each in variables["properties"].items() if name not in FIXED}
    return {
        "job_configuration": {
            name: each for name, each in fixed.items() if name not in FIXED - {"command"}
        },
        "variables": variables | {"properties": given},
    }


def declared_deployments(suffix: str) -> list[Declared]:
    """The deployments of flows/prefect.yaml, with the end of a workspace's names."""
    return [
        Declared(
            name=f"{each['name']}{suffix}",
            entrypoint=each["entrypoint"],
            pool=f"{each['work_pool']['name']}{suffix}",
            tags=tuple(f"{tag}{suffix}" for tag in each["tags"]),
        )
        for each in yaml.safe_load(DECLARED.read_text())["deployments"]
    ]


def _claim(client: SyncPrefectClient, workspace: WorkspaceFile) -> str:
    """Return the end of this workspace's names: who makes the pool first has the short one."""
    name = re.sub(r"[^A-Za-z0-9._]+", "-", workspace.name).strip("-") or "workspace"
    ends = (f"-{name}", f"-{name}-{workspace.uuid[:OWN_DIGITS]}", f"-{name}-{workspace.uuid}")
    return next(end for end in ends if _own(client, f"{settings.CPU}{end}", workspace))


def _own(client: SyncPrefectClient, pool: str, workspace: WorkspaceFile) -> bool:
    """Make a pool unless one has its name; return whether that one is this workspace's."""
    description = f"Workspace {workspace.name}, {workspace.uuid}"
    try:
        client.create_work_pool(WorkPoolCreate(name=pool, type="process", description=description))
    except ObjectAlreadyExists:
        return client.read_work_pool(pool).description == description
    return True


def _apply(client: SyncPrefectClient, declared: Declared) -> None:
    """Make or renew a deployment; schedules and defaults that people gave it stay."""
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
        # Without a version Prefect asks git about the folders above this one, whoever put a repository there,
        # and tells the server the url, with a password in it.
        wanted.apply(version_info=VersionInfo(type=SIMPLE_VERSION, version=wanted.version or ""))
        return
    ours = {"description", "entrypoint", "tags", "work_pool_name", "job_variables"}
    renewed = wanted.model_dump(include=ours)
    form = wanted._parameter_openapi_schema.model_dump(exclude_unset=True)
    client.update_deployment(
        known.id, DeploymentUpdate(**renewed, parameter_openapi_schema=form, pull_steps=[])
    )


def renew_automations(client: SyncPrefectClient, suffix: str) -> None:
    """Make the automations, or bring what is there up to date.

    What is the same stays as it is: a change would forget which runs are waited for. On a shared database
    they look at this workspace's runs only.
    """
    silent = _automation(
        f"Crashed when its heartbeat stops{suffix}",
        suffix,
        after=HEARTBEAT,
        expect=(HEARTBEAT, ENDED, *(_event(each) for each in (*_LEFT, *_WAITING))),
        within=SILENCE,
        message=f"No heartbeat for {SILENCE.seconds} s: its process or its machine is gone. "
        "Retry resumes from the last checkpoint.",
    )
    stuck = _automation(
        f"Crashed when it doesn't start{suffix}",
        suffix,
        after=_event("Pending"),
        expect=(HEARTBEAT, ENDED, *(_event(each) for each in ("Running", *_LEFT, *_WAITING))),
        within=START,
        message=f"Taken by a worker, and not started within {START.seconds // 60} minutes: the worker is "
        "gone. Retry.",
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
