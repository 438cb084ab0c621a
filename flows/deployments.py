"""The deployments of a server: one a flow, loaded by module path so that no folder shadows a package.

`python -m flows.deployments [--shared]` makes or renews them, and prints how their names end.
"""

import re
import sys

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectAlreadyExists
from prefect.types.entrypoint import EntrypointType

from curriculum.store import Store
from curriculum.store.store import WorkspaceFile
from flows import settings
from flows.build import build
from flows.mix import mix
from flows.run import run
from flows.train import train

FLOWS = ((run, settings.CPU), (build, settings.CPU), (mix, settings.CPU), (train, settings.GPU))
"""Each flow with its pool: parents and builds share a machine's cores, training takes a slot."""
OWN_DIGITS = 4
"""Of a workspace's uuid, where another workspace of that name was first."""


def deploy(*, shared: bool) -> str:
    """Make pools and deployments, or bring what is there up to date; the answer ends their names.

    On a database of the workspace's own it is empty. On a shared one it is the workspace's name, and
    where another workspace holds that name there, some digits of its own.
    """
    home = settings.home()
    store = Store(home)
    store.open()
    workspace = store.workspace()
    with get_client(sync_client=True) as client:
        suffix = _claim(client, workspace) if shared else ""
        for kind in (settings.CPU, settings.GPU):
            _own(client, f"{kind}{suffix}", workspace)
    for flow, kind in FLOWS:
        RunnerDeployment.from_flow(
            flow,
            name=f"{flow.name}{suffix}",
            work_pool_name=f"{kind}{suffix}",
            tags=[f"curriculum{suffix}"],
            job_variables={"env": settings.deployed(home, suffix)},
            entrypoint_type=EntrypointType.MODULE_PATH,
        ).apply()
    return suffix


def _claim(client: SyncPrefectClient, workspace: WorkspaceFile) -> str:
    """The end of this workspace's names: who makes the pool first has the short one."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", workspace.name)
    ends = (f"-{name}", f"-{name}-{workspace.uuid[:OWN_DIGITS]}", f"-{name}-{workspace.uuid}")
    return next(end for end in ends if _own(client, f"{settings.CPU}{end}", workspace))


def _own(client: SyncPrefectClient, pool: str, workspace: WorkspaceFile) -> bool:
    """Make a pool if there is none of the name; whether the one that is there is this workspace's."""
    description = f"Workspace {workspace.name}, {workspace.uuid}"
    try:
        client.create_work_pool(WorkPoolCreate(name=pool, type="process", description=description))
    except ObjectAlreadyExists:
        return client.read_work_pool(pool).description == description
    return True


if __name__ == "__main__":
    sys.stdout.write(f"{deploy(shared='--shared' in sys.argv[1:])}\n")
