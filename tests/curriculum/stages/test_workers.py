"""Processes that build, and what becomes of them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from curriculum import stages
from curriculum.sandbox import Sandbox
from curriculum.stages import Built, Workers
from curriculum.stages.stage import Coordinator, Stage
from curriculum.stages.worker_rights import worker_rights
from curriculum.store import Recipe, StagingDirectory, Store
from curriculum.workers import Failure, WorkerPool, stopped_processes
from schemas.progress import Progress

SCRIPT = """
import os, sys, time
from pathlib import Path
from curriculum.stages.stage import Coordinator, Workers
from curriculum.stages.stage import Stage
from curriculum.store import Recipe, Store

ROOT = Path(sys.argv[1])

class Endless(Stage):
    name = "documents"

    def tasks(self, inputs):
        return inputs

    def title(self, task):
        return task

    def recipes(self, task):
        labels = (("repository", task),)
        return [Recipe(stage="documents", labels=labels, revision=1, config={"task": task})]

    def run(self, task, drafts):
        (ROOT / f"{task}.pid").write_text(str(os.getpid()))
        time.sleep(6000)

if __name__ == "__main__":
    coordinator = Coordinator(store=Store(ROOT / "home"), workers=Workers(processes=2))
    coordinator.make(Endless(), ["first", "second"])
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


class _Stopping(Stage[Sequence[str], str]):
    """A stage with a task whose worker stops itself, and with a slow one."""

    name = "documents"

    def tasks(self, inputs: Sequence[str]) -> Sequence[str]:
        return inputs

    def title(self, task: str) -> str:
        return task

    def recipes(self, task: str) -> Sequence[Recipe]:
        labels = (("repository", task),)
        return [Recipe(stage="documents", labels=labels, revision=1, config={"task": task})]

    def run(self, task: str, drafts: Sequence[StagingDirectory]) -> None:
        (drafts[0].path / "pid").write_text(str(os.getpid()))
        if task == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            time.sleep(3)


def test_a_build_says_which_worker_is_stopped_and_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow worker takes longer than a stopped one may, and isn't reported."""
    monkeypatch.setattr(stopped_processes, "STOPPED_SECONDS", 1.0)
    told: list[Progress] = []

    def watch(progress: Progress) -> None:
        if progress.note:
            told.append(progress)
            go_on()

    def go_on() -> None:
        for child in psutil.Process().children():
            if child.status() == psutil.STATUS_STOPPED:
                child.resume()

    late = threading.Timer(60, go_on)
    late.start()
    try:
        coordinator = Coordinator(
            store=Store(tmp_path / "home"), workers=Workers(processes=2), watch=watch
        )
        made = coordinator.make(_Stopping(), ["stops", "slow"])
    finally:
        late.cancel()
    pids = [int((artefact.path / "pid").read_text()) for artefact in made]
    (stopped,) = told
    assert stopped.note.startswith(f"worker process {pids[0]} is stopped")
    assert f"kill -CONT {pids[0]}" in stopped.note
    assert stopped.note.endswith("stops")
    assert (stopped.stage, stopped.total) == ("documents", 2)


@pytest.mark.system
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
    # This git leaves a mark beside itself, which a worker and what it starts may not.
    rights = worker_rights
    monkeypatch.setattr(
        stages, "worker_rights", lambda *given: _with_folder(rights(*given), programs)
    )
    built = make_tiny(Store(home), workers=Workers(processes=2))
    assert git.has_killed()
    assert [(one.key, one.content) for one in built.artefacts()] == [
        (one.key, one.content) for one in tiny.artefacts()
    ]


def _with_folder(sandbox: Sandbox | None, folder: Path) -> Sandbox | None:
    return sandbox and replace(sandbox, write=(*sandbox.write, str(folder)))


STEPS = 10
STOPPED_BUILD = """
from curriculum.workers import WorkerPool
from tests.curriculum.stages.test_workers import in_steps
if __name__ == "__main__":
    with WorkerPool(size=1, limit_seconds=4, tries=1).keeping() as kept:
        for task in range(2):
            for found in kept.map(in_steps, [task], on_failure="report"):
                print(found, flush=True)
"""


def in_steps(number: int) -> int:
    """Take two seconds, of which a stop takes no more than a step."""
    for _ in range(STEPS):
        time.sleep(0.2)
    return number


def hang(number: int) -> int:
    time.sleep(600)
    return number


def test_time_in_which_a_worker_is_stopped_is_no_time_of_its_task() -> None:
    def stop() -> None:
        (child,) = multiprocessing.active_children()
        worker = psutil.Process(child.pid)
        worker.suspend()
        time.sleep(6)
        worker.resume()

    with WorkerPool(size=1, limit_seconds=4, tries=1).keeping() as kept:
        assert [*kept.map(in_steps, [0], on_failure="report")] == [(0, 0)]
        threading.Timer(0.5, stop).start()
        began = time.monotonic()
        assert [*kept.map(in_steps, [1], on_failure="report")] == [(0, 1)]
        assert time.monotonic() - began > 6, "it was stopped for longer than its limit"
        ((_, failure),) = kept.map(hang, [2], on_failure="report")
    assert isinstance(failure, Failure)
    assert failure.outcome == "timed out"


def test_time_in_which_a_build_is_stopped_is_no_time_of_its_tasks(tmp_path: Path) -> None:
    script = tmp_path / "stopped_build.py"
    script.write_text(STOPPED_BUILD)
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    ) as build:
        assert build.stdout is not None
        assert build.stdout.readline() == "(0, 0)\n"
        time.sleep(0.5)
        os.killpg(build.pid, signal.SIGSTOP)
        time.sleep(6)
        os.killpg(build.pid, signal.SIGCONT)
        assert build.stdout.readline() == "(0, 1)\n"
