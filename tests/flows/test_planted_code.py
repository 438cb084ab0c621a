"""Nothing that a workspace or the current directory holds is executed by `curriculum serve`."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from curriculum.store import Store
from flows import settings
from flows.settings import prefect_variables
from tests.flows.hostile_settings import KEPT, PAYLOAD, THEIRS, plant_settings
from tests.flows.serving import Served, serving, wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def sentinel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is there as soon as anything of the sender's was executed."""
    return tmp_path_factory.mktemp("sentinel") / "executed"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, sentinel: Path) -> Iterator[Served]:
    """A workspace from somebody who wants to run commands, served from a shell that stands in it."""
    home = tmp_path_factory.mktemp("homes") / "received"
    plant_settings(home, sentinel)
    with serving(home, cwd=home) as served:
        yield served


def test_a_run_takes_neither_command_nor_environment_from_who_starts_it(
    served: Served, sentinel: Path, tmp_path: Path
) -> None:
    """Its process also logs in by itself: what it sends by a socket arrives."""
    trace = tmp_path / "trace"
    wanted = {
        "command": f"touch {sentinel}",
        "env": {"CURRICULUM_HOME": "/elsewhere", "env.CURRICULUM_HOME": "/elsewhere"},
        "env.CURRICULUM_HOME": "/elsewhere",
        "working_dir": str(served.home),
    }
    deployment = served.slow_flow("cpu")
    with served.client() as client:
        run = client.create_flow_run_from_deployment(
            deployment, parameters={"trace": str(trace)}, job_variables=wanted
        ).id
    served.await_state(run, "Completed")
    assert trace.read_text().split()[1:] == [str(served.home)]
    assert not sentinel.exists()

    def heard() -> bool:
        found = {"filter": {"event": {"name": ["curriculum.flow-run.ended"]}}}
        asked = served.request("events/filter", found)
        return f"prefect.flow-run.{run}" in read(asked)

    wait_until(heard)


def read(asked: Any) -> str:
    """The body of an answer."""
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return str(answer.read().decode())


def test_nothing_that_a_received_workspace_holds_is_executed_read_or_written_through(
    served: Served, sentinel: Path, tmp_path: Path
) -> None:
    assert not sentinel.exists()
    assert {(served.home / "prefect" / name).read_text() for name in KEPT} == {THEIRS}
    assert (served.home / "prefect/prefect.db").read_bytes() == b"a database"
    assert not (served.home / "elsewhere.db").exists()
    assert not settings.prefect_folder(served.home).is_relative_to(served.home)
    # The same folder as Prefect's home, and the same current directory, would have run it.
    quiet = settings.environment(prefect_variables.isolated(served.home))
    loose = {**quiet, "PREFECT_HOME": str(served.home / "prefect")}
    for name in ("PREFECT_LOGGING_SETTINGS_PATH", "PREFECT_PROFILES_PATH"):
        del loose[name]
    code = "from prefect.logging.configuration import setup_logging; setup_logging()"
    for environment, fires in ((quiet, False), (loose, True)):
        subprocess.run(
            [sys.executable, "-P", "-c", code], env=environment, cwd=tmp_path, capture_output=True
        )
        assert sentinel.exists() == fires
        sentinel.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "torch"], cwd=served.home, check=True)
    assert sentinel.exists()
    sentinel.unlink()


def test_a_command_takes_no_settings_from_the_folder_that_it_was_called_in(
    served: Served, tmp_path: Path
) -> None:
    """Files for Prefect in the current directory name another database, and count without our care."""
    code = (
        "import contextlib, pathlib, sys\n"
        "from flows import settings\n"
        "from flows.settings import prefect_variables\n"
        "home = pathlib.Path(sys.argv[1])\n"
        "settings.apply(prefect_variables.isolated(home))\n"
        "guard = prefect_variables.without_settings_files\n"
        "with guard(home) if sys.argv[2] == 'with' else contextlib.nullcontext():\n"
        "    from prefect.settings import get_current_settings\n"
        "print(get_current_settings().server.database.connection_url.get_secret_value())\n"
    )
    for care, named in (("with", "prefect.db"), ("without", "elsewhere.db")):
        command = [sys.executable, "-P", "-c", code, str(served.home), care]
        done = subprocess.run(command, cwd=served.home, capture_output=True, text=True, check=True)
        assert done.stdout.strip().endswith(named)


def test_a_worker_imports_nothing_from_the_folder_that_a_command_was_called_in(
    tmp_path: Path,
) -> None:
    """Python starts the processes of a pool with the current directory first on its path."""
    sentinel, here = tmp_path / "executed", tmp_path / "received"
    here.mkdir()
    (here / "multiprocessing.py").write_text(PAYLOAD.format(sentinel=str(sentinel)))
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "from flows import cli\n"
        "if __name__ == '__main__':\n"
        "    if sys.argv[1] == 'command':\n"
        "        cli.app = lambda: None\n"
        "        cli.main()\n"
        "    process = multiprocessing.get_context('spawn').Process(target=print)\n"
        "    process.start()\n"
        "    process.join()\n"
    )
    for caller, fires in (("command", False), ("anybody", True)):
        command = [sys.executable, str(script), caller]
        subprocess.run(command, cwd=here, capture_output=True, check=False)
        assert sentinel.exists() == fires


def test_a_workspace_elsewhere_or_of_another_sender_has_a_prefect_of_its_own(
    tmp_path: Path,
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for home in (one, two):
        Store(home).open()
    mine = settings.prefect_folder(one)
    (two / "workspace.json").write_bytes((one / "workspace.json").read_bytes())
    assert settings.prefect_folder(two) != mine, "a copy"
    (tmp_path / "link").symlink_to(one)
    assert settings.prefect_folder(settings.home(tmp_path / "link")) == mine
    (one / "workspace.json").unlink()
    Store(one).open()
    assert settings.prefect_folder(one) != mine, "another one at the same path"


def test_a_prefect_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Store(home).open()
    place = settings.prefect_folder(home)
    place.rmdir()
    place.symlink_to(tmp_path)
    try:
        with pytest.raises(settings.SettingError, match="link"):
            settings.prefect_folder(home)
    finally:
        place.unlink()
