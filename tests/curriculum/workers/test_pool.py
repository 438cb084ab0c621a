"""One pool with the settings of builds and of clang: deaths, errors, limits, interrupts."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from curriculum.stages import Shard
from curriculum.workers import TRIES, Failure, WorkerPool
from curriculum.workers import pool as workers_pool
from curriculum.workers.answers import attempt, pickled
from schemas.errors import DietError, WorkerError

BUILDS = WorkerPool(size=2)
CLANG = WorkerPool(size=2, limit_seconds=600.0, tries=1, quiet=True)
BOTH = pytest.mark.parametrize("settings", ["BUILDS", "CLANG"])
POOLS = {"BUILDS": BUILDS, "CLANG": CLANG}
SCRIPT = """
import os, signal, sys, time
from contextlib import closing
from pathlib import Path
from curriculum.workers import WorkerPool

def wait(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(6000)

if __name__ == "__main__":
    # A process that a shell starts in the background ignores interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with closing(%s.map(wait, sys.argv[1:])) as results:
        try:
            list(results)
        except KeyboardInterrupt:
            sys.exit(130)
"""


@BOTH
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent_and_print_nothing(
    tmp_path: Path, settings: str, end: signal.Signals
) -> None:
    script, files = tmp_path / "script.py", [tmp_path / "first.pid", tmp_path / "second.pid"]
    script.write_text(SCRIPT % repr(POOLS[settings]))
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, script, *files], stderr=errors, start_new_session=True
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 120
            while not all(each.exists() and each.read_text() for each in files):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            workers = [psutil.Process(int(each.read_text())) for each in files]
            # Ctrl-C in a terminal reaches the workers too.
            (os.killpg if end == signal.SIGINT else os.kill)(process.pid, end)
            assert process.wait(120) == (130 if end == signal.SIGINT else -end)
        finally:
            process.kill()
    _, alive = psutil.wait_procs(workers, timeout=120)
    assert alive == []
    assert (tmp_path / "errors").read_text() == ""


# Tasks by standard functions, which a spawned process can import: this file it can't.


def results(work: Callable[[str], object], tasks: list[str], size: int = 2) -> dict[int, object]:
    with closing(WorkerPool(size=size).map(work, tasks)) as found:
        return dict(found)


def reported(
    pool: WorkerPool, work: Callable[[str], object], tasks: list[str]
) -> dict[int, object]:
    with closing(pool.map(work, tasks, on_failure="report")) as found:
        return dict(found)


@BOTH
def test_results_come_with_the_numbers_of_their_tasks(settings: str) -> None:
    assert reported(POOLS[settings], len, ["a", "bb", "ccc", "dddd"]) == {0: 1, 1: 2, 2: 3, 3: 4}


@BOTH
def test_a_killed_worker_is_reported_and_the_others_go_on(settings: str, tmp_path: Path) -> None:
    pool = POOLS[settings]
    killing = f"echo x >> {tmp_path}/tries; kill -9 $PPID"
    made = reported(pool, os.system, ["true", killing, "true"])
    assert isinstance(made[1], Failure)
    assert isinstance(made[1].reason, str)
    assert (made[1].outcome, made[1].reason.split()[-1]) == ("crashed", "SIGKILL")
    assert (made[0], made[2]) == (0, 0)
    assert (tmp_path / "tries").read_text().count("x") == pool.tries


def test_a_worker_over_its_time_is_killed_and_its_task_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers_pool, "_START_SECONDS", 5.0)
    pool = WorkerPool(size=1, limit_seconds=1.0)
    tasks = ["true", "exec sleep 6000", "true"]
    made = reported(pool, os.system, tasks)
    assert isinstance(made[1], Failure)
    assert (made[1].outcome, made[1].reason) == ("timed out", "no end after 1 s")
    assert (made[0], made[2]) == (0, 0)
    with (
        pytest.raises(WorkerError, match=r"exec sleep 6000: .* 1 s"),
        closing(pool.map(os.system, tasks)) as found,
    ):
        list(found)


class OddError(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def raise_odd(task: str) -> None:
    raise OddError(task, "more")


def test_an_error_that_cannot_be_read_back_crosses_with_its_reason() -> None:
    failure = attempt(raise_odd, "found")
    with pytest.raises(TypeError):
        pickle.loads(pickle.dumps(failure))
    read = pickle.loads(pickled(failure))
    assert isinstance(read.error, RuntimeError)
    assert read.reason == "OddError: found"
    assert "raise_odd" in read.trace


def test_a_result_that_cannot_be_pickled_is_a_failure() -> None:
    read = pickle.loads(pickled(lambda: None))
    assert isinstance(read, Failure)
    assert "lambda" in read.trace


def test_a_task_whose_worker_is_killed_at_each_try_is_named_and_the_others_are_finished(
    tmp_path: Path,
) -> None:
    killing = f"echo x >> {tmp_path}/tries; kill -9 $PPID"
    found: list[int] = []
    with (
        pytest.raises(WorkerError, match=r"echo x.*SIGKILL.*3 times.*--workers"),
        closing(WorkerPool(size=1).map(os.system, [f"touch {tmp_path}/done", killing])) as made,
    ):
        found.extend(at for at, _ in made)
    assert found == [0]
    assert (tmp_path / "done").exists()
    assert (tmp_path / "tries").read_text().count("x") == TRIES


def test_a_task_whose_worker_is_killed_once_is_tried_again(tmp_path: Path) -> None:
    once = f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; kill -9 $PPID; }}"
    assert results(os.system, [once, "exit 3"], size=1) == {0: 0, 1: 3 << 8}


def test_a_task_that_fails_says_so_once_those_that_run_are_finished(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="invalid literal") as caught:
        results(int, ["7", "seven", "8"], size=1)
    assert "in a worker" in caught.value.__notes__[0]


def _children() -> set[int]:
    return {one.pid for one in psutil.Process().children() if "spawn_main" in _line(one)}


def test_kept_workers_answer_one_map_after_another_and_end_with_the_block() -> None:
    before = _children()
    with WorkerPool(size=2).keeping() as pool:
        assert dict(pool.map(len, ["a", "bb", "ccc"])) == {0: 1, 1: 2, 2: 3}
        first = _children() - before
        assert len(first) == 2
        assert dict(pool.map(int, ["7", "8", "9"])) == {0: 7, 1: 8, 2: 9}
        assert dict(pool.map(int, ["5"])) == {0: 5}
        assert _children() - before == first
        os.kill(min(first), signal.SIGKILL)
        assert dict(pool.map(len, ["a", "bb"])) == {0: 1, 1: 2}
    assert _children() == before


def test_a_kept_worker_whose_results_nobody_wants_is_gone() -> None:
    before = _children()
    with WorkerPool(size=2).keeping() as pool:
        with closing(pool.map(os.system, ["true", "sleep 6000"])) as found:
            next(found)
        assert dict(pool.map(len, ["a", "bb"])) == {0: 1, 1: 2}
    assert _children() == before


def test_workers_are_gone_when_nobody_wants_more_results() -> None:
    with closing(WorkerPool(size=2).map(os.system, ["true", "sleep 6000"])) as found:
        next(found)
        workers = [one for one in psutil.Process().children() if "spawn_main" in _line(one)]
        assert workers
    assert not [one for one in workers if one.is_running() and one.status() != "zombie"]


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_an_error_of_ours_crosses_with_all_its_parts() -> None:
    with (
        pytest.raises(DietError) as caught,
        closing(WorkerPool(size=2).map(Shard.parse, ["1/2", "2/1"])) as found,
    ):
        list(found)
    assert (caught.value.name, caught.value.value) == ("--shard", "2/1")
    assert caught.value.cure


def test_an_interrupted_worker_interrupts_the_build() -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        closing(WorkerPool(size=1).map(signal.raise_signal, [signal.SIGINT])) as found,
    ):
        list(found)
