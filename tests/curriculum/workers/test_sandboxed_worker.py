"""A worker that parses foreign text reads and writes what its pool names, and answers with values."""

import os
import pickle
import socket
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from curriculum.sandbox import Sandbox, code_paths, landlock
from curriculum.workers import Failure, WorkerPool, sandboxed_worker
from curriculum.workers.answers import pickled, unpickled
from schemas.errors import CorpusError, WorkerError

pytestmark = pytest.mark.skipif(not landlock(), reason="needs Landlock")

TESTS = str(Path(__file__).parents[2])
SECRET = "PREFECT_SERVER_API_AUTH_STRING"


class Forged:
    """An answer that runs a command where it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (self.command,)


def read_key(folder: Path) -> str:
    return (folder / ".ssh" / "id").read_text()


def write_outside(folder: Path) -> int:
    return (folder / "outside").write_text("x")


def write_draft(folder: Path) -> int:
    return (folder / "drafts" / "inside").write_text("x")


def open_socket(_: Path) -> int:
    with socket.socket() as opened:
        return opened.fileno()


def run_program(_: Path) -> int:
    return os.posix_spawn("/bin/true", ["true"], {})


def environment(_: Path) -> dict[str, str]:
    return dict(os.environ)


def first_environment(_: Path) -> str:
    return Path("/proc/self/environ").read_text()


def threads(_: Path) -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def forge(folder: Path) -> Forged:
    return Forged(f"touch {folder}/forged")


ATTACKS = (read_key, write_outside, open_socket, run_program)


def answers(folder: Path, work: Callable[[Path], object], *, confined: bool) -> object:
    sandbox = Sandbox(
        read=(*code_paths(), TESTS), write=(str(folder / "drafts"),), file_bytes=1 << 20
    )
    pool = WorkerPool(size=1, tries=1, sandbox=sandbox if confined else None)
    with closing(pool.map(work, [folder], on_failure="report")) as found:
        ((_, answer),) = found
    return answer


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of drafts, a key in a home folder, and a secret in the environment."""
    for name in ("drafts", ".ssh"):
        (tmp_path / name).mkdir()
    (tmp_path / ".ssh" / "id").write_text("key")
    monkeypatch.setenv(SECRET, "curriculum:token")
    return tmp_path


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_confined_worker_is_refused_what_another_worker_may_do(
    home: Path, attack: Callable[[Path], object]
) -> None:
    refused = answers(home, attack, confined=True)
    assert isinstance(refused, Failure)
    assert isinstance(refused.error, PermissionError)
    assert not (home / "outside").exists()
    assert not isinstance(answers(home, attack, confined=False), Failure)


def test_a_confined_worker_writes_its_drafts(home: Path) -> None:
    assert answers(home, write_draft, confined=True) == 1
    assert (home / "drafts" / "inside").read_text() == "x"


def test_a_confined_worker_has_no_environment_of_ours(home: Path) -> None:
    given = answers(home, environment, confined=True)
    assert isinstance(given, dict)
    # These are named when the package is imported, in the worker too.
    folders = {"TORCHINDUCTOR_CACHE_DIR", "POLARS_OOC_SPILL_DIR"}
    off = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "TORCHINDUCTOR_ENABLE_CACHING_MODULE"}
    own = given.keys() - folders - off
    assert own <= {"LC_ALL", "LC_CTYPE", "PATH", "PYTHONPATH", "TMPDIR", "TZ"}
    assert all(Path(given[name]).is_relative_to(given["TMPDIR"]) for name in folders)
    assert not Path(given["TMPDIR"]).exists()
    assert isinstance(answers(home, first_environment, confined=True), Failure)
    assert SECRET in str(answers(home, first_environment, confined=False))


def test_no_thread_of_a_confined_worker_runs_before_it_is_confined(home: Path) -> None:
    sandbox = Sandbox(read=(*code_paths(), TESTS, "/proc/self/task"))
    pool = WorkerPool(size=1, tries=1, sandbox=sandbox)
    with closing(pool.map(threads, [home])) as found:
        # The second one waits for the end of the other process.
        assert dict(found) == {0: 2}


def test_an_answer_that_would_run_a_command_is_refused(home: Path) -> None:
    refused = answers(home, forge, confined=True)
    assert isinstance(refused, Failure)
    assert refused.outcome == "crashed"
    assert "system is not a type" in refused.reason
    assert not (home / "forged").exists()
    answers(home, forge, confined=False)
    assert (home / "forged").exists()


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, b"x"], "b": (frozenset({1}), Path("/a"))},
        Failure(outcome="failed", reason="x", error=CorpusError("a", cause="b", cure="c")),
        Failure(outcome="failed", reason="x", error=PermissionError(13, "no")),
    ],
)
def test_values_and_errors_are_read_as_they_were(value: object) -> None:
    assert repr(unpickled(pickle.dumps(value))) == repr(value)


def test_an_error_of_a_foreign_type_is_its_text() -> None:
    class StrangeError(Exception):
        pass

    failure = Failure(outcome="failed", reason="x", error=StrangeError("lost"))
    found = unpickled(pickled(failure, read=unpickled))
    assert isinstance(found, Failure)
    assert isinstance(found.error, RuntimeError)


def test_a_confined_worker_ends_when_its_pool_does(home: Path) -> None:
    pool = WorkerPool(size=1, tries=1, limit_seconds=1.0, sandbox=Sandbox(read=code_paths()))
    with closing(pool.map(sleep, [600.0], on_failure="report")) as found:
        ((_, answer),) = found
    assert isinstance(answer, Failure)


def test_a_confined_worker_that_dies_while_it_starts_fails_its_task(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is sent to it than its pipe holds, so the pipe breaks while it is written to."""
    monkeypatch.setattr(sandboxed_worker, "PYTHON", ("/bin/true",))
    sandbox = Sandbox(write=("/" * (1 << 22),))
    pool = WorkerPool(size=1, tries=2, sandbox=sandbox)
    with closing(pool.map(write_draft, [home], on_failure="report")) as found:
        ((_, failure),) = found
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, WorkerError)
    assert failure.error.value == "ended with code 0"
