"""Several workspaces on one server: whose deployments, pools and runs are whose."""

import sys
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client

from curriculum.store import Store
from flows import settings
from flows.deployments import declared_deployments, deploy, job_template

KINDS = ("cpu", "gpu")


@pytest.fixture
def homes(tmp_path: Path, prefect_server: None, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two workspaces of one name."""
    monkeypatch.setenv("CURRICULUM_HOME", "replaced by each")
    return [tmp_path / "one" / "twins", tmp_path / "two" / "twins"]


@pytest.mark.system
def test_two_workspaces_of_one_name_have_their_own_deployments(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = []
    for home in (*homes, *homes):
        monkeypatch.setenv("CURRICULUM_HOME", str(home))
        ends.append(deploy(shared=True))
    assert ends[:2] == ends[2:], "a workspace keeps its names"
    assert ends[0] == "-twins"
    assert ends[1] == f"-twins-{Store(homes[1]).workspace().uuid[:4]}"
    with get_client(sync_client=True) as client:
        made = {each.name: each for each in client.read_deployments()}
        pools = {each.name for each in client.read_work_pools()}
    for end in ends[:2]:
        assert {f"{kind}{end}" for kind in KINDS} <= pools
        for flow in ("run", "build", "mix", "train", "ablate"):
            deployment = made[f"{flow}{end}"]
            assert deployment.job_variables == {}, "their workers name the workspace"
            assert deployment.work_pool_name in {f"{kind}{end}" for kind in KINDS}
            assert deployment.tags == [f"curriculum{end}"]


def test_automations_of_a_workspace_look_at_its_own_runs(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_HOME", str(homes[0]))
    end = deploy(shared=True)
    with get_client(sync_client=True) as client:
        made = client.read_automations()
        ours = [each for each in made if each.name.endswith(end)]
        deploy(shared=True)
        again = client.read_automations()
    assert len(ours) == 2
    for each in ours:
        related = each.trigger.model_dump()["match_related"]
        assert related == {"prefect.resource.id": f"prefect.tag.curriculum{end}"}
    assert [each.model_dump() for each in made] == [each.model_dump() for each in again]


def test_a_name_that_no_url_likes_is_made_one_that_it_does(
    tmp_path: Path, prefect_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_HOME", str(tmp_path / "Ännes work & play"))
    assert deploy(shared=True) == "-nnes-work-play"


def test_a_flow_finds_the_deployment_of_its_own_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURRICULUM_SUFFIX", "-twins")
    assert settings.deployment("train") == "train/train-twins"
    assert settings.tag() == "curriculum-twins"
    monkeypatch.delenv("CURRICULUM_SUFFIX")
    assert settings.deployment("train") == "train/train"


@pytest.mark.parametrize("name", ["PREFECT_API_URL", "PREFECT_API_DATABASE_CONNECTION_URL"])
def test_a_server_or_database_that_is_given_is_shared(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("API_URL", "API_DATABASE_CONNECTION_URL", "SERVER_DATABASE_CONNECTION_URL"):
        monkeypatch.delenv(f"PREFECT_{each}", raising=False)
    assert not settings.is_shared()
    monkeypatch.setenv(name, "there")
    assert settings.is_shared()


def test_declared_deployments_run_in_this_python() -> None:
    declared = declared_deployments("-x")
    assert [(each.name, each.pool) for each in declared] == [
        *(("run-x", "cpu-x"), ("build-x", "cpu-x"), ("mix-x", "cpu-x")),
        *(("ablate-x", "cpu-x"), ("train-x", "gpu-x")),
    ]
    command = job_template()["job_configuration"]["command"]
    assert command == f"{sys.executable} -P -m flows.flow_process"
