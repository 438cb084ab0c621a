"""Commands in a received workspace of payloads: nothing is executed, nothing elsewhere is read."""

import contextlib
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import settings
from flows.settings import prefect_variables, trust
from tests.flows.cli_runner import curriculum
from tests.flows.hostile_settings import plant_settings
from tests.flows.hostile_workspace import (
    Canary,
    Sentinel,
    forge_catalog,
    plant,
    tiny_workspace,
)
from tests.flows.serving import free_port, furnish
from tests.flows.test_in_line import DIET

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]
SECRET = "SECRET-OF-ANOTHER-FOLDER"
PICKLES = ("current/state.pkl", "leases/state.pkl", "slots/state.pkl")
OK, WRONG = 0, 2
Calls = tuple[tuple[int, str], ...]
CALLS: dict[str, Calls] = {
    "ablate": ((WRONG, "{home}/ablation.yaml"),),
    "approve": ((WRONG, "plain first"),),
    "build": ((WRONG, "theirs"),),
    "check": ((OK, "{home}/documents"), (OK, "{home}/runs")),
    "compare": ((OK, "plain/first fmt/syntax"),),
    "dashboard": ((WRONG, "--no-open --port {port}"),),
    "demo": ((WRONG, "--repo {outside}/documents"),),
    "diet check": ((WRONG, "theirs --json"),),
    "diff": ((OK, "fmt/syntax fmt/file_graph"), (OK, "plain theirs")),
    "export": ((WRONG, "plain/first --to {out}/model"),),
    "gc": ((WRONG, "--yes"),),
    "import": ((WRONG, "{home}/leases/state.pkl"),),
    "init": ((WRONG, "own"),),
    "inspect": ((OK, "plain/first"), (OK, "rows --list"), (OK, "documents"), (OK, "mixtures --list")),
    "leakcheck": ((OK, "--model F --row-length 64 --dtype float32 --device cpu"),),
    "lineage": ((OK, "plain/first"), (OK, "plain/first --step 1")),
    "ls": ((OK, ""), (OK, "runs --json")),
    "merge": ((WRONG, "{home} --home {out}/merged"),),
    "mix": ((WRONG, "theirs"),),
    "query": ((OK, "'FROM internal.data'"), (OK, "'SELECT text FROM documents' --json")),
    "report": ((WRONG, ""),),
    "run": ((WRONG, "theirs"),),
    "generate": ((WRONG, "plain/first --tokens 8"),),
    "serve": ((WRONG, ""),),
    "shell": ((WRONG, "-- -c 'FROM runs'"),),
    "status": ((OK, "--all"), (OK, "--json")),
    "supply": ((WRONG, "small --phases-file short --commit-fraction 1"),),
    "tokenizer train": ((WRONG, "theirs"),),
    "train": ((WRONG, "theirs"),),
    "trust": ((OK, "--list"), (OK, "{copy}")),
}  # fmt: skip
"""The exit code that each command ends in, and its words; the workspace is the current directory.

Its corpus lies elsewhere: a report needs that, and may not read it. Its rows lack metadata of their
contract: a merge refuses them.
"""
DUCKDB = str(Path(sys.executable).with_name("duckdb"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """A folder with a workspace that was sent, a copy of it, and what lies outside."""

    folder: Path
    canary: Canary

    @property
    def home(self) -> Path:
        """The workspace."""
        return self.folder / "home"

    def command(self, name: str, words: str) -> list[str]:
        """A command line, with the places and the port filled in."""
        copy = self.folder / "copy"
        if "{copy}" in words and not copy.exists():
            shutil.copytree(self.home, copy)
        filled = words.format(
            home=self.home, out=self.folder / "out", outside=self.folder / "outside", copy=copy,
            port=free_port(),
        )  # fmt: skip
        program = Path(sys.executable).with_name("curriculum")
        return [str(program), *name.split(), *shlex.split(filled)]

    def ended(self, name: str, words: str) -> tuple[int, str]:
        """Call a command from within the workspace; the exit code, and what it printed."""
        ask = self.command(name, words)
        with subprocess.Popen(
            ask, cwd=self.home, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            said = ""
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    said += line
                    if "Press Ctrl-C to stop" in line:
                        process.send_signal(signal.SIGINT)
            except BaseException:
                process.kill()  # Leaving the block waits for its end, also after this test's timeout.
                raise
        return process.returncode, said

    @property
    def environment(self) -> dict[str, str]:
        """The environment of whoever calls: the workspace is named there."""
        return settings.environment({"CURRICULUM_HOME": str(self.home)})


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURRICULUM_TRUST")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a trained model, as its sender made it."""
    folder = tmp_path_factory.mktemp("honest")
    home = folder / "home"
    home.mkdir()
    tiny_workspace(home)
    furnish(home, folder / "samples", plain=diet("templates"))
    done = curriculum("train", "plain", home=home, cwd=home)
    assert done.returncode == OK, done.stdout + done.stderr
    shutil.rmtree(home / "catalog", ignore_errors=True)
    return home


def _received(folder: Path, honest: Path) -> Received:
    """Plant all payloads in a copy of an honest workspace, and send it."""
    made = Received(folder=folder, canary=Canary(file=folder / "canary"))
    home = folder / "sender" / "home"
    (folder / "out").mkdir()
    shutil.copytree(honest, home)
    theirs = f"trainer: {{command: 'touch {made.canary.file} {{job}}.touched'}}\n"
    (home / "diets" / "theirs.yaml").write_text(diet("testing") + theirs)
    outside = Sentinel.beside(folder / "outside", home)
    secret = outside.folder / "secret.parquet"
    pq.write_table(pa.table({"text": [SECRET], "repository": [SECRET]}), secret)
    plant(home, made.canary)
    plant_settings(home, made.canary.file)
    (home / "catalog.sql").write_text(f".shell touch {made.canary.file}\n")
    forge_catalog(home, secret)
    shutil.copytree(home, made.home)
    return made


def diet(specialist: str) -> str:
    """A diet of one phase that trains in seconds, of a specialist."""
    return DIET.format(specialist=specialist, seed=1)


@pytest.fixture(scope="module")
def received(honest: Path, tmp_path_factory: pytest.TempPathFactory) -> Received:
    """A workspace whose payloads lie where something used to read them."""
    return _received(tmp_path_factory.mktemp("received"), honest)


@contextlib.contextmanager
def unharmed(made: Received) -> Iterator[None]:
    """Nothing is executed within the block, and neither the files outside nor Prefect's decoys change."""
    places = [Sentinel(folder=made.folder / "outside"), Sentinel(folder=made.home / "prefect")]
    before = [each.fingerprint() for each in places]
    yield
    assert not made.canary.sings
    assert [each.fingerprint() for each in places] == before
    assert not (made.home / "elsewhere.db").exists()


@pytest.mark.parametrize("name", CALLS)
def test_a_command_executes_nothing_and_reads_nothing_elsewhere(
    received: Received, name: str
) -> None:
    for code, words in CALLS[name]:
        with unharmed(received):
            ended, said = received.ended(name, words)
        assert ended == code, f"{name} {words}: {said}"
        assert SECRET not in said
        assert "Traceback" not in said


def fires(canary: Canary, command: list[str], cwd: Path, **variables: str) -> bool:
    """Run a program that is known to read a payload; True where that executes something."""
    assert not canary.sings
    environment = settings.environment(variables)
    subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False, timeout=300)
    sings = canary.sings
    canary.file.unlink(missing_ok=True)
    return sings


def test_each_payload_fires_where_something_reads_it(received: Received, tmp_path: Path) -> None:
    """The control: the programs that read these files before, called so that they read them again."""
    home, canary = received.home, received.canary
    python = sys.executable
    assert fires(canary, [python, "-m", "torch"], home), "modules in the current directory"
    quiet = prefect_variables.isolated(home) | {"PREFECT_HOME": str(home / "prefect")}
    for name in ("PREFECT_LOGGING_SETTINGS_PATH", "PREFECT_PROFILES_PATH"):
        del quiet[name]
    code = "from prefect.logging.configuration import setup_logging; setup_logging()"
    assert fires(canary, [python, "-P", "-c", code], tmp_path, **quiet), "profiles and logging"
    code = (
        "from prefect.settings import get_current_settings as of\n"
        "print(of().server.database.connection_url.get_secret_value())"
    )
    answer = subprocess.check_output(
        [python, "-P", "-c", code], cwd=tmp_path, env=settings.environment(quiet)
    )
    assert answer.decode().strip().endswith(str(home / "prefect" / "prefect.db"))
    for name in PICKLES:
        code = f"import pickle; pickle.load(open({name!r}, 'rb'))"
        assert fires(canary, [python, "-P", "-c", code], home), name
    (tmp_path / "catalog.sql").write_text(f".shell touch {canary.file}\n")
    assert fires(canary, [DUCKDB, "-init", "catalog.sql", "-c", "SELECT 1"], tmp_path)


def test_a_forged_table_leads_outside_where_its_paths_are_opened(tmp_path: Path) -> None:
    tiny_workspace(tmp_path / "home")
    secret = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"text": [SECRET]}), secret)
    forge_catalog(tmp_path / "home", secret)
    (kept,) = (tmp_path / "home" / "catalog").glob("*/data.parquet")
    (name, *_) = pq.read_table(kept)["file"].unique().to_pylist()
    with contextlib.chdir(tmp_path / "home"):
        answer = duckdb.execute(f"SELECT text FROM '{name}'").fetchall()
    assert answer == [(SECRET,)]


def test_the_trainer_of_a_diet_fires_where_the_workspace_is_trusted(received: Received) -> None:
    trust.trust(received.home)
    try:
        _, said = received.ended("train", "theirs")
        assert received.canary.sings, said
    finally:
        trust.forget(received.home)
        received.canary.file.unlink(missing_ok=True)
