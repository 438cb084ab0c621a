"""A launcher's view of a log: whole lines, steps, and missing progress."""

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.train.checkpoint import CheckpointState
from curriculum.train.launch.log_follower import (
    MIN_SILENCE_SECONDS,
    STEPS_OF_SILENCE,
    LogFollower,
    StepMonitor,
    Tail,
    progress_of,
    read_heartbeat,
)
from curriculum.train.processes import MARK
from curriculum.train.report import HeartbeatWriter
from schemas.job import Heartbeat
from schemas.json_text import now
from schemas.progress import Progress


def test_a_tail_tells_what_is_new_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    file.write_text("of before\n")
    tail = Tail(file)
    assert tail.lines() == []
    with file.open("ab") as log:
        log.write(b"10%\r20%\r30%\nstep 1\r\nste")
        log.flush()
        assert tail.lines() == ["30%", "step 1"]
        log.write(b"p \xff2\n")
        log.flush()
        assert tail.lines() == ["step \ufffd2"]
        log.write(b"".join(b"%d\n" % number for number in range(250)))
    assert tail.lines() == ["… 50 more lines in train.log", *map(str, range(50, 250))]
    assert Tail(tmp_path / "none").lines() == []


@given(st.lists(st.text("ab\n", max_size=5), max_size=20))
def test_a_tail_tells_the_same_however_it_is_written(
    tmp_path_factory: Any, parts: list[str]
) -> None:
    file = tmp_path_factory.mktemp("log") / "train.log"
    tail, told = Tail(file), list[str]()
    for part in parts:
        with file.open("a") as log:
            log.write(part)
        told += tail.lines()
    assert told == "".join(parts).split("\n")[:-1]


def test_a_stall_is_felt_once_and_again_after_a_step() -> None:
    pulse = StepMonitor(0.0)
    assert pulse.seconds_stalled(0, MIN_SILENCE_SECONDS - 1) is None
    assert pulse.seconds_stalled(0, MIN_SILENCE_SECONDS) == MIN_SILENCE_SECONDS
    assert pulse.seconds_stalled(0, MIN_SILENCE_SECONDS + 1) is None
    assert pulse.seconds_stalled(1, 700.0) is None
    assert pulse.seconds_stalled(1, 700.0 + MIN_SILENCE_SECONDS) == MIN_SILENCE_SECONDS


@given(st.lists(st.floats(0.1, 1000), min_size=2, max_size=30))
def test_a_silence_of_twenty_usual_steps_and_ten_minutes_is_a_stall(took: list[float]) -> None:
    pulse, now = StepMonitor(0.0), 0.0
    for step, seconds in enumerate(took, start=1):
        now += seconds
        pulse.seconds_stalled(step, now)
    limit = max(MIN_SILENCE_SECONDS, STEPS_OF_SILENCE * statistics.median(took[1:]))
    assert pulse.seconds_stalled(len(took), now + limit * 0.999) is None
    assert pulse.seconds_stalled(len(took), now + limit * 1.001) is not None


def test_a_run_that_goes_on_at_a_late_step_had_no_long_first_one() -> None:
    pulse = StepMonitor(0.0)
    pulse.seconds_stalled(5000, 100.0)
    pulse.seconds_stalled(5001, 101.0)
    assert pulse.seconds_stalled(5001, 101.0 + MIN_SILENCE_SECONDS) is not None


def test_a_heartbeat_is_told_once_and_a_broken_one_is_none(world: Any, tmp_path: Path) -> None:
    told, stalls = list[Progress](), list[str]()
    follower = LogFollower(world.job(), tmp_path, told.append, lambda _: None, stalls.append)
    follower.look()
    beat = Heartbeat(
        step=3, steps=12, valid_tokens=99, tokens_per_second=1234.5, val_bpb=2.5, at=now()
    )
    (tmp_path / "heartbeat.json").write_text(beat.model_dump_json())
    follower.look()
    follower.look()
    assert told == [progress_of(world.job(), beat)]
    assert (told[0].done, told[0].total) == (3, 12)
    assert told[0].note == "val_bpb 2.500, 1,234 tokens/s"
    assert stalls == []
    (tmp_path / "heartbeat.json").write_text('{"step":')
    assert read_heartbeat(tmp_path) is None


def test_an_evaluation_is_shown_before_the_first_step_and_after_the_last(
    world: Any, tmp_path: Path
) -> None:
    told: list[Progress] = []
    job = world.job()
    follower = LogFollower(job, tmp_path, told.append, lambda _: None, lambda _: None)
    heart = HeartbeatWriter(job, tmp_path)
    heart.beat(CheckpointState(), "leakcheck")
    follower.look()
    heart.beat(CheckpointState(), "evaluating")
    follower.look()
    heart.set_evaluation_seconds(3.0)
    heart.step(CheckpointState(step=1), positions=1024, seconds=1.0)
    follower.look()
    heart.beat(CheckpointState(step=job.steps), "evaluating")
    follower.look()
    assert [(each.done, each.note) for each in told] == [
        (0, "leakcheck"),
        (0, "evaluating"),
        (1, "1,024 tokens/s"),
        (job.steps - 1, "evaluating"),
    ], "the last step isn't the end"
    assert [each.after for each in told] == [0.0, 0.0, 9.0, 0.0], "three evaluations are to come"


def test_evaluations_to_come_are_expected_by_the_speed_of_steps_until_one_was_measured(
    world: Any, tmp_path: Path
) -> None:
    job, read = world.job(), 2 * 1024
    heart = HeartbeatWriter(job, tmp_path)
    heart.step(CheckpointState(step=8), positions=1024, seconds=1.0)
    beat = read_heartbeat(tmp_path)
    assert beat is not None
    assert beat.evaluating_seconds == pytest.approx(read / 3 / 1024), "the last one alone"


def test_a_stall_names_the_step_and_the_log(world: Any, tmp_path: Path, monkeypatch: Any) -> None:
    stalls, now = list[str](), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    ignore: Callable[[object], None] = lambda _: None  # noqa: E731
    follower = LogFollower(world.job(), tmp_path, ignore, ignore, stalls.append)
    now[0] = 599.0
    follower.look()
    assert stalls == []
    follower.look(runs=False)
    now[0] = 1198.0
    follower.look()
    assert stalls == []
    now[0] = 1200.0
    follower.look()
    (said,) = stalls
    assert "syntax " in said
    assert " 10 min" in said
    assert str(tmp_path / "train.log") in said


def test_a_stall_names_the_rank_that_is_stopped(
    world: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    stalls, now = list[str](), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    ignore: Callable[[object], None] = lambda _: None  # noqa: E731
    follower = LogFollower(world.job(), tmp_path, ignore, ignore, stalls.append)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", "input()", "--rank", str(rank), "--of", "2"],
            stdin=subprocess.PIPE,
            env={MARK: str(tmp_path.resolve())},
        )
        for rank in range(2)
    ]
    try:
        ranks[1].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, ranks[1].pid, os.WSTOPPED)
        now[0] = MIN_SILENCE_SECONDS
        follower.look()
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    (said,) = stalls
    assert f"rank 1 (process {ranks[1].pid}) is stopped" in said
    assert f"kill -CONT {ranks[1].pid}" in said
    assert "rank 0" not in said


def test_heartbeats_are_at_most_one_a_second_and_start_with_the_first_step(
    world: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    from curriculum.train.checkpoint import CheckpointState

    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    heart, steps = HeartbeatWriter(world.job(), tmp_path), list[int]()
    for step in range(1, 9):
        heart.step(CheckpointState(step=step), positions=100, seconds=0.25)
        beat = read_heartbeat(tmp_path)
        assert beat is not None
        steps.append(beat.step)
        speed = beat.tokens_per_second
        now[0] += 0.25
    assert steps == [1, 1, 1, 1, 5, 5, 5, 5]
    assert speed == 400
    HeartbeatWriter(world.job(), tmp_path / "gone").step(
        CheckpointState(step=1), positions=1, seconds=1.0
    )
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["heartbeat.json"]
