"""Runs of deployments: separate training runs, restarts, approval, cancelling.

Fake steps replace the pipeline's, and this process is the worker of both pools.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any
from uuid import UUID

import pytest
from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
)
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments import run_deployment
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow
from prefect.flow_runs import resume_flow_run
from prefect.states import Cancelling, Crashed, Pending, Running, Scheduled

from curriculum.mixing.diet_files import DIETS
from curriculum.pipeline import gates
from curriculum.store import Store
from flows import approval, dispatch, tasks
from flows.run import run
from flows.train import train
from tests.flows.stand_ins import FakeSteps

pytestmark = pytest.mark.usefixtures("prefect_server")
DIET, ASKING = "short", "asking"
"""Diets of three phases; the first of the second's waits for an approval."""
PHASES = ["syntax", "structure", "anneal"]


class _StoppedError(BaseException):
    """Stands for the signal that ends a process."""


@dataclass
class Workers:
    """Flow runs of deployments on the tests' server, run when the test says so."""

    client: SyncPrefectClient
    doors: FakeSteps
    line: "Queue[UUID | None]" = field(default_factory=Queue)
    begun: set[UUID] = field(default_factory=set)

    def ask(self, flow: Flow[..., Any], **parameters: Any) -> UUID:
        """Create a flow run, as the button Run does."""
        there = self.client.read_deployment_by_name(f"{flow.name}/{flow.name}")
        return self.client.create_flow_run_from_deployment(there.id, parameters=parameters).id

    def work(self, flow: Flow[..., Any], asked: UUID) -> FlowRun:
        """Take a flow run through to its end, or to where it waits for somebody."""
        with contextlib.suppress(Pause, Exception):
            run_flow(flow, flow_run=self.client.read_flow_run(asked))
        return self.client.read_flow_run(asked)

    def children(self, parent: UUID) -> list[FlowRun]:
        """The trainings that it asked for."""
        return self.client.read_flow_runs(
            flow_run_filter=FlowRunFilter(
                parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[parent])
            ),
            sort=FlowRunSort.EXPECTED_START_TIME_ASC,
        )

    @contextlib.contextmanager
    def gpu(self, train: Callable[[UUID], object]) -> Iterator[None]:
        """A worker of the gpu pool while the block lasts: it takes what is asked for, in that order.

        The worker is notified here instead of polling, which would keep the server busy.
        """

        def take() -> None:
            while (child := self.line.get()) is not None:
                if child not in self.begun:
                    self.begun.add(child)
                    train(child)

        with ThreadPoolExecutor(1) as pool:
            taking = pool.submit(take)
            try:
                yield
            finally:
                self.line.put(None)
        taking.result()

    def in_line(self, *words: Any, **parameters: Any) -> FlowRun:
        """Request a training run as flows do, and notify the worker."""
        child = run_deployment(*words, **parameters)
        assert isinstance(child, FlowRun)
        self.line.put(child.id)
        return child


@pytest.fixture(scope="module")
def diets(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both diets, which the deployments know."""
    text = (DIETS / "templates.demo.yaml").read_text(encoding="utf-8")
    begin, _, rest = text.partition("  - phase: file_graph")
    _, middle, end = rest.partition("  - phase: structure")
    short = (begin + middle + end).replace("portion: 0.4", "portion: 0.8")
    asking = short.replace("require: [leakcheck]", "require: [leakcheck, approval]", 1)
    home = tmp_path_factory.mktemp("deployed")
    (home / "diets").mkdir()
    for name, diet in ((DIET, short), (ASKING, asking)):
        (home / "diets" / f"{name}.yaml").write_text(diet)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CURRICULUM_HOME", str(home))
        for flow in (run, train):
            RunnerDeployment.from_flow(flow, name=flow.name).apply()
    return home / "diets"


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, diets: Path, tmp_path: Path) -> Iterator[Workers]:
    """A workspace with both diets, and who works there."""
    stand_ins = FakeSteps()
    stand_ins.stand_in(monkeypatch, tmp_path)
    monkeypatch.setattr(dispatch, "POLL_S", 0.2)
    monkeypatch.setattr(dispatch.dispatch_task, "retry_delay_seconds", 0)
    shutil.copytree(diets, tmp_path / "diets")
    with get_client(sync_client=True) as client:
        workers = Workers(client, stand_ins)
        monkeypatch.setattr(dispatch, "run_deployment", workers.in_line)
        yield workers


def test_each_phase_is_trained_by_a_flow_run_of_its_own(workers: Workers) -> None:
    asked = workers.ask(run, specialist=DIET, changes={"max_commits": 4})
    with workers.gpu(lambda each: workers.work(train, each)):
        ended = workers.work(run, asked)
    assert ended.state_name == "Completed"
    children = workers.children(asked)
    assert [each.parameters["phase"] for each in children] == PHASES
    assert {each.state_name for each in children} == {"Completed"}
    assert children[0].parameters["changes"] == {"max_commits": 4}
    assert workers.doors.anew == [False] * len(PHASES)
    trained = [workers.doors.attempts[name][0].path for name in PHASES]
    assert [each.labels[tasks.RUN] for each in children] == [
        each.relative_to(Store.containing(each).root).as_posix() for each in trained
    ]


@pytest.mark.system
def test_what_is_trained_already_waits_for_no_slot(workers: Workers) -> None:
    with workers.gpu(lambda each: workers.work(train, each)):
        workers.work(run, workers.ask(run, specialist=DIET))
    again = workers.ask(run, specialist=DIET)
    assert workers.work(run, again).state_name == "Completed"
    assert workers.children(again) == []
    assert workers.doors.anew == [False] * len(PHASES)


@pytest.mark.system
def test_a_phase_that_is_named_is_trained_anew_and_those_after_it_as_they_need(
    workers: Workers,
) -> None:
    asked = workers.ask(run, specialist=DIET, phase="structure", later_phases=True)
    with workers.gpu(lambda each: workers.work(train, each)):
        workers.work(run, asked)
    found = [
        (each.parameters["phase"], each.parameters["again"]) for each in workers.children(asked)
    ]
    assert found == [("structure", True), ("anneal", False)]


def test_a_run_waits_for_approval_and_goes_on_when_it_is_resumed(
    workers: Workers, tmp_path: Path
) -> None:
    asked = workers.ask(run, specialist=ASKING)
    with workers.gpu(lambda each: workers.work(train, each)):
        assert workers.work(run, asked).state_name == "Suspended"
        assert workers.doors.opened.count("train syntax") == 1
        with pytest.raises(RuntimeError, match="Cannot resume"):
            resume_flow_run(asked, run_input={"comment": "by nobody"})
        resume_flow_run(asked, run_input={"who": "ada", "comment": "it fell"})
        assert workers.work(run, asked).state_name == "Completed"
    said = gates.find_approval(Store(tmp_path), workers.doors.attempts["syntax"][0])
    assert said is not None
    assert (said.who, said.comment) == ("ada", "it fell")
    assert workers.doors.opened.count("train syntax") == 1
    assert [each.parameters["phase"] for each in workers.children(asked)] == PHASES


@pytest.mark.system
def test_an_approval_from_the_command_line_lets_the_waiting_run_go_on(
    workers: Workers, tmp_path: Path
) -> None:
    asked = workers.ask(run, specialist=ASKING, phase="syntax")
    said: list[str] = []
    with workers.gpu(lambda each: workers.work(train, each)):
        assert workers.work(run, asked).state_name == "Suspended"
        trained, store = workers.doors.attempts["syntax"][0], Store(tmp_path)
        gates.write_approval(store, trained, who="ada")
        ticket = gates.approval_ticket(store, trained)
        assert approval.resume("another", who="ada", comment="", warn=said.append) == ""
        words = approval.resume(ticket, who="ada", comment="", warn=said.append)
        assert "resumes" in words
        assert workers.work(run, asked).state_name == "Completed"
    assert said == []
    assert workers.doors.anew == [True], "trained anew once, not again after the approval"


@pytest.mark.system
def test_a_run_that_is_retried_unanswered_asks_again(workers: Workers) -> None:
    asked = workers.ask(run, specialist=ASKING)
    with workers.gpu(lambda each: workers.work(train, each)):
        assert workers.work(run, asked).state_name == "Suspended"
        workers.client.set_flow_run_state(asked, Scheduled(name="AwaitingRetry"), force=True)
        assert workers.work(run, asked).state_name == "Suspended"


@pytest.mark.system
def test_a_restart_goes_by_the_diet_that_the_run_began_with(
    workers: Workers, tmp_path: Path
) -> None:
    file = tmp_path / "diets" / f"{ASKING}.yaml"
    asked = workers.ask(run, specialist=ASKING)
    with workers.gpu(lambda each: workers.work(train, each)):
        assert workers.work(run, asked).state_name == "Suspended"
        before, _, _ = file.read_text().partition("  - phase: structure")
        file.write_text(before.replace("portion: 0.8", "portion: 1.0"))
        resume_flow_run(asked, run_input={"who": "ada"})
        workers.work(run, asked)
        before_later = len(workers.doors.opened)
        workers.work(run, workers.ask(run, specialist=ASKING))
    assert [each.parameters["phase"] for each in workers.children(asked)] == PHASES
    assert workers.doors.opened[before_later:] == ["build syntax", "mix syntax"]


def test_training_that_broke_down_is_asked_for_again(workers: Workers) -> None:
    fates: Iterator[State[None]] = iter([Crashed(message="its process was killed.")])

    def crash_once(child: UUID) -> None:
        fate = next(fates, None)
        if fate is None:
            workers.work(train, child)
        else:
            workers.client.set_flow_run_state(child, fate, force=True)

    asked = workers.ask(run, specialist=DIET, phase="syntax")
    with workers.gpu(crash_once):
        assert workers.work(run, asked).state_name == "Completed"
    assert [each.state_name for each in workers.children(asked)] == ["Crashed", "Completed"]


def test_training_that_failed_fails_the_run_with_its_words(workers: Workers) -> None:
    workers.doors.stops["syntax"] = "failed"
    asked = workers.ask(run, specialist=DIET, phase="syntax")
    with workers.gpu(lambda each: workers.work(train, each)):
        ended = workers.work(run, asked)
    assert ended.state_name == "Failed"
    assert ended.state is not None
    assert "training failed" in str(ended.state.message)
    assert len(workers.children(asked)) == 1


def test_a_restarted_run_waits_for_the_training_that_it_started(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = workers.ask(run, specialist=DIET, phase="syntax")
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "_await_end", _killed)
        with pytest.raises(_StoppedError):
            workers.work(run, asked)
    assert workers.client.read_flow_run(asked).state_name == "Crashed"
    [child] = workers.children(asked)
    assert child.state_name == "Scheduled", "a run that crashed lets its training go on"
    workers.client.set_flow_run_state(asked, Scheduled(name="AwaitingRetry"), force=True)
    with workers.gpu(lambda each: workers.work(train, each)):
        assert workers.work(run, asked).state_name == "Completed"
    assert [each.id for each in workers.children(asked)] == [child.id]
    assert workers.doors.anew == [True]


def test_who_cancels_a_run_cancels_its_training(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = workers.ask(run, specialist=DIET, phase="syntax")

    def cancelled(child: UUID, _: object) -> FlowRun:
        states: tuple[State[None], ...] = (Pending(), Running())
        for state in states:
            workers.client.set_flow_run_state(child, state, force=True)
        workers.client.set_flow_run_state(asked, Cancelling(), force=True)
        return _killed(child, _)

    monkeypatch.setattr(dispatch, "_await_end", cancelled)
    with pytest.raises(_StoppedError):
        workers.work(run, asked)
    [child] = workers.children(asked)
    assert child.state_name == "Cancelling"


def _killed(child: UUID, _: object) -> FlowRun:
    raise _StoppedError
