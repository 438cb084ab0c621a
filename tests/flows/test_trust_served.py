"""A server runs the command that a workspace's diet names only once its user trusts the workspace."""

import contextlib
import shlex
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import SCHEDULE_TYPES, IntervalSchedule

from curriculum.store import Store
from flows import settings
from flows.settings import trust
from tests.flows.serving import Served, furnish, serving, wait_until
from tests.flows.test_in_line import DIET

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]
PARAMETERS: dict[str, Any] = {"specialist": "theirs", "phase": "first"}
ENDED = ("Failed", "Completed", "Crashed")


@pytest.fixture
def fired(tmp_path: Path) -> Path:
    """The file that the command makes where it runs."""
    return tmp_path / "fired"


@pytest.fixture
def served(tmp_path: Path, fired: Path) -> Iterator[Served]:
    """A workspace that was received, whose diet names a command, with a server that schedules often."""
    home = tmp_path / "received"
    command = shlex.join(["touch", str(fired), "{job}.touched"])
    diet = DIET.format(specialist="testing", seed=1)
    furnish(home, tmp_path / "samples", theirs=f"{diet}trainer: {{command: {command!r}}}\n")
    Store(home).open()
    with serving(
        home,
        PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS="2",
        PREFECT_SERVER_SERVICES_SCHEDULER_MAX_RUNS="3",
    ) as served:
        yield served


def ask(served: Served, flow: str) -> UUID:
    """What pressing Run does."""
    with served.client() as client:
        asked = client.read_deployment_by_name(f"{flow}/{flow}")
        return client.create_flow_run_from_deployment(asked.id, parameters=PARAMETERS).id


@contextlib.contextmanager
def scheduled(served: Served) -> Iterator[None]:
    """Let the deployment `run` start by itself within the block, twice a minute."""
    often: list[tuple[SCHEDULE_TYPES, bool]] = [
        (IntervalSchedule(interval=timedelta(seconds=30)), True)
    ]
    with served.client() as client:
        asked = client.read_deployment_by_name("run/run").id
        (made,) = client.create_deployment_schedules(
            asked, often, max_scheduled_runs=2, parameters=PARAMETERS
        )
        yield
        client.delete_deployment_schedule(asked, made.id)


def of_schedule(served: Served) -> list[FlowRun]:
    """The runs of the schedule that have ended."""
    with served.client() as client:
        runs = client.read_flow_runs()
    return [each for each in runs if each.auto_scheduled and each.state_name in ENDED]


def test_a_server_runs_a_diets_command_only_once_its_workspace_is_trusted(
    served: Served, fired: Path, curriculum: str
) -> None:
    diet = served.home / "diets" / "theirs.yaml"
    asked = [ask(served, "run"), ask(served, "train")]
    with scheduled(served):
        wait_until(lambda: bool(of_schedule(served)))
    for each in asked:
        served.await_state(each, *ENDED)
    for run in (*map(served.run, asked), *of_schedule(served)):
        said = str(run.state and run.state.message)
        assert run.state_name == "Failed", said
        assert f"{diet}: trainer.command = " in said
        assert f"curriculum trust {shlex.quote(str(served.home))}" in said
    assert not fired.exists()
    assert not trust.is_trusted(served.home)

    done = subprocess.run(
        [curriculum, "trust", str(served.home)],
        env=settings.environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"touch {fired}" in done.stdout.replace("\n", "")
    again = ask(served, "run")
    served.await_state(again, *ENDED)
    assert fired.is_file(), served.run(again).state
