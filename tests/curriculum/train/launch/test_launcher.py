"""A launcher and its job: what is heard, what an end means, and that nothing outlives either for long."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from curriculum.store import Store
from curriculum.train import run_directory as directory_module
from curriculum.train.launch import launcher as module
from curriculum.train.launch.gpu_slots import Slots
from curriculum.train.launch.launcher import Launch, launch_job
from curriculum.train.processes import MARK, end_all, processes_of
from curriculum.train.run import Run, train
from schemas.errors import JobError, JobKilledError, JobMemoryError, NotFiniteError
from schemas.job import Heartbeat, Report
from schemas.json_text import now
from schemas.progress import Progress
from tests import factories

Play = Callable[[str], None]


def report(**changes: Any) -> str:
    own: dict[str, Any] = {"specialist": "tester", "reason": "12 steps", "steps": 12}
    return factories.run_report(**{**own, **changes}).model_dump_json()


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Lets a shell script stand in for the trainer; it stands in the run's directory."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.02)

    def play(body: str) -> None:
        script = tmp_path / "trainer.sh"
        script.write_text(f'cd "$(dirname "$1")"\n{body}\n')
        monkeypatch.setattr(module, "COMMAND", ("sh", str(script)))

    return play


@pytest.fixture
def long_world(make_world: Callable[..., Any], tmp_path: Path) -> Any:
    """With rows for a hundred steps: it isn't over before it is killed."""
    return make_world(tmp_path / "long", slots=400)


@pytest.fixture
def begin() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Trains a run in a process of its own, which is killed in the end."""
    started: list[subprocess.Popen[str]] = []
    body = (
        "import sys\n"
        "from pathlib import Path\n"
        "from curriculum.store import Store\n"
        "from curriculum.train.launch.launcher import Launch, launch_job\n"
        "from curriculum.train.launch.gpu_slots import Slots\n"
        "job = Path(sys.argv[1])\n"
        "slots = Slots(Path(sys.argv[2]), 1)\n"
        "tell = lambda line: sys.stdout.write(line + chr(10))\n"
        "launch_job(Store.containing(job), job, Launch(slots=slots, tell=tell))\n"
    )

    def begin(directory: Path) -> "subprocess.Popen[str]":
        slots = Store.containing(directory).root / "slots"
        command = [sys.executable, "-uc", body, str(directory / "job.json"), str(slots)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def until(holds: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def hear(words: str, process: "subprocess.Popen[str]") -> None:
    """Wait for a line that starts so."""
    assert process.stdout is not None
    assert any(line.startswith(words) for line in process.stdout)


def test_lines_and_steps_are_heard_as_they_come_and_the_report_is_read(
    world: Any, play: Play, tmp_path: Path
) -> None:
    beat = Heartbeat(step=3, steps=12, valid_tokens=9, tokens_per_second=10.0, at=now())
    (tmp_path / "report").write_text(report())
    play(
        f"echo first; echo '{beat.model_dump_json()}' > heartbeat.json; sleep 0.5; echo last\n"
        f"cp {tmp_path / 'report'} report.json"
    )
    directory = world.open_run(world.job())
    (directory / "train.log").write_text("of an earlier try\n")
    (directory / "heartbeat.json").write_text(beat.model_copy(update={"step": 9}).model_dump_json())
    heard, steps = list[str](), list[Progress]()
    slots = Slots(tmp_path / "slots", 1)
    how = Launch(slots=slots, watch=steps.append, tell=heard.append)
    found = launch_job(world.store, directory / "job.json", how)
    assert (found.stopped, found.steps) == ("budget", 12)
    assert heard == ["first", "last"]
    assert [(each.done, each.total) for each in steps] == [(3, 12)]
    assert slots.holders() == [None]


@pytest.mark.parametrize(
    ("body", "kind", "failure", "said"),
    [
        ("kill -9 $$", JobKilledError, "killed", "signal SIGKILL; .*starts at step 0"),
        ("kill -SEGV $$", JobKilledError, "killed", "signal SIGSEGV; "),
        ("echo a rank died; exit 69", JobKilledError, "killed", "exit code 69; .*a rank died"),
        ("exit 71", JobMemoryError, "memory", "exit code 71; .*Try --recompute"),
        ("exit 65", NotFiniteError, "not_finite", "exit code 65; .*names the rows"),
        ("exit 3", JobError, "other", "exit code 3; .*Fix the cause"),
        ("exit 0", JobError, "other", "exit code 0; "),
    ],
)
def test_an_end_is_an_error_of_its_kind_and_stands_in_the_report(
    world: Any, play: Play, body: str, kind: type[JobError], failure: str, said: str
) -> None:
    play(body)
    directory = world.open_run(world.job())
    (directory / "report.json").write_text(report(reason="of an earlier end"))
    with pytest.raises(JobError, match=f"(?s){said}") as raised:
        launch_job(world.store, directory / "job.json", Launch())
    assert type(raised.value) is kind
    left = json.loads((directory / "report.json").read_text())
    assert (left["stopped"], left["failure"]) == ("failed", failure)
    assert left["reason"].startswith("ended by ")


def test_a_report_that_says_why_is_left_as_it_is(world: Any, play: Play, tmp_path: Path) -> None:
    (tmp_path / "report").write_text(report(stopped="failed", reason="so", failure="memory"))
    play(f"cp {tmp_path / 'report'} report.json; exit 71")
    directory = world.open_run(world.job())
    with pytest.raises(JobMemoryError):
        launch_job(world.store, directory / "job.json", Launch())
    assert json.loads((directory / "report.json").read_text())["reason"] == "so"


def test_a_stop_before_the_first_step_is_a_cancelled_run(world: Any, play: Play) -> None:
    play("exit 75")
    directory = world.open_run(world.job())
    assert launch_job(world.store, directory / "job.json", Launch()).stopped == "cancelled"


NEVER = 6000.0
"""Seconds: a test that waited for them would be over its own time."""


def interrupted(world: Any, directory: Path) -> float:
    """Seconds from an interrupt, which comes with the first line, until the launcher has ended."""
    at: list[float] = []

    def interrupt(_: str) -> None:
        at.append(time.monotonic())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch_job(world.store, directory / "job.json", Launch(tell=interrupt))
    return time.monotonic() - at[0]


def test_an_interrupt_lets_the_job_end_and_ends_what_it_left_in_any_session(
    world: Any, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", NEVER)
    play("setsid sleep 6000 & trap 'sleep 0.3; echo ended > ended; exit 75' TERM\necho on\nwait")
    directory = world.open_run(world.job())
    interrupted(world, directory)
    assert (directory / "ended").exists()
    assert processes_of(directory) == []


def test_a_job_that_does_not_heed_its_stop_is_killed_after_a_while(
    world: Any, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.5)
    play("trap '' TERM; echo on; while true; do sleep 60; done")
    directory = world.open_run(world.job())
    assert interrupted(world, directory) >= 0.5
    assert processes_of(directory) == []


def test_a_second_interrupt_kills_at_once(
    world: Any, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", NEVER)
    # It comes when the first has become a stop, which the job doesn't heed.
    play(f"trap 'kill -USR1 {os.getpid()}' TERM; echo on; while true; do sleep 0.05; done")
    directory = world.open_run(world.job())
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        interrupted(world, directory)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert processes_of(directory) == []


def test_grace_fits_into_the_fifteen_seconds_of_a_cancelled_run() -> None:
    assert module.GRACE_SECONDS <= 10


def test_what_a_killed_launcher_left_is_ended_before_the_run_goes_on(
    world: Any, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)
    (tmp_path / "report").write_text(report())
    play(f"cp {tmp_path / 'report'} report.json")
    directory, heard = world.open_run(world.job()), list[str]()
    left = subprocess.Popen(["sleep", "6000"], env={**os.environ, MARK: str(directory.resolve())})
    other = subprocess.Popen(["sleep", "6000"], env={**os.environ, MARK: f"{directory}2"})
    until(lambda: processes_of(directory))
    reaper = threading.Thread(target=left.wait)
    reaper.start()
    found = launch_job(world.store, directory / "job.json", Launch(tell=heard.append))
    reaper.join()
    assert found.stopped == "budget"
    assert left.returncode == -signal.SIGKILL
    assert f"processes {left.pid} " in heard[0]
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.parametrize("again", [False, True])
def test_a_second_train_of_a_run_waits_for_the_first_and_has_what_that_one_made(
    world: Any, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    monkeypatch.setattr(directory_module, "ENDING_SECONDS", 0.1)
    job, begins, may_end = world.job(), threading.Event(), threading.Event()
    said: Queue[str] = Queue()
    runs: Queue[Run] = Queue()

    def launch_job(store: Store, path: Path, how: Launch) -> Report:
        assert not begins.is_set(), "it is launched twice"
        begins.set()
        assert may_end.wait(120)
        saved = path.parent / "checkpoints" / "step=12"
        saved.mkdir(parents=True)
        (saved / "model.safetensors").write_text("weights")
        text = report(checkpoint=saved.relative_to(store.root).as_posix())
        (path.parent / "report.json").write_text(text)
        return Report.model_validate_json(text)

    def begin(launch: Launch) -> threading.Thread:
        def call() -> None:
            runs.put(train(Store(world.store.root), job, again=again, launch=launch))

        thread = threading.Thread(target=call)
        thread.start()
        return thread

    monkeypatch.setattr("curriculum.train.run.launch_job", launch_job)
    first = begin(Launch())
    assert begins.wait(120)
    second = begin(Launch(tell=said.put))
    words = said.get(timeout=120)
    assert re.search(rf"process {os.getpid()} on .*training", words)
    assert runs.empty()
    may_end.set()
    first.join()
    second.join()
    made, found = runs.get(), runs.get()
    assert made.directory == found.directory
    assert made.artefact is not None
    assert found.artefact is not None
    assert {made.artefact.made, found.artefact.made} == {True, False}


@pytest.mark.system
def test_kill_9_of_the_launcher_ends_both_ranks_and_frees_the_slot(
    long_world: Any, begin: Callable[..., "subprocess.Popen[str]"], hold: Callable[[str], None]
) -> None:
    directory = long_world.open_run(
        long_world.job(steps=100, processes=2, micro_positions=256, checkpoint_every=100)
    )
    hold("step 5/100 ")
    slots = Slots(long_world.store.root / "slots", 1)
    flow = begin(directory)
    hear("step 5/100", flow)
    assert len(processes_of(directory)) == 3
    (holder,) = slots.holders()
    assert holder is not None
    assert (holder.pid, holder.run) == (flow.pid, str(directory.resolve()))
    flow.kill()
    flow.wait()
    until(lambda: not processes_of(directory))
    # A process that ends loses its command line a moment before its locks.
    until(lambda: slots.holders() == [None])
    assert list((directory / "checkpoints").glob("step=*/manifest.json"))
    assert '"stopped": "cancelled"' in (directory / "report.json").read_text()


@pytest.mark.slow
def test_kill_9_of_the_process_between_ends_both_ranks_and_says_that_it_was_killed(
    long_world: Any,
) -> None:
    directory = long_world.open_run(
        long_world.job(steps=100, processes=2, micro_positions=256, checkpoint_every=100)
    )

    def kill(line: str) -> None:
        if line.startswith("step 5/"):
            os.kill(min(processes_of(directory)), signal.SIGKILL)

    with pytest.raises(JobKilledError, match="signal SIGKILL"):
        launch_job(long_world.store, directory / "job.json", Launch(tell=kill))
    assert processes_of(directory) == []
    assert list((directory / "checkpoints").glob("step=*/manifest.json"))


@pytest.mark.slow
def test_kill_9_of_a_rank_is_a_killed_job(long_world: Any) -> None:
    directory = long_world.open_run(
        long_world.job(steps=100, processes=2, micro_positions=256, checkpoint_every=1)
    )

    def kill(line: str) -> None:
        if line.startswith("step 5/"):
            os.kill(max(processes_of(directory)), signal.SIGKILL)

    with pytest.raises(JobKilledError, match=r"exit code 69; [^;]*SIGKILL"):
        launch_job(long_world.store, directory / "job.json", Launch(tell=kill))
    assert processes_of(directory) == []


@pytest.mark.slow
def test_a_trainer_that_hangs_does_not_outlive_its_launcher(
    long_world: Any, begin: Callable[..., "subprocess.Popen[str]"]
) -> None:
    directory = long_world.open_run(long_world.job(steps=100, micro_positions=256))
    flow = begin(directory)
    hear("step 5/100", flow)
    (trainer,) = processes_of(directory)
    os.kill(trainer, signal.SIGSTOP)
    flow.kill()
    flow.wait()
    with pytest.raises(AssertionError):
        until(lambda: not processes_of(directory), 3)
    assert end_all(directory, 0.0) == []


@pytest.mark.slow
def test_a_job_that_needs_more_memory_than_it_may_have_ends_with_71(world: Any) -> None:
    wide = world.job().model.model_copy(update={"mlp_width": 1 << 20})
    directory = world.open_run(world.job(model=wide))
    code = (
        "import resource, runpy, sys, curriculum.train.job_process\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30),) * 2)\n"
        "sys.argv = ['curriculum.train', sys.argv[1]]\n"
        "runpy.run_module('curriculum.train', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(directory / "job.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 71, done.stderr
    assert json.loads((directory / "report.json").read_text())["failure"] == "memory"
