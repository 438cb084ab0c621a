"""Training killed at any moment on a busy machine, and begun again: it ends, and does not hang."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from curriculum.train.run_directory import read_report

pytestmark = pytest.mark.timeout(900)

MARK = "KILLED_AT_RANDOM"
WITHIN_S = 400.0
"""Timeout of a run of a few seconds on a machine with ten busy processes."""
LAUNCH = """
import sys
from pathlib import Path
from curriculum.store import Store
from curriculum.train.launch.launcher import Launch, launch_job
from curriculum.train.launch.gpu_slots import Slots
job = Path(sys.argv[1])
store = Store.containing(job)
slots = Slots(store.root / "slots", 1)
launch_job(store, job, Launch(slots=slots, tell=lambda line: print(line, flush=True)))
"""
SHAPES: tuple[dict[str, int], ...] = ({}, {"processes": 2}, {"workers": 2})
"""Settings of jobs: one process, two ranks, loader workers."""


class Runs:
    """Launchers of one run, and all processes that they start."""

    def __init__(self, job: Path) -> None:
        self.job, self.mark = job, uuid.uuid4().hex
        self.said = job.with_name("said.txt")

    def start(self) -> "subprocess.Popen[bytes]":
        """Launch the run; a stack is written where a process is aborted."""
        with self.said.open("ab") as said:
            return subprocess.Popen(
                [sys.executable, "-c", LAUNCH, str(self.job)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, MARK: self.mark, "PYTHONFAULTHANDLER": "1"},
                start_new_session=True,
            )

    def alive(self) -> list[int]:
        """The pids of what was started and still runs, the first first."""
        found, words = [], f"{MARK}={self.mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if words in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return sorted(found)

    def end(self) -> None:
        """Leave no process behind."""
        while left := self.alive():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def require_end(self, process: "subprocess.Popen[bytes]") -> int:
        """The exit code of a launcher; where it hangs, an error with the stacks of all that run."""
        try:
            return process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            where = {pid: waits(pid) for pid in self.alive()}
            for pid in reversed(self.alive()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)
                time.sleep(1.0)
            log = self.job.with_name("train.log")
            stacks = [file.read_text(errors="replace")[-9000:] for file in (self.said, log)]
            raise AssertionError("\n".join(["it hangs", str(where), *stacks])) from None


def waits(pid: int) -> str:
    """Return a process's command and the system call that it waits in."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[-90:]
        return f"{command}: {Path(f'/proc/{pid}/wchan').read_text()}"
    return "gone"


@pytest.fixture
def busy(spinning: int) -> Iterator[None]:
    """Other work on the machine, which gives way to none of ours and takes all that is left."""
    endless = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
    spin = [sys.executable, "-c", endless]
    started = [subprocess.Popen(["nice", "-n", "19", *spin]) for _ in range(spinning)]
    yield
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def runs(make_world: Callable[..., Any], tmp_path: Path, seed: int) -> Iterator[Runs]:
    world = make_world(tmp_path / "workspace", slots=96)
    job = world.job(steps=24, **SHAPES[seed % len(SHAPES)])
    runs = Runs(world.open_run(job) / "job.json")
    yield runs
    runs.end()


def kill_somebody(runs: Runs, launcher: int, dice: random.Random) -> None:
    """Kill the launcher, one of all, the group of one of all, or all."""
    alive = runs.alive()
    if not alive:
        return
    one = dice.choice(alive)
    with contextlib.suppress(ProcessLookupError):
        kind = dice.randrange(4)
        if kind == 1:
            os.killpg(os.getpgid(one), signal.SIGKILL)
            return
        for pid in ([launcher], [], [one], alive)[kind]:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("seed", "spinning", "latest_s"),
    [
        # Beside other tests; what spins would take a core from them.
        pytest.param(0, 0, 8.0, marks=pytest.mark.system),
        *(pytest.param(seed, 8, 20.0, marks=pytest.mark.slow) for seed in range(1, 50)),
    ],
)
def test_a_run_killed_at_any_moment_and_begun_again_ends(
    busy: None, runs: Runs, seed: int, latest_s: float
) -> None:
    dice = random.Random(seed)
    process = runs.start()
    time.sleep(dice.uniform(0.5, latest_s))
    kill_somebody(runs, process.pid, dice)
    runs.require_end(process)
    assert runs.require_end(runs.start()) == 0, runs.said.read_text()
    assert read_report(runs.job.parent).stopped == "budget"
