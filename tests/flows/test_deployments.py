"""Deployments are the same by `serve` and by hand, and users' changes persist."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prefect._internal.versioning import get_inferred_version_info
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.schedules import SCHEDULE_TYPES, CronSchedule
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelling, Pending, Running

from flows import deployments, settings
from flows.build import build
from flows.deployments import DECLARED, deploy

pytestmark = [pytest.mark.usefixtures("prefect_server"), pytest.mark.timeout(1200)]
ROOT = DECLARED.parents[1]
NAMES = ("ablate", "build", "mix", "run", "train")
SAME = (
    *("name", "entrypoint", "tags", "work_pool_name", "description", "pull_steps"),
    *("parameter_openapi_schema", "enforce_parameter_schema", "parameters", "concurrency_limit"),
)


def _read_deployments(client: SyncPrefectClient) -> list[dict[str, Any]]:
    found = [client.read_deployment_by_name(f"{name}/{name}") for name in NAMES]
    return [each.model_dump(include={*SAME, "job_variables"}) for each in found]


@pytest.mark.system
def test_prefect_deploys_by_hand_what_serve_deploys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_HOME", str(tmp_path))
    monkeypatch.delenv("CURRICULUM_SUFFIX", raising=False)
    deploy(shared=False)
    with get_client(sync_client=True) as client:
        ours = _read_deployments(client)
        for name in NAMES:
            client.delete_deployment(client.read_deployment_by_name(f"{name}/{name}").id)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"),
                *("--prefect-file", str(DECLARED)),
            ],
            cwd=ROOT,
            env=settings.environment({"PREFECT_API_URL": str(PREFECT_API_URL.value())}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        theirs = _read_deployments(client)
    for our, their in zip(ours, theirs, strict=True):
        assert {name: our[name] for name in SAME} == {name: their[name] for name in SAME}
        assert our["job_variables"] == {}, "the template of our pools fixes them"
        assert their["job_variables"] == {
            "command": "python -m flows.flow_process",
            "env": {"CURRICULUM_HOME": str(tmp_path)},
        }


def test_new_deployments_ask_git_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git would look for a repository in each folder above, and the server would be told its url."""
    program, asked = tmp_path / "bin" / "git", tmp_path / "asked"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >> {asked}\necho https://user:token@host/dotfiles\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CURRICULUM_HOME", str(tmp_path / "home"))
    with get_client(sync_client=True) as client:
        for deployment in client.read_deployments():
            client.delete_deployment(deployment.id)
        deploy(shared=False)
        made = client.read_deployment_by_name("build/build")
    assert not asked.exists()
    assert "dotfiles" not in made.model_dump_json()
    asyncio.run(get_inferred_version_info())
    assert asked.read_text(), "the control"


def test_schedules_and_defaults_that_people_gave_outlive_a_new_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_HOME", str(tmp_path))
    deploy(shared=False)
    nightly: list[tuple[SCHEDULE_TYPES, bool]] = [
        (CronSchedule(cron="0 2 * * *", timezone="UTC"), True)
    ]
    with get_client(sync_client=True) as client:
        before = client.read_deployment_by_name("build/build")
        client.create_deployment_schedules(before.id, nightly)
        deploy(shared=False)
        after = client.read_deployment_by_name("build/build")
    assert after.id == before.id
    assert [each.schedule for each in after.schedules] == [nightly[0][0]]


def test_what_a_dead_worker_left_behind_is_brought_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_HOME", str(tmp_path))
    deploy(shared=False)
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("build/build").id

        def run_with_states(*states: State[Any]) -> FlowRun:
            run = client.create_flow_run_from_deployment(
                deployment, parameters={"specialist": "templates.demo"}
            )
            for state in states:
                client.set_flow_run_state(run.id, state, force=True)
            return run

        runs = [
            run_with_states(),
            run_with_states(Pending()),
            run_with_states(Running()),
            run_with_states(Running(), Cancelling()),
        ]
        runs.append(client.create_flow_run(build, parameters={"specialist": "templates.demo"}))
        client.set_flow_run_state(runs[-1].id, Running(), force=True)
        deployments.end_abandoned_runs(client, ["gpu"])
        deployments.end_abandoned_runs(client, [])
        assert [client.read_flow_run(run.id).state_type for run in runs[1:3]] == [
            *(StateType.PENDING, StateType.RUNNING)
        ]
        deployments.end_abandoned_runs(client, ["cpu"])
        assert [client.read_flow_run(run.id).state_type for run in runs] == [
            *(StateType.SCHEDULED, StateType.SCHEDULED, StateType.CRASHED, StateType.CANCELLED),
            StateType.RUNNING,
        ], "the last has no worker: it runs in somebody's terminal"
        for run in runs:
            client.delete_flow_run(run.id)
