"""Build, mix and train, killed at random moments, twenty times each, end as if nothing had happened."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from curriculum.store import Store
from curriculum.train.metrics import read_metrics
from schemas.job import CLOCK_COLUMNS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

BEFORE = {"build": "", "mix": "build", "train": "mix"}
"""The commands, each with the one before it."""
STARTING = {"build": 0.15, "mix": 0.4, "train": 0.2}
"""Share of a command's time before it writes; kills come later."""

Ended = Callable[[str], tuple[Any, float]]


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory, new_course: Callable[..., Any]) -> Ended:
    """A course in which a command ended well, in a copy of the one before, and its seconds."""

    @cache
    def timed_command(stage: str) -> tuple[Any, float]:
        course = new_course(folder=tmp_path_factory.mktemp(stage), words=(stage,))
        lay_down(course, timed_command)
        began = time.monotonic()
        course.finish()
        return course, time.monotonic() - began

    return timed_command


def lay_down(course: Any, ended: Ended) -> None:
    """Give a course what stood before its command, and no more."""
    shutil.rmtree(course.home, ignore_errors=True)
    if earlier := BEFORE[course.words[0]]:
        shutil.copytree(ended(earlier)[0].home, course.home, symlinks=True)


def kill_somebody(course: Any, process: "subprocess.Popen[bytes]", dice: random.Random) -> bool:
    """Kill the command, one that it started, or all of them; whether the command was alive."""
    alive = sorted(course.alive())
    if process.poll() is not None or process.pid not in alive:
        return False
    try:
        for pid in dice.choice(([process.pid], [dice.choice(alive)], alive)):
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def killed_at(course: Any, moment: float, dice: random.Random) -> bool:
    """Start its command, kill so many seconds later, and let the rest end; whether one was killed."""
    process = course.start()
    time.sleep(moment)
    killed = kill_somebody(course, process, dice)
    process.wait(300)
    course.await_quiet()
    return killed


def metrics(course: Any) -> dict[str, Any]:
    """Return the metrics of each run without timings."""
    runs = Store(course.home).artefacts("runs")
    tables = {each.key: read_metrics(each.path / "metrics") for each in runs}
    return {key: table.drop_columns(list(CLOCK_COLUMNS)) for key, table in tables.items()}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("stage", BEFORE)
def test_a_command_killed_at_any_moment_ends_as_if_nothing_had_happened(
    course: Any, ended: Ended, dice: random.Random, stage: str, seed: int
) -> None:
    uninterrupted, seconds = ended(stage)
    course.words = (stage,)
    lay_down(course, ended)
    moment = dice.uniform(STARTING[stage], 1) * seconds
    while not killed_at(course, moment, dice):
        # It was quicker than the one that was timed.
        lay_down(course, ended)
        moment *= 0.7
        assert moment > 0.1, course.said.read_text()
    if course.home.is_dir():
        course.require_whole()
    course.finish()
    course.require_whole()
    assert course.contents() == uninterrupted.contents()
    measured = metrics(uninterrupted)
    assert len(measured) == 2 * (stage == "train")
    assert metrics(course) == measured
