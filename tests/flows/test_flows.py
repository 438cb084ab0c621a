"""The flows: order, gate, skipping and what they show; the doors are stood in for, but for one build."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State

from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.execute import outcome
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.store import Artefact, Store
from flows import artifacts
from flows.build import build
from flows.parameters import ALL_PHASES, Changes
from flows.run import run
from flows.train import train
from schemas.errors import DietError
from schemas.progress import Progress
from tests.flows.cli_runner import curriculum
from tests.flows.stand_ins import Doors, finished, report

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Doors:
    """The flows with doors that do nothing, in a workspace of their own."""
    stand_ins = Doors()
    stand_ins.stand_in(monkeypatch, tmp_path)
    return stand_ins


def _plan(tmp_path: Path, specialist: str = "templates.demo") -> RunPlan:
    return resolve_plan(RunConfig.of(specialist=specialist, workspace=tmp_path), dry=True)


def test_a_run_goes_through_the_phases_in_order(stand_ins: Doors) -> None:
    runs = run(specialist="templates.demo")
    assert stand_ins.opened == [
        *("build syntax", "mix syntax", "train syntax"),
        *("build file_graph", "mix file_graph", "train file_graph"),
        *("build repository_graph", "mix repository_graph", "train repository_graph"),
        *("build structure", "mix structure", "train structure"),
        *("build anneal", "mix anneal", "train anneal"),
    ]
    assert len(runs) == 5
    assert stand_ins.anew == [False] * 5


def test_one_phase_is_trained_anew_and_nothing_else(stand_ins: Doors) -> None:
    run(specialist="templates.demo", phase="file_graph")
    assert stand_ins.opened == ["build file_graph", "mix file_graph", "train file_graph"]
    assert stand_ins.anew == [True]


def test_the_train_flow_never_begins_a_finished_phase_anew(stand_ins: Doors) -> None:
    train(specialist="templates.demo", phase="file_graph")
    assert stand_ins.anew == [False]


def test_a_cancelled_phase_ends_the_walk(stand_ins: Doors) -> None:
    stand_ins.stops["syntax"] = "cancelled"
    assert len(run(specialist="templates.demo")) == 1
    assert stand_ins.opened[-1] == "train syntax"


def test_a_failed_phase_fails_the_run(stand_ins: Doors) -> None:
    stand_ins.stops["syntax"] = "failed"
    state: State[Any] = run(specialist="templates.demo", return_state=True)
    assert state.is_failed()
    assert "JobError" in str(state.message)


def test_what_may_pass_is_tried_again(stand_ins: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins.failures = [OSError("the disk hiccuped")]
    monkeypatch.setattr("flows.tasks.build_task.retry_delay_seconds", 0)
    build(specialist="templates.demo", phase="syntax")
    assert stand_ins.opened == ["build syntax", "build syntax"]


def test_a_mistake_is_not_tried_again(stand_ins: Doors) -> None:
    stand_ins.failures = [DietError("here", cause="so", cure="otherwise")]
    with pytest.raises(DietError):
        build(specialist="templates.demo", phase="syntax")
    assert stand_ins.opened == ["build syntax"]


def test_progress_reaches_the_onlooker_and_the_page(stand_ins: Doors) -> None:
    seen: list[Progress] = []
    token = artifacts.onlooker.set(seen.append)
    try:
        state: State[Any] = build(specialist="templates.demo", phase="syntax", return_state=True)
    finally:
        artifacts.onlooker.reset(token)
    assert [each.done for each in seen] == [0, 2]
    with get_client(sync_client=True) as client:
        response = client.request(
            "POST",
            "/artifacts/filter",
            json={"flow_runs": {"id": {"any_": [str(state.state_details.flow_run_id)]}}},
        )
    assert [(each["key"], each["data"]) for each in response.json()] == [("rows", 100.0)]


class TestOutcome:
    """What a walk says at its end."""

    def _runs(self, tmp_path: Path, *, made: bool, phase: str = "syntax") -> list[Artefact]:
        return [replace(finished(Store(tmp_path / "runs"), report(phase=phase)), made=made)]

    def test_nothing_to_do_is_said(self, tmp_path: Path) -> None:
        said = outcome(_plan(tmp_path), ALL_PHASES, self._runs(tmp_path, made=False))
        assert said == "Nothing to do: everything is up to date."

    def test_what_lies_downstream_of_a_rerun_is_named(self, tmp_path: Path) -> None:
        said = outcome(_plan(tmp_path), "syntax", self._runs(tmp_path, made=True))
        assert "stale: file_graph, repository_graph, structure, anneal" in said

    def test_the_last_phase_has_nothing_downstream(self, tmp_path: Path) -> None:
        said = outcome(_plan(tmp_path), "anneal", self._runs(tmp_path, made=True, phase="anneal"))
        assert "stale" not in said


@pytest.mark.system
def test_what_the_flow_builds_is_what_the_command_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"max_commits": 4, "versions_per_path": 1, "workers": 1}
    monkeypatch.setenv("CURRICULUM_HOME", str(tmp_path / "flow"))
    build(specialist="templates.demo", phase="syntax", changes=Changes(**changes))
    words = [
        "--phase",
        "syntax",
        "--max-commits",
        "4",
        "--versions-per-path",
        "1",
        "--workers",
        "1",
    ]
    done = curriculum("build", "templates.demo", *words, home=tmp_path / "command")
    assert done.returncode == 0, done.stderr
    contents = [
        sorted((each.key, each.content) for each in Store(tmp_path / home).artefacts())
        for home in ("flow", "command")
    ]
    assert contents[0] == contents[1]
    assert len(contents[0]) > 10
