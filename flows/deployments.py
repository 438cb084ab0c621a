"""The deployments of a server: one a flow, loaded by module path so that no folder shadows a package."""

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectAlreadyExists
from prefect.types.entrypoint import EntrypointType

from flows.build import build
from flows.mix import mix
from flows.run import run
from flows.train import train

FLOWS = (run, build, mix, train)


def deploy(pool: str) -> None:
    """Make the work pool and a deployment for each flow, or bring what is there up to date."""
    with get_client(sync_client=True) as client:
        try:
            client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
        except ObjectAlreadyExists:
            client.read_work_pool(pool)
    for flow in FLOWS:
        RunnerDeployment.from_flow(
            flow, name=flow.name, work_pool_name=pool, entrypoint_type=EntrypointType.MODULE_PATH
        ).apply()
