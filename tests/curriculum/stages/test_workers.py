"""Processes that build, and what becomes of them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from curriculum import stages
from curriculum.sandbox import Sandbox
from curriculum.stages import Built, Workers
from curriculum.stages.worker_rights import worker_rights
from curriculum.store import Store

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
