"""A build over Ray's workers leaves what a build by one process leaves, whatever becomes of a worker."""

import dataclasses
import importlib.util
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from curriculum.stages import Built, Shard, Workers
from curriculum.stages.same_versions import require_same
from curriculum.stages.stage import Assignment, Stage, run_in_worker
from curriculum.store import Recipe, StagingDirectory, Store
from curriculum.workers import TRIES, Failure, RayPool
from flows import settings
from flows.settings.contexts import resources
from schemas.errors import CorpusError, DietError, WorkerError
from tests.error_fields import fields

# Where cores are shared a cluster takes a minute to start.
pytestmark = pytest.mark.timeout(600)

# A cluster of one node with room for two tasks; it ends with its standard input, or with us.
CLUSTER = """
import sys, ray
found = ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000,
                 _node_ip_address="127.0.0.1", _temp_dir=sys.argv[1], logging_level="ERROR")
print(found.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""
OWN = settings.ray("127.0.0.1:0")
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
LOOSE_UMASK = 0o002
"""Umask of the cluster: each member of a user's group may write to what its workers make."""
# Half a minute isn't enough where cores are shared.
PATIENT = {"RAY_raylet_start_wait_time_s": "240"}


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory, make_git: Callable[[Path], Any]) -> Any:
    """The git of the cluster's workers."""
    return make_git(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def cluster(git: Any) -> Iterator[str]:
    """The address of a Ray cluster with two workers, on 127.0.0.1 only."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs ray")
    # Sockets lie under it, whose names can't be long.
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            umask=LOOSE_UMASK,
            env={
                **os.environ,
                **OWN,
                **TOKEN,
                **PATIENT,
                "PATH": f"{git.folder}{os.pathsep}{os.environ['PATH']}",
            },
        ) as process,
        pytest.MonkeyPatch.context() as patch,
    ):
        assert process.stdout
        address = process.stdout.readline().strip()
        assert address.startswith("127.0.0.1:")
        for name, value in {**OWN, **TOKEN}.items():
            patch.setenv(name, value)
        yield address
        children = psutil.Process(process.pid).children(recursive=True)
        process.communicate()
        psutil.wait_procs(children, timeout=120)


def contents(built: Built) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return key, content and file digests of each artefact, in order."""
    return [
        (one.key, one.content, tuple(record.sha256 for record in one.manifest.files))
        for one in built.artefacts()
    ]


@pytest.fixture
def connected_cluster(cluster: str) -> Iterator[str]:
    """The cluster's address, while a connection stands: its workers serve all stages of a build."""
    import ray

    ray.init(cluster, log_to_driver=False, logging_level=logging.ERROR)
    yield cluster
    ray.shutdown()


@pytest.mark.system
def test_a_build_over_two_workers_leaves_the_same_bytes(
    tmp_path: Path, make_tiny: Callable[..., Built], tiny: Built, cluster: str, git: Any
) -> None:
    met = git.let_meet(2)
    built = make_tiny(Store(tmp_path), workers=Workers(ray=cluster))
    git.first("")
    assert contents(built) == contents(tiny)
    assert len([*met.iterdir()]) >= 2
    for artefact in built.artefacts():
        Store(tmp_path).verify(artefact)


@pytest.mark.system
def test_a_build_whose_worker_is_killed_half_way_leaves_the_same_bytes(
    tmp_path: Path, make_tiny: Callable[..., Built], tiny: Built, connected_cluster: str, git: Any
) -> None:
    git.kill_one(tmp_path)
    built = make_tiny(Store(tmp_path), workers=Workers(ray=connected_cluster))
    assert git.has_killed()
    assert contents(built) == contents(tiny)
    assert not any((tmp_path / ".drafts").iterdir())


@pytest.mark.system
def test_shards_over_ray_leave_the_same_bytes(
    tmp_path: Path, make_tiny: Callable[..., Built], tiny: Built, connected_cluster: str
) -> None:
    first = make_tiny(
        Store(tmp_path), workers=Workers(ray=connected_cluster, shard=Shard.parse("1/2"))
    )
    assert first.missing
    built = make_tiny(Store(tmp_path), workers=Workers(ray=connected_cluster, in_flight=1))
    assert contents(built) == contents(tiny)


def results(address: str, work: Callable[..., object], tasks: list[object]) -> dict[int, object]:
    with closing(RayPool(address=address, in_flight=2).map(work, tasks)) as found:
        return dict(found)


@pytest.mark.system
def test_a_task_whose_worker_is_killed_at_each_try_is_named(cluster: str, tmp_path: Path) -> None:
    killing = f"echo x >> {tmp_path}/tries; kill -9 $PPID"
    with pytest.raises(WorkerError, match=r"echo x.*3 times"):
        results(cluster, os.system, [killing])
    assert (tmp_path / "tries").read_text().count("x") == TRIES


@pytest.mark.system
def test_a_task_that_fails_says_so_with_all_parts_of_its_error(cluster: str) -> None:
    with pytest.raises(DietError) as caught:
        results(cluster, Shard.parse, ["1/2", "3/2"])
    assert caught.value.value == "3/2"
    assert "in a worker" in caught.value.__notes__[0]


@pytest.mark.system
def test_failed_tasks_are_reported_in_place_of_results(cluster: str, tmp_path: Path) -> None:
    pool = RayPool(address=cluster, in_flight=1, tries=1)
    tasks = [f"touch {tmp_path}/done", "kill -9 $PPID", "no\0command", "exit 3"]
    with closing(pool.map(os.system, tasks, on_failure="report")) as found:
        made = dict(found)
    assert (made[0], made[3]) == (0, 3 << 8)
    kinds = [each.outcome for each in made.values() if isinstance(each, Failure)]
    assert kinds == ["crashed", "failed"]
    assert isinstance(made[2], Failure)
    assert made[2].reason == "ValueError: embedded null byte"


@pytest.mark.system
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o755), (0o002, 0o775)])
def test_a_node_grants_no_right_that_the_build_does_not_grant(
    cluster: str, tmp_path: Path, umask: int, mode: int
) -> None:
    """The second case is the control: workers of the cluster make folders that their group may write."""
    made, before = tmp_path / "made", os.umask(umask)
    try:
        results(cluster, os.mkdir, [made])
    finally:
        os.umask(before)
    assert made.stat().st_mode & 0o777 == mode


@pytest.mark.system
def test_whoever_builds_keeps_its_handler_of_sigterm(cluster: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert results(cluster, len, ["a", "bb", "ccc"]) == {0: 1, 1: 2, 2: 3}
    assert signal.getsignal(signal.SIGTERM) is before


def test_nothing_of_ray_listens_beyond_this_machine(cluster: str) -> None:
    listening = [
        (connection.pid, *connection.laddr)
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    owner = next(pid for pid, _, port in listening if port == int(cluster.rpartition(":")[2]))
    family = psutil.Process(psutil.Process(owner).ppid()).children(recursive=True)
    pids = {process.pid for process in family}
    found = {ip for pid, ip, _ in listening if pid in pids}
    assert found
    assert found <= {"127.0.0.1", "::ffff:127.0.0.1"}


@pytest.mark.parametrize(
    "address", ["auto", "ray://127.0.0.1:1", "127.0.0.1", ":6379", "a:b", "a:²"]
)
def test_what_is_no_address_is_refused_by_name(address: str) -> None:
    with pytest.raises(
        WorkerError, match="host:port", check=fields(name="$CURRICULUM_RAY_ADDRESS")
    ):
        results(address, len, ["a"])


def test_an_address_where_nobody_listens_is_refused_before_ray_looks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ray

    monkeypatch.setattr(ray, "init", lambda *_, **__: pytest.fail("Ray looks for minutes"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(WorkerError, match="cluster", check=fields(value=address)):
            results(address, len, ["a"])


class Named(Stage[list[str], str]):
    """Documents that hold nothing, of each name."""

    name = "documents"

    def tasks(self, inputs: list[str]) -> list[str]:
        return inputs

    def title(self, task: str) -> str:
        return task

    def recipes(self, task: str) -> list[Recipe]:
        return [Recipe(stage="documents", labels=(("repository", task),), revision=1)]

    def run(self, task: str, drafts: Sequence[StagingDirectory]) -> None:
        pass


def test_a_node_that_sees_another_folder_is_named(tmp_path: Path) -> None:
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    uuid, stage = _opened(here), Named()
    assignment = Assignment(task="fmt", recipes=tuple(stage.recipes("fmt")))
    with pytest.raises(WorkerError, match="another folder"):
        run_in_worker(stage, there.root, uuid, assignment)
    _opened(there)
    with pytest.raises(WorkerError, match="storage that all nodes share"):
        run_in_worker(stage, there.root, uuid, assignment)
    made = run_in_worker(stage, here.root, uuid, assignment)
    assert not isinstance(made, CorpusError)
    assert made[0].made


def test_a_node_with_another_revision_makes_nothing(tmp_path: Path) -> None:
    stage, planned = Named(), Recipe(stage="documents", labels=(), revision=2)
    uuid = _opened(Store(tmp_path))
    with pytest.raises(WorkerError, match=r"revision .*2.* 1\b"):
        run_in_worker(stage, tmp_path, uuid, Assignment(task="fmt", recipes=(planned,)))
    assert not [*Store(tmp_path).artefacts()]


def _opened(store: Store) -> str:
    store.open()
    return store.workspace().uuid


def test_a_worker_with_other_tools_is_named_by_what_differs() -> None:
    ours = Recipe(stage="documents", labels=(), revision=1, tools={"git": "2.39.5"})
    theirs = dataclasses.replace(ours, tools={"git": "2.47.0"})
    require_same([ours], [ours])
    with pytest.raises(WorkerError, match=r"tools .*2\.39\.5.* .*2\.47\.0"):
        require_same([ours], [theirs])


def test_the_environment_names_the_cluster_of_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURRICULUM_RAY_ADDRESS", raising=False)
    assert resources().ray is None
    for name in OWN:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("CURRICULUM_RAY_ADDRESS", "127.0.0.1:6379")
    assert resources().ray == "127.0.0.1:6379"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
