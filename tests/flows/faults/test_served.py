"""`curriculum serve` and the processes of its runs, killed at seeded points."""

import json
import random
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from curriculum.train.launch.gpu_slots import Slots
from flows import settings

pytestmark = pytest.mark.timeout(2400)

ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
SPECIALIST = "faulty"
STARTS_WITHIN_S = 240.0


@dataclass(kw_only=True)
class Served:
    """A course whose workspace is served, and its runs there."""

    course: Any
    port: int
    process: Any = None
    runs: list[str] = field(default_factory=list)
    """Ids of the runs that were started, the last one counts."""

    def start(self) -> None:
        """Serve, and wait until a run can be started."""
        diets = self.course.home / "diets"
        diets.mkdir(parents=True, exist_ok=True)
        (diets / f"{SPECIALIST}.yaml").write_text(self.course.diet.read_text())
        said = (
            self.course.said.read_text().count("Press Ctrl-C") if self.course.said.exists() else 0
        )
        words = [*self.course.python, "serve", "--home", str(self.course.home)]
        self.process = self.course.start([*words, "--port", str(self.port)])
        deadline = time.monotonic() + STARTS_WITHIN_S
        while self.course.said.read_text().count("Press Ctrl-C") == said:
            assert self.process.poll() is None, self.course.said.read_text()
            assert time.monotonic() < deadline, self.course.said.read_text()
            time.sleep(0.2)

    def stop(self) -> None:
        """End serve as Ctrl-C does; nobody is left."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(90) == 0, self.course.said.read_text()
        self.course.await_quiet()

    def ask(self, path: str, body: Any = None) -> Any:
        """Return the API's response."""
        request = urllib.request.Request(
            f"http://{settings.HOST}:{self.port}/api/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                **settings.authorization(settings.served_secret(self.course.home)),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            refused.add_note(refused.read().decode())
            raise

    def run(self, **changes: Any) -> str:
        """Press Run; the id of the run."""
        deployment = self.ask("deployments/name/run/run")
        read_little = {"max_commits": 4, "advanced": {"versions_per_path": 1, "workers": 2}}
        parameters = {"specialist": SPECIALIST, "changes": read_little} | changes
        made = self.ask(
            f"deployments/{deployment['id']}/create_flow_run", {"parameters": parameters}
        )
        self.runs.append(str(made["id"]))
        return self.runs[-1]

    def state(self) -> str:
        """Return the state of the last run, or "unreachable" while the server is down."""
        try:
            return str(self.ask(f"flow_runs/{self.runs[-1]}")["state_type"])
        except (urllib.error.URLError, OSError):
            return "unreachable"

    def await_end(self) -> str:
        """Wait until the last run has ended, and say how."""
        deadline = time.monotonic() + 600
        while (state := self.state()) not in ENDED:
            assert time.monotonic() < deadline, f"{state}; {self.words()}"
            time.sleep(0.5)
        return state

    def retry(self) -> None:
        """Press Retry."""
        state = {"type": "SCHEDULED", "name": "AwaitingRetry"}
        body = {"state": state, "force": True}
        self.ask(f"flow_runs/{self.runs[-1]}/set_state", body)

    def edit(self) -> None:
        """Make another diet of it; what runs already must not heed it."""
        file = self.course.home / "diets" / f"{SPECIALIST}.yaml"
        file.write_text(file.read_text().replace("token_budget: 52K", "token_budget: 30K"))

    def await_training(self, uninterrupted: Any, dice: random.Random) -> None:
        """Wait for a point somewhere in the middle of training."""
        whole = uninterrupted.progress()
        point = dice.randint(int(whole * 0.4), int(whole * 0.8))
        self.course.await_progress(point, "trainer", self.process)
        time.sleep(dice.uniform(0, 0.3))

    def require_the_same_end(self, uninterrupted: Any) -> None:
        """All is as if nothing had happened, the weights too; no slot is held, and nobody is left."""
        self.course.require_whole()
        assert self.course.contents() == uninterrupted.contents()
        assert "trainer" not in self.course.alive().values()
        self.stop()
        slots = Slots(self.course.home / "slots", 1)
        assert slots.holders() == [None]
        assert slots.line() == []

    def words(self) -> str:
        """Return the output of serve and its children's logs, for messages of failures."""
        logs = sorted(settings.prefect_folder(self.course.home).glob("*.log"))
        last = "\n".join(f"{log.name}:\n{log.read_text(errors='replace')[-6000:]}" for log in logs)
        return f"{self.course.said.read_text()}\n{last}"


@pytest.fixture
def served(course: Any) -> Iterator[Served]:
    """The course's workspace, served; everything has ended when the test has."""
    with socket.socket() as probe:
        probe.bind((settings.HOST, 0))
        port = int(probe.getsockname()[1])
    served = Served(course=course, port=port)
    served.start()
    try:
        yield served
    finally:
        course.end()
        served.process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_server_that_dies_under_a_run_comes_back_and_the_run_completes(
    served: Served, uninterrupted: Any, dice: random.Random, seed: int
) -> None:
    first = served.run()
    served.await_training(uninterrupted, dice)
    served.course.kill("server")
    assert served.await_end() == "COMPLETED", served.words()
    assert served.runs == [first]
    served.require_the_same_end(uninterrupted)


@pytest.mark.slow
def test_a_run_can_be_cancelled_after_its_server_died_and_came_back(
    served: Served, uninterrupted: Any, dice: random.Random
) -> None:
    served.run()
    served.await_training(uninterrupted, dice)
    served.course.kill("server")
    while served.state() == "unreachable":
        time.sleep(0.2)
    cancelling = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
    served.ask(f"flow_runs/{served.runs[-1]}/set_state", cancelling)
    assert served.await_end() == "CANCELLED", served.words()
    served.course.await_quiet("serve", "server", "worker", "command", "other")
    assert list(served.course.home.glob("runs/**/checkpoints/step=*/manifest.json"))
    served.course.require_whole()
    served.stop()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_trainer_that_is_killed_is_started_again_by_its_run(
    served: Served, uninterrupted: Any, dice: random.Random, seed: int
) -> None:
    served.run()
    served.await_training(uninterrupted, dice)
    served.course.kill("trainer")
    assert served.await_end() == "COMPLETED", served.words()
    served.require_the_same_end(uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["flow", "flow in the middle", "worker", "serve"])
def test_a_run_whose_process_worker_or_machine_was_killed_goes_on_by_retry_with_the_diet_it_began_with(
    served: Served, uninterrupted: Any, dice: random.Random, role: str
) -> None:
    first = served.run()
    served.await_training(uninterrupted, dice)
    # The first of several flows' processes is the parent's, the last one trains.
    served.course.kill(role.split()[0], newest=role == "flow in the middle")
    served.edit()
    if role == "serve":
        served.process.wait(300)
        served.course.await_quiet()
        served.start()
    served.course.require_whole()
    if served.await_end() != "COMPLETED":
        served.retry()
        assert served.await_end() == "COMPLETED", served.words()
    assert served.runs == [first]
    served.require_the_same_end(uninterrupted)


@pytest.mark.slow
def test_parameters_that_name_nothing_are_refused_or_fail_in_a_sentence(served: Served) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        served.run(specialist="nobody")
    assert 400 <= refused.value.code < 500
    assert "'nobody' is not one of [" in refused.value.__notes__[0]
    with pytest.raises(urllib.error.HTTPError) as refused:
        served.run(changes={"token_budgets": "1M"})
    assert 400 <= refused.value.code < 500
    served.run(phase="anneal")
    assert served.await_end() == "FAILED", served.words()
    said = served.ask(f"flow_runs/{served.runs[-1]}")["state"]["message"]
    assert "phases: syntax, file_graph" in said
    served.run(changes={"repositories": ["/nowhere"]})
    assert served.await_end() == "FAILED", served.words()
    assert "/nowhere" in served.ask(f"flow_runs/{served.runs[-1]}")["state"]["message"]
    assert "runs" not in [folder.name for folder in served.course.home.iterdir()]
    served.stop()
