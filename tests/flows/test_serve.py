"""`curriculum serve` as a person uses it: one command, runs that start, Ctrl-C; and what dies under it."""

import functools
import http.client
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import filelock
import psutil
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import SCHEDULE_TYPES, IntervalSchedule

from curriculum.store import Store
from flows import deployments, settings
from flows.deployments import declared_deployments
from flows.server import children, supervisor
from flows.server.children import ServeError
from flows.settings import prefect_variables
from schemas.progress import Event
from tests.flows.serving import Served, command, free_port, serving, wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A workspace that is served for the tests of this file, up to the one that presses Ctrl-C.

    Its server looks for schedules more often than others, and makes few runs of them.
    """
    with serving(
        tmp_path_factory.mktemp("homes") / "home",
        PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS="2",
        PREFECT_SERVER_SERVICES_SCHEDULER_MAX_RUNS="3",
    ) as served:
        yield served


def test_every_flow_is_deployed_to_its_pool(served: Served) -> None:
    with served.client() as client:
        made = {each.name: each for each in client.read_deployments()}
        pools = {each.name: each.type for each in client.read_work_pools()}
        flows = {name: client.read_flow(each.flow_id).name for name, each in made.items()}
    assert {kind: pools[kind] for kind in ("cpu", "gpu")} == {"cpu": "process", "gpu": "process"}
    for declared in declared_deployments(""):
        there = made[declared.name]
        assert flows[there.name] == declared.name
        assert there.work_pool_name == declared.pool
        assert there.entrypoint == declared.entrypoint
        assert there.job_variables == {}
        assert there.description
    assert [made[name].work_pool_name for name in ("build", "mix", "run", "train")] == [
        *("cpu", "cpu", "cpu", "gpu")
    ]


def test_a_schedule_starts_runs_and_outlives_new_forms(served: Served) -> None:
    """Prefect itself forgets the schedules of a deployment that is made again."""
    daily: list[tuple[SCHEDULE_TYPES, bool]] = [(IntervalSchedule(interval=timedelta(1)), True)]
    often: list[tuple[SCHEDULE_TYPES, bool]] = [
        (IntervalSchedule(interval=timedelta(seconds=10)), True)
    ]
    nap = served.slow_flow("cpu")
    with served.client() as client:
        run = client.read_deployment_by_name("run/run")
        client.create_deployment_schedules(run.id, daily)
        client.create_deployment_schedules(nap, often)
    (served.home / "diets").mkdir(exist_ok=True)
    ours = Path(supervisor.__file__).parents[2] / "curriculum/diets/templates.yaml"
    (served.home / "diets/nightly.yaml").write_text(ours.read_text())

    wait_until(lambda: "updated the forms" in served.log.read_text())
    with served.client() as client:
        renewed = client.read_deployment_by_name("run/run")
        assert "nightly" in str(renewed.parameter_openapi_schema)
        kept = [each.schedule for each in renewed.schedules]
    assert [each.interval for each in kept if isinstance(each, IntervalSchedule)] == [timedelta(1)]

    def begun() -> bool:
        with served.client() as client:
            runs = [each for each in client.read_flow_runs() if each.deployment_id == nap]
        return any(each.auto_scheduled and each.state_name == "Completed" for each in runs)

    wait_until(begun)
    with served.client() as client:
        client.delete_deployment(nap)


def test_a_run_ends_with_its_worker_which_is_started_again(served: Served, tmp_path: Path) -> None:
    run = served.nap("cpu", seconds=900, trace=str(tmp_path / "trace"))
    served.await_state(run, "Running")
    trace = tmp_path / "trace"
    wait_until(lambda: trace.is_file() and trace.read_text().endswith("\n"))
    pid = int(trace.read_text().split()[0])
    served.child("--pool cpu").kill()
    served.await_state(run, "Crashed")
    assert "worker" in str(served.run(run).state)
    assert not psutil.pid_exists(pid)
    wait_until(lambda: "worker-cpu ended with exit code -9" in served.log.read_text())
    again = served.nap("cpu")
    served.await_state(again, "Completed")


def test_a_run_outlives_the_death_of_its_server(served: Served, tmp_path: Path) -> None:
    run = served.nap("cpu", until=str(tmp_path / "there again"))
    served.await_state(run, "Running")
    served.child("flows.server.api").kill()
    wait_until(lambda: "server ended with exit code -9" in served.log.read_text())
    (tmp_path / "there again").touch()
    served.await_state(run, "Completed")


def test_one_address_logs_in_to_all_pages_which_outlive_their_death(served: Served) -> None:
    said, places = served.log.read_text(), served.places
    password = served.secret.rpartition(":")[2]
    assert said.count(password) == said.count(served.path) == 1, "one address to open"
    assert f"runs        {places.login}\n" in said
    assert places.login.startswith(f"{served.address}/curriculum/#{password}.")
    assert f"reports     {places.pages}/reports/\n" in said
    assert f"dashboards  {places.pages}/overview/\n" in said
    inside = f"{places.pages}/{served.path}"
    # Reports and dashboards are one server, which is found where it was.
    wanted = {
        f"{places.pages}/overview/": 404,
        f"{inside}/overview/": 200,
        f"{inside}/reports/": 200,
    }
    assert {url: _status(url) for url in wanted} == wanted
    served.child("flows.server.dashboard").kill()
    assert _status(f"{inside}/reports/") in {0, 200}, "nobody else can take the port meanwhile"
    again = "dashboards ended with exit code -9"
    wait_until(functools.partial(_is_said, served, again))
    assert {url: _status(url) for url in wanted} == wanted
    assert served.places == places, "the links that people have are dead"


def _is_said(served: Served, words: str) -> bool:
    return words in served.log.read_text()


def _status(url: str) -> int:
    """Return the HTTP status of an address, or 0 without an answer."""
    place, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(place, timeout=60)
    try:
        connection.request("GET", f"/{path}")
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@pytest.mark.slow
def test_runs_for_one_slot_come_in_order_of_arrival(served: Served, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    runs = [served.nap("gpu", seconds=1, trace=str(trace)) for _ in range(4)]
    for run in runs:
        served.await_state(run, "Completed")
    starts = [served.run(run).start_time for run in runs]
    ends = [served.run(run).end_time for run in runs]
    assert all(end and start and end <= start for end, start in zip(ends, starts[1:], strict=False))


@pytest.mark.slow
def test_silent_runs_are_crashed_and_suspended_ones_are_not(served: Served, tmp_path: Path) -> None:
    waiting = served.nap("cpu", asks=True)
    served.await_state(waiting, "Suspended")
    code = "from tests.flows.slow_flow import nap; nap(seconds=900)"
    variables = prefect_variables.running_server(served.home, f"{served.address}/api")
    alone = subprocess.Popen(
        [sys.executable, "-c", code],
        env=settings.environment(variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def running() -> list[FlowRun]:
        with served.client() as client:
            runs = client.read_flow_runs()
        return [each for each in runs if not each.deployment_id and each.state_name == "Running"]

    wait_until(lambda: bool(running()))
    silent = running()[0].id
    alone.kill()
    alone.wait()
    served.await_state(silent, "Crashed")
    assert "No heartbeat" in str(served.run(silent).state)
    assert served.state(waiting) == "Suspended"


def test_a_second_serve_of_one_workspace_names_the_first(served: Served) -> None:
    home, address = served.home, served.address
    answer = subprocess.run(command(home, free_port()), capture_output=True, text=True, timeout=300)
    assert answer.returncode == 2
    assert "another curriculum serve is running" in answer.stderr
    assert address in answer.stderr
    assert "Traceback" not in answer.stderr
    assert settings.served_at(home) == address
    assert settings.known_api(home) == f"{address}/api", "a run would not be seen in its pages"


def test_an_end_by_ctrl_c_ends_the_runs_and_keeps_what_became_of_them(
    served: Served, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    run = served.nap("gpu", seconds=900, trace=str(trace))
    served.await_state(run, "Running")
    wait_until(lambda: trace.is_file() and trace.read_text().endswith("\n"))
    pid = int(trace.read_text().split()[0])
    assert served.end() == 0, served.log.read_text()
    assert not psutil.pid_exists(pid)
    database_file = settings.prefect_folder(served.home) / "prefect.db"
    with closing(sqlite3.connect(database_file)) as database:
        states = dict(database.execute("select id, state_name from flow_run").fetchall())
        pools = dict(database.execute("select name, is_paused from work_pool").fetchall())
    assert states[str(run)] == "Crashed"
    assert pools == {"cpu": 1, "gpu": 1}, "a run could begin while the workers end"


@pytest.mark.slow
def test_nothing_outlives_a_serve_that_is_killed_and_the_next_one_goes_on(tmp_path: Path) -> None:
    home, trace = tmp_path / "home", tmp_path / "trace"
    with serving(home, code=-9) as served:
        run = served.nap("gpu", seconds=900, trace=str(trace))
        served.await_state(run, "Running")
        assert len(psutil.Process(served.process.pid).children(recursive=True)) >= 4
        served.process.kill()
    told = tmp_path / "told.jsonl"
    with serving(home, CURRICULUM_NOTIFY=f"sh -c 'cat >> {told}'") as served:
        assert served.state(run) == "Crashed"
        done = served.nap("gpu")
        served.await_state(done, "Completed")
        wait_until(told.is_file)
        (event,) = told.read_text().splitlines()
        assert Event.model_validate_json(event).text == (
            f"{served.run(run).name} broke down: {deployments.MESSAGE}"
        )


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind((settings.HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ServeError, match=f"{port}.*in use"):
            supervisor.serve(tmp_path, port, lambda _: None)
    assert settings.served_at(tmp_path) is None


def test_nobody_serves_a_fresh_workspace(tmp_path: Path) -> None:
    assert settings.served_at(tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_an_address_that_is_gone_at_once_after_it_was_read_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Held:
        """The lock of a serve that ends in this moment."""

        def acquire(self, **_: float) -> None:
            settings.served_file(tmp_path).unlink(missing_ok=True)
            raise filelock.Timeout("supervisor.lock")

    Store(tmp_path).open()
    monkeypatch.setattr(settings, "serve_lock", lambda _: Held())
    written = settings.ServedAddresses(address="here", secret="", pages="there", login="")
    written.write(tmp_path)
    assert settings.served(tmp_path) == written
    assert settings.served(tmp_path) is None
    assert settings.reports_at(tmp_path) == "http://127.0.0.1:4201/reports"


def test_a_teams_server_goes_before_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path).open()
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert settings.known_api(tmp_path) == "http://127.0.0.1:9/api"
    assert prefect_variables.running_server(tmp_path, "there")["PREFECT_API_URL"] == "there"


def test_a_teams_server_that_isnt_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "FOREIGN_PATIENCE_S", 0.5)
    monkeypatch.setattr(settings, "apply", lambda _: None)
    monkeypatch.setenv("PREFECT_API_URL", f"http://{settings.HOST}:{free_port()}/api")
    with pytest.raises(ServeError, match=r"PREFECT_API_URL.*no answer"):
        supervisor.serve(tmp_path, 4200, lambda _: None)


def test_workers_start_where_another_user_was_the_first_to_serve(tmp_path: Path) -> None:
    """Prefect's workers make runner_storage in the folder of temporary files; a file there is no folder."""
    shared = tmp_path / "tmp"
    shared.mkdir()
    (shared / "runner_storage").touch()
    with serving(tmp_path / "home", TMPDIR=str(shared)) as served:
        run = served.nap("cpu", seconds=0)
        served.await_state(run, "Completed")
    assert [place.name for place in shared.iterdir()] == ["runner_storage"]
