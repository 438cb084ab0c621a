"""A job of two processes: killed, stopped, failed and resumed, also by another number of ranks."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from curriculum.train import checkpoint, restore, trainer
from curriculum.train.dataloader import PlannedRows, steps_of
from curriculum.train.distributed import Ranks
from curriculum.train.metrics import read_metrics
from curriculum.train.run import Run, train
from curriculum.train.run_directory import run_recipe
from curriculum.train.step import optimizer_step
from schemas.errors import JobError
from schemas.job import CLOCK_COLUMNS, Job

BeginHeld = Callable[[int, Path], "subprocess.Popen[bytes]"]
STEPS = 8
CHANGES: dict[str, Any] = {
    "steps": STEPS,
    "micro_positions": 256,
    "evaluate_every": 4,
    "checkpoint_every": 1,
    "processes": 2,
}


def begin(directory: Path) -> "subprocess.Popen[bytes]":
    with (directory / "train.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "curriculum.train", str(directory / "job.json")],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for(words: str, directory: Path, process: "subprocess.Popen[bytes]") -> None:
    log = directory / "train.log"
    while words not in log.read_text() and process.poll() is None:
        time.sleep(0.005)
    assert process.poll() is None, log.read_text()


def ranks_of(process: "subprocess.Popen[bytes]") -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in children.split()]


@pytest.fixture
def begin_held(hold: Callable[[str], None], let_go: Callable[[], None]) -> BeginHeld:
    """Starts a job, which trains as far as a step and there waits for a signal."""

    def begin_held(step: int, directory: Path) -> "subprocess.Popen[bytes]":
        words = f"step {step}/"
        hold(words)
        process = begin(directory)
        let_go()
        wait_for(words, directory, process)
        return process

    return begin_held


def kill(process: "subprocess.Popen[bytes]", directory: Path) -> None:
    """End all ranks and who started them, at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    while list(directory.glob("state.json")) and not has_ended(process.pid):
        time.sleep(0.01)


def has_ended(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def deterministic(directory: Path) -> Any:
    return read_metrics(directory / "metrics").drop_columns(list(CLOCK_COLUMNS))


def require_equal(one: Run, other: Run) -> None:
    """Weights, optimizer, cursor, figures and deterministic metrics, bit by bit."""
    ends = [
        {file.name: file.read_bytes() for file in sorted(last.iterdir())}
        for run in (one, other)
        for last in (run.directory / "checkpoints").glob(f"step={run.report.steps}")
    ]
    assert len(ends) == 2
    assert "optimizer.safetensors" in ends[0]
    assert ends[0] == ends[1]
    assert deterministic(one.directory).equals(deterministic(other.directory))
    assert len(deterministic(one.directory)) == one.report.steps
    assert one.report.tokens == other.report.tokens
    assert one.report.history == other.report.history


def killed_and_resumed(
    root: Path,
    make_world: Callable[..., Any],
    begin_held: BeginHeld,
    kills: list[int],
    **changes: Any,
) -> tuple[Run, Run]:
    whole, broken = make_world(root / "whole"), make_world(root / "broken")
    uninterrupted = train(whole.store, whole.job(**CHANGES))
    directory = broken.open_run(broken.job(**CHANGES))
    for step in kills:
        kill(begin_held(step, directory), directory)
        assert not (directory / "report.json").exists()
    resumed = train(broken.store, broken.job(**CHANGES | changes))
    assert "resuming at step" in (directory / "train.log").read_text()
    return uninterrupted, resumed


@pytest.mark.system
def test_two_ranks_killed_and_resumed_equal_two_uninterrupted(
    tmp_path: Path, make_world: Callable[..., Any], begin_held: BeginHeld
) -> None:
    step = random.Random(7).randrange(2, STEPS - 1)
    require_equal(*killed_and_resumed(tmp_path, make_world, begin_held, [step]))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_two_ranks_killed_at_random_steps_by_any_number_of_workers(
    tmp_path: Path, make_world: Callable[..., Any], begin_held: BeginHeld, workers: int
) -> None:
    steps = sorted(random.Random(workers).sample(range(1, STEPS), 6))
    require_equal(*killed_and_resumed(tmp_path, make_world, begin_held, steps, workers=workers))


@pytest.mark.system
def test_one_rank_goes_on_where_two_were_stopped(
    tmp_path: Path,
    make_world: Callable[..., Any],
    begin_held: BeginHeld,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows are exactly those of two ranks; the weights are equal up to rounding."""
    world, alone = make_world(tmp_path / "two"), make_world(tmp_path / "one")
    directory = world.open_run(world.job(**CHANGES))
    process = begin_held(3, directory)
    process.terminate()
    assert process.wait() == 75
    last = checkpoint.newest(directory / "checkpoints")
    assert last is not None
    assert (last / "shards" / "index.json").is_file()
    stopped_at = checkpoint.read_state(last).step
    assert 3 <= stopped_at < STEPS
    job = world.job(**CHANGES | {"processes": 1})
    assert job.run_key == world.job(**CHANGES).run_key
    seen: list[str] = []

    def noting(train_state: Any, batches: Any, *rest: Any, **named: Any) -> Any:
        seen.extend(name for batch in batches for name in batch.pack_ids)
        return optimizer_step(train_state, batches, *rest, **named)

    monkeypatch.setattr(trainer, "optimizer_step", noting)
    cpu = torch.device("cpu")
    resumed = trainer.Trainer(job, world.store.root, directory, cpu, lambda: False).train()
    assert seen == [name for step in consumed(world, job, first_step=stopped_at) for name in step]
    whole = trainer.Trainer(
        alone.job(**CHANGES), alone.store.root, tmp_path / "whole", cpu, lambda: False
    ).train()
    assert (resumed.state.tokens, resumed.state.slot) == (whole.state.tokens, whole.state.slot)
    assert resumed.checkpoint is not None
    assert whole.checkpoint is not None
    ones = restore.read_weights(resumed.checkpoint)
    others = restore.read_weights(whole.checkpoint)
    # AdamW divides by the root of small second moments, which makes much of rounding.
    assert all(torch.allclose(ones[name], others[name], atol=1e-4) for name in others)
    for mine, its in zip(resumed.state.figures, whole.state.figures, strict=True):
        assert mine.val_bpb == pytest.approx(its.val_bpb, rel=1e-5)
    same = ["step", "position", "valid_tokens", "scored_tokens", "attention_density"]
    assert (
        deterministic(directory)
        .select(same)
        .equals(read_metrics(tmp_path / "whole" / "metrics").select(same))
    )


def consumed(world: Any, job: Job, *, first_step: int, ranks: int = 1) -> list[list[str]]:
    """The rows that all ranks read in each step, in the order of micro-batches."""
    rows = PlannedRows.from_job(job, world.store.root)
    shares = [
        steps_of(job, rows, first_step=first_step, workers=0, rank=rank, ranks=ranks)
        for rank in range(ranks)
    ]
    return [
        [name for turn in zip(*steps, strict=True) for batch in turn for name in batch.pack_ids]
        for steps in zip(*shares, strict=True)
    ]


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_the_rows_of_each_step_are_those_of_the_plan_whatever_the_ranks(
    world: Any, ranks: int
) -> None:
    job = world.job(**CHANGES)
    one = consumed(world, job, first_step=2)
    several = consumed(world, job, first_step=2, ranks=ranks)
    assert [sorted(step) for step in several] == [sorted(step) for step in one]
    assert sum(map(len, one)) > 20
    assert Ranks(size=ranks).mesh is None


@pytest.mark.system
def test_a_loss_that_is_no_number_fails_all_ranks_with_one_report(world: Any) -> None:
    settings = world.job().optimizer.model_copy(update={"learning_rate": 1e30})
    job = world.job(**CHANGES | {"optimizer": settings})
    with pytest.raises(JobError, match="exit code 65"):
        train(world.store, job)
    directory = world.store.root / run_recipe(job).directory / "attempt=1"
    report = (directory / "report.json").read_text()
    assert '"stopped": "failed"' in report
    assert '"failure": "not_finite"' in report
    assert " isn't finite" in report
    assert not (directory / "state.json").exists()


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_others(world: Any, begin_held: BeginHeld) -> None:
    directory = world.open_run(world.job(**CHANGES | {"steps": 14}))
    # By then the checkpoint of the first step is whole.
    process = begin_held(3, directory)
    first, second = ranks_of(process)
    os.kill(second, signal.SIGKILL)
    assert process.wait() == 69
    assert "rank 1 by signal SIGKILL" in (directory / "train.log").read_text()
    assert not Path(f"/proc/{first}").exists()
    assert checkpoint.newest(directory / "checkpoints") is not None


@pytest.mark.slow
def test_ranks_stop_in_a_checkpoint_when_who_started_them_is_gone(
    world: Any, begin_held: BeginHeld
) -> None:
    directory = world.open_run(world.job(**CHANGES | {"steps": 14, "checkpoint_every": 100}))
    process = begin_held(1, directory)
    pids = ranks_of(process)
    process.kill()
    process.wait()
    until = time.monotonic() + 120
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)
    last = checkpoint.newest(directory / "checkpoints")
    assert last is not None, (directory / "train.log").read_text()
    assert '"stopped": "cancelled"' in (directory / "report.json").read_text()


@pytest.mark.slow
def test_a_disk_that_takes_no_more_is_named_by_all_ranks(world: Any) -> None:
    """A limit on the size of files stands in for a full disk."""
    directory = world.open_run(world.job(**CHANGES))
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "sys.argv = ['train', sys.argv[1]]\n"
        "from curriculum.train.__main__ import main\n"
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(directory / "job.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "could not be written" in done.stderr, done.stderr
    assert '"stopped": "failed"' in (directory / "report.json").read_text()
