"""A team's database: PostgreSQL by one setting, and two workspaces of one name on it."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.serving import free_port, serving, wait_until

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]


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


def test_two_workspaces_of_one_name_run_on_one_postgres_without_meeting(
    database: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "one/ours", tmp_path / "two/ours"
    trace = tmp_path / "trace"
    with serving(first, PREFECT_API_DATABASE_CONNECTION_URL=database) as host:
        assert not (first / "prefect/prefect.db").exists()
        with serving(second, PREFECT_API_URL=f"{host.address}/api") as guest:
            with host.client() as client:
                names = {each.name for each in client.read_work_pools()}
            (other,) = [each for each in names if each.startswith("cpu-ours-")]
            suffix = other.removeprefix("cpu")
            assert names == {"cpu-ours", "gpu-ours", f"cpu{suffix}", f"gpu{suffix}"}
            runs = [
                host.nap("cpu", "-ours", trace=str(trace)),
                guest.nap("gpu", suffix, trace=str(trace)),
            ]
            for run in runs:
                host.await_state(run, "Completed")
    homes = {line.split()[1] for line in trace.read_text().splitlines()}
    assert homes == {str(first), str(second)}


def test_a_run_is_still_known_when_the_server_comes_back(database: str, tmp_path: Path) -> None:
    home = tmp_path / "kept"
    with serving(home, PREFECT_API_DATABASE_CONNECTION_URL=database) as served:
        run = served.nap("cpu", "-kept")
        served.await_state(run, "Completed")
    with serving(home, PREFECT_API_DATABASE_CONNECTION_URL=database) as served:
        wait_until(lambda: served.state(run) == "Completed")
