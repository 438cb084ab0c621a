"""Flows: order, gates, skipping and displays. Fake steps replace the pipeline's, except one build."""

import json
import logging
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.flow_engine import FlowRunEngine

from curriculum.pipeline.execute import NOTHING_TO_DO, Scope
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.status import outcome
from curriculum.store import Artefact, Store
from flows import artifacts, tasks
from flows.build import build
from flows.forms import ALL_PHASES, Changes
from flows.mix import mix
from flows.run import run, run_in_process
from flows.train import train
from schemas.errors import DietError
from schemas.progress import Progress
from tests.flows.cli_runner import curriculum
from tests.flows.serving import wait_until
from tests.flows.stand_ins import FakeSteps, finished, gates_judged, report

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeSteps:
    """Return fake steps for the flows, in a new workspace."""
    stand_ins = FakeSteps()
    stand_ins.stand_in(monkeypatch, tmp_path)
    return stand_ins


def _plan(tmp_path: Path, specialist: str = "templates.demo") -> RunPlan:
    return resolve_plan(RunConfig.of(specialist=specialist, workspace=tmp_path), dry=True)


def test_a_run_goes_through_the_phases_in_order(stand_ins: FakeSteps) -> None:
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


@pytest.mark.parametrize("flow", [train, run])
def test_an_open_gate_is_judged_once_a_phase(
    stand_ins: FakeSteps, monkeypatch: pytest.MonkeyPatch, flow: Any
) -> None:
    judged = gates_judged(monkeypatch)
    ended = flow(specialist="templates.demo")
    assert [f"train {phase}" for phase in judged] == stand_ins.opened[2::3]
    assert [event.gate.kind for event in ended] == ["open"] * 5


def test_one_phase_is_trained_anew_and_nothing_else(stand_ins: FakeSteps) -> None:
    run(specialist="templates.demo", phase="file_graph")
    assert stand_ins.opened == ["build file_graph", "mix file_graph", "train file_graph"]
    assert stand_ins.anew == [True]


def test_the_train_flow_never_begins_a_finished_phase_anew(stand_ins: FakeSteps) -> None:
    train(specialist="templates.demo", phase="file_graph")
    assert stand_ins.anew == [False]


def test_a_cancelled_phase_ends_the_walk(stand_ins: FakeSteps) -> None:
    stand_ins.stops["syntax"] = "cancelled"
    assert len(run(specialist="templates.demo")) == 1
    assert stand_ins.opened[-1] == "train syntax"


def test_a_failed_phase_fails_the_run(stand_ins: FakeSteps) -> None:
    stand_ins.stops["syntax"] = "failed"
    state: State[Any] = run(specialist="templates.demo", return_state=True)
    assert state.is_failed()
    assert str(state.message).startswith("phase syntax: why; ")


def test_what_may_pass_is_tried_again(
    stand_ins: FakeSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_ins.failures = [OSError("the disk hiccuped")]
    monkeypatch.setattr(tasks.TASKS["build"], "retry_delay_seconds", 0)
    build(specialist="templates.demo", phase="syntax")
    assert stand_ins.opened == ["build syntax", "build syntax"]


def test_a_mistake_is_not_tried_again(stand_ins: FakeSteps) -> None:
    stand_ins.failures = [DietError("here", cause="so", cure="otherwise")]
    with pytest.raises(DietError):
        build(specialist="templates.demo", phase="syntax")
    assert stand_ins.opened == ["build syntax"]


@pytest.mark.parametrize("moment", ["begin_run", "handle_success"])
def test_an_interrupt_while_prefect_starts_or_ends_a_run_is_no_crash(
    stand_ins: FakeSteps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    during = getattr(FlowRunEngine, moment)

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return during(*args, **kwargs)

    monkeypatch.setattr(FlowRunEngine, moment, interrupted)
    config = RunConfig.of(specialist="templates.demo", workspace=tmp_path / "home")
    with pytest.raises(KeyboardInterrupt):
        run_in_process(config, Scope(phase="syntax"), lambda progress: None)
    with get_client(sync_client=True) as client:
        (last,) = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=1)
    assert last.state is not None
    assert last.state.is_cancelled() if moment == "begin_run" else last.state.is_completed()
    assert bool(stand_ins.opened) == (moment != "begin_run")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("flow", [build, mix, train, run], ids=lambda flow: flow.name)
def test_a_wrong_diet_fails_the_run_with_its_message_and_no_traceback(
    flow: Any, stand_ins: FakeSteps, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="prefect"):
        state: State[Any] = flow(specialist="templtes", return_state=True)
    assert state.is_failed()
    assert "templtes" in str(state.message)
    assert "templates" in str(state.message), "the likely name"
    assert [each.levelname for each in caplog.records if each.message == state.message] == ["ERROR"]
    # A busy server may lose the connection for events, of which Prefect logs a traceback of its own.
    runs = [each for each in caplog.records if not each.name.startswith("prefect.events")]
    assert runs
    assert [each for each in runs if each.exc_info] == []
    assert stand_ins.opened == []


def test_a_mistake_within_a_step_has_no_traceback_either(
    stand_ins: FakeSteps, caplog: pytest.LogCaptureFixture
) -> None:
    mistake = DietError("here", cause="so", cure="otherwise")
    stand_ins.failures = [mistake]
    with caplog.at_level(logging.DEBUG, logger="prefect"):
        state: State[Any] = build(specialist="templates.demo", phase="syntax", return_state=True)
    assert (state.type, state.message) == (StateType.FAILED, str(mistake))
    # A busy server may lose the connection for events, of which Prefect logs a traceback of its own.
    runs = [each for each in caplog.records if not each.name.startswith("prefect.events")]
    assert runs
    assert [each for each in runs if each.exc_info] == []


def test_what_is_no_mistake_of_a_user_keeps_its_traceback(
    stand_ins: FakeSteps, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stand_ins.failures = [ZeroDivisionError("ours")] * 3
    monkeypatch.setattr(tasks.TASKS["build"], "retry_delay_seconds", 0)
    state: State[Any] = build(specialist="templates.demo", phase="syntax", return_state=True)
    assert state.is_failed()
    assert [each for each in caplog.records if each.exc_info]


class TerminatedError(KeyboardInterrupt):
    """An interrupt of another kind."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TerminatedError])
def test_an_interrupt_in_the_terminal_cancels_the_run_and_is_raised_as_it_was(
    kind: type[KeyboardInterrupt], stand_ins: FakeSteps, tmp_path: Path
) -> None:
    stand_ins.failures = [kind()]
    config = RunConfig.of(specialist="templates.demo", workspace=tmp_path)
    with pytest.raises(KeyboardInterrupt) as raised:
        run_in_process(config, Scope(phase="syntax"), lambda progress: None)
    assert raised.type is kind
    with get_client(sync_client=True) as client:
        (last,) = client.read_flow_runs(sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=1)
        own = FlowRunFilter(id={"any_": [last.id]})
        # The server records the states of tasks from events, a moment after they were sent.
        wait_until(
            lambda: (
                [task.state_name for task in client.read_task_runs(flow_run_filter=own)]
                == ["Cancelled"]
            )
        )
    assert last.state_name == "Cancelled"
    assert last.state is not None


@pytest.mark.parametrize(
    ("phase", "changes", "tags"),
    [
        ("all", Changes(), {"specialist:templates", "branch:demo", "phase:all"}),
        ("syntax", Changes(branch="ux"), {"specialist:templates", "branch:ux", "phase:syntax"}),
    ],
)
def test_a_run_is_tagged_with_specialist_branch_and_phase(
    phase: str, changes: Changes, tags: set[str], stand_ins: FakeSteps
) -> None:
    state: State[Any] = run(
        specialist="templates.demo", phase=phase, changes=changes, return_state=True
    )
    with get_client(sync_client=True) as client:
        assert state.state_details.flow_run_id is not None
        assert {*client.read_flow_run(state.state_details.flow_run_id).tags} == tags


@pytest.mark.parametrize("flow", [build, mix, train, run], ids=lambda flow: flow.name)
def test_a_dry_run_shows_what_would_be_made_and_makes_nothing(
    flow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_HOME", str(tmp_path / "home"))
    few = Changes(max_commits=4)
    state: State[Any] = flow(
        specialist="templates.demo", phase="syntax", dry_run=True, changes=few, return_state=True
    )
    assert state.is_completed()
    forecast, reasons = (
        _artifact(state, f"{name}-templates-demo-syntax") for name in ("forecast", "reasons")
    )
    assert [line["phase"] for line in forecast] == ["syntax"]
    assert re.fullmatch(r"\d+ artefacts", forecast[0]["artefacts"])
    assert ("tokens" in forecast[0]) == (flow in (train, run))
    assert sum(map(len, map(str, forecast[0].values()))) < 60, "Prefect's page cuts wide tables"
    assert {line["why"] for line in reasons} == {"first version"}
    assert not [*tmp_path.rglob("manifest.json")]
    assert not (tmp_path / "home" / "configs").exists()


def test_a_report_is_linked_by_http_though_nothing_serves_it_now(
    stand_ins: FakeSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.flow_runs.rewritten", lambda *_: Path("/w/reports/templates.html"))
    state: State[Any] = build(specialist="templates.demo", phase="syntax", return_state=True)
    link = _artifact(state, "report-templates")
    assert "(http://127.0.0.1:4201/reports/templates.html)" in link


def _artifact(state: State[Any], key: str) -> Any:
    """The data of an artifact of a flow run."""
    with get_client(sync_client=True) as client:
        response = client.request(
            "POST",
            "/artifacts/filter",
            json={"flow_runs": {"id": {"any_": [str(state.state_details.flow_run_id)]}}},
        )
    found = {each["key"]: each["data"] for each in response.json()}
    assert key in found, found
    data = found[key]
    return json.loads(data) if data.startswith("[{") else data


def test_progress_reaches_the_onlooker_and_the_page(stand_ins: FakeSteps) -> None:
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
    assert [(each["key"], each["data"]) for each in response.json()] == [("progress-rows", 100.0)]


class TestOutcome:
    """Messages at the end of a run."""

    def _runs(self, tmp_path: Path, *, phase: str = "syntax") -> list[Artefact]:
        return [finished(Store(tmp_path / "runs"), report(phase=phase))]

    def test_runs_that_were_in_use_before_were_not_trained_now(self, tmp_path: Path) -> None:
        runs = self._runs(tmp_path)
        said = outcome(_plan(tmp_path), ALL_PHASES, runs, (), {run.path for run in runs})
        assert said == NOTHING_TO_DO

    def test_a_run_that_another_process_trained_is_none_of_before(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "runs")
        loaded = store.load(self._runs(tmp_path)[0].path)
        assert not loaded.made
        assert outcome(_plan(tmp_path), ALL_PHASES, [loaded], (), ()) == "1 phase trained: syntax."

    def test_what_lies_downstream_of_a_rerun_is_named(self, tmp_path: Path) -> None:
        left = ("structure", "anneal")
        said = outcome(_plan(tmp_path), "syntax", self._runs(tmp_path), left, ())
        assert "outdated: structure, anneal. `curriculum run templates.demo` continues" in said

    def test_a_rerun_that_leaves_nothing_to_train_names_no_command(self, tmp_path: Path) -> None:
        said = outcome(_plan(tmp_path), "syntax", self._runs(tmp_path), (), ())
        assert "syntax" in said
        assert "curriculum" not in said

    def test_the_last_phase_has_nothing_downstream(self, tmp_path: Path) -> None:
        runs = self._runs(tmp_path, phase="anneal")
        said = outcome(_plan(tmp_path), "anneal", runs, (), ())
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
