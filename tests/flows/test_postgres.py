"""A team's database: PostgreSQL by one setting, and two workspaces of one name on it."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from curriculum.store import Store
from flows import settings
from tests.flows.serving import free_port, serving

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
pytestmark = [pytest.mark.postgres, pytest.mark.system, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of a database on a server that is thrown away; it must not run as root."""
    folder, port = Path(tempfile.mkdtemp(prefix="pg")), free_port()
    options = f"-c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -p {port}"
    with contextlib.ExitStack() as ending:
        ending.callback(shutil.rmtree, folder)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        _postgres("initdb", "-A", "trust", "-U", "team", "-D", f"{folder}/data", "--no-sync")
        _postgres(
            "pg_ctl", "-w", "-D", f"{folder}/data", "-l", f"{folder}/log", "-o", options, "start"
        )
        ending.callback(_postgres, "pg_ctl", "-w", "-D", f"{folder}/data", "-m", "fast", "stop")
        yield f"postgresql+asyncpg://team@127.0.0.1:{port}/postgres"


def _postgres(program: str, *arguments: str) -> None:
    found = next(each / program for each in reversed(BINARIES) if (each / program).is_file())
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*user, str(found), *arguments],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True, kw_only=True)
class Twins:
    """Two workspaces of one name that ran on one database, and what was there then."""

    first: Path
    second: Path
    pools: set[str]
    runs: list[UUID]
    homes: set[str]
    """Workspaces of the runs."""


@pytest.fixture(scope="module")
def twins(database: str, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    """The second joins the server of the first."""
    folder = tmp_path_factory.mktemp("twins")
    first, second, trace = folder / "one/ours", folder / "two/ours", folder / "trace"
    with (
        serving(first, PREFECT_API_DATABASE_CONNECTION_URL=database) as host,
        serving(
            second,
            host=first,
            PREFECT_API_URL=f"{host.address}/api",
            PREFECT_API_AUTH_STRING=host.secret,
        ) as guest,
    ):
        with host.client() as client:
            pools = {each.name for each in client.read_work_pools()}
        (other,) = [each for each in pools if each.startswith("cpu-ours-")]
        runs = [
            host.nap("cpu", "-ours", trace=str(trace)),
            guest.nap("gpu", other.removeprefix("cpu"), trace=str(trace)),
        ]
        for run in runs:
            host.await_state(run, "Completed")
    homes = {line.split()[1] for line in trace.read_text().splitlines()}
    return Twins(first=first, second=second, pools=pools, runs=runs, homes=homes)


def test_two_workspaces_of_one_name_run_on_one_postgres_without_meeting(twins: Twins) -> None:
    assert not (settings.prefect_folder(twins.first) / "prefect.db").exists()
    suffix = f"-ours-{Store(twins.second).workspace().uuid[:4]}"
    assert twins.pools == {"cpu-ours", "gpu-ours", f"cpu{suffix}", f"gpu{suffix}"}
    assert twins.homes == {str(twins.first), str(twins.second)}


def test_a_run_is_still_known_when_the_server_comes_back(database: str, twins: Twins) -> None:
    with serving(twins.first, PREFECT_API_DATABASE_CONNECTION_URL=database) as served:
        assert [served.state(run) for run in twins.runs] == ["Completed", "Completed"]
