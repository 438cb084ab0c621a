"""Processes that build, and what becomes of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from curriculum.build import Built, Shard
from curriculum.store import Store
from curriculum.workers.pool import TRIES, each
from schemas.errors import DietError, WorkerError

SCRIPT = """
import os, sys, time
from pathlib import Path
from curriculum.build.workers import Team
from curriculum.store import Recipe, Store
from schemas.progress import unwatched

ROOT = Path(sys.argv[1])

def make(store, task):
    def fill(drafts):
        (ROOT / f"{task}.pid").write_text(str(os.getpid()))
        time.sleep(6000)
    recipe = Recipe(stage="documents", labels=(("repository", task),), revision=1, config={"task": task})
    return tuple(store.produce([recipe], fill))

if __name__ == "__main__":
    team = Team(store=Store(ROOT / "home"), workers=2, watch=unwatched)
    team.each("documents", ["first", "second"], make, str)
"""


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen([sys.executable, str(script), str(tmp_path)]) as process:
        try:
            workers = _workers(process, [tmp_path / "first.pid", tmp_path / "second.pid"])
        finally:
            process.kill()
    _, alive = psutil.wait_procs(workers, timeout=120)
    assert alive == []


def _workers(process: "subprocess.Popen[bytes]", files: list[Path]) -> list[psutil.Process]:
    """The workers, once each is at its task."""
    deadline = time.monotonic() + 120
    while not all(each.exists() and each.read_text() for each in files):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return [psutil.Process(int(each.read_text())) for each in files]


def test_a_build_whose_worker_is_killed_half_way_leaves_the_same(
    tmp_path: Path,
    make_tiny: Callable[..., Built],
    tiny: Built,
    make_git: Callable[[Path], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, programs = tmp_path / "home", tmp_path / "programs"
    programs.mkdir()
    git = make_git(programs)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    git.kill_one(home)
    built = make_tiny(Store(home), workers=2)
    assert git.has_killed()
    assert [(one.key, one.content) for one in built.artefacts()] == [
        (one.key, one.content) for one in tiny.artefacts()
    ]


# Tasks by standard functions, which a spawned process can import: this file it can't.


def results(work: Callable[[str], object], tasks: list[str], size: int = 2) -> dict[int, object]:
    with closing(each(work, tasks, size=size, name=str)) as found:
        return dict(found)


def test_results_come_with_the_numbers_of_their_tasks() -> None:
    assert results(len, ["a", "bb", "ccc", "dddd"]) == {0: 1, 1: 2, 2: 3, 3: 4}


def test_a_task_whose_worker_is_killed_at_each_try_is_named_and_the_others_are_finished(
    tmp_path: Path,
) -> None:
    killing = f"echo x >> {tmp_path}/tries; kill -9 $PPID"
    found: list[int] = []
    with (
        pytest.raises(WorkerError, match=r"echo x.*SIGKILL.*3 times.*--workers"),
        closing(each(os.system, [f"touch {tmp_path}/done", killing], size=1, name=str)) as made,
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


def test_workers_are_gone_when_nobody_wants_more_results() -> None:
    with closing(each(os.system, ["true", "sleep 6000"], size=2, name=str)) as found:
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
        closing(each(Shard.parse, ["1/2", "2/1"], size=2, name=str)) as found,
    ):
        list(found)
    assert (caught.value.name, caught.value.value) == ("--shard", "2/1")
    assert caught.value.cure.startswith("Of three shards")


def test_an_interrupted_worker_interrupts_the_build() -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        closing(each(signal.raise_signal, [signal.SIGINT], size=1, name=str)) as found,
    ):
        list(found)
