"""The commands without a server, killed at seeded points: given again they end as if nothing had happened."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from curriculum.store import Store
from curriculum.train.run_directory import read_report

pytestmark = pytest.mark.timeout(2400)

HELD = Path(__file__).parents[2] / "curriculum" / "train" / "held"
"""Holds trainers where they say something."""
BUILT = 0.35
"""Share of the progress before the first training step."""


def kill_between(course: Any, dice: random.Random, role: str, low: float, high: float) -> None:
    """Start the course, kill one of a role at a random point between two, and let the rest end."""
    process = course.start()
    point = dice.randint(int(low * course.whole), int(high * course.whole))
    course.await_progress(point, role, process)
    time.sleep(dice.uniform(0, 0.3))
    course.kill(role)
    process.wait(300)
    course.await_quiet()


def kill_in(course: Any, dice: random.Random, role: str, phase: str) -> None:
    """Start the course, and kill one of a role while a phase is at a random step, however late we look."""
    words = f"step {dice.randint(3, 20)}/"
    hold = {"PYTHONPATH": str(HELD), "HOLD_AT": words, "HOLD_IN": f"/phase-{phase}/"}
    course.variables |= hold
    process = course.start()
    for name in hold:
        del course.variables[name]
    logs = course.home / "runs"
    while not any(words in log.read_text() for log in logs.rglob(f"phase-{phase}/**/train.log")):
        assert process.poll() is None, course.said.read_text()
        time.sleep(0.1)
    time.sleep(dice.uniform(0, 0.3))
    course.kill(role)
    process.wait(300)
    course.await_quiet()


def require_the_same_end(course: Any, uninterrupted: Any) -> None:
    """All is as if nothing had happened, the weights too."""
    course.require_whole()
    assert course.contents() == uninterrupted.contents()
    reports = [read_report(each.path) for each in Store(course.home).artefacts("runs")]
    assert len(reports) == 2
    assert {report.attempt for report in reports} == {1}


@pytest.mark.system
def test_killed_three_times_on_its_way_it_ends_as_if_nothing_had_happened(
    course: Any, uninterrupted: Any, dice: random.Random
) -> None:
    course.whole = uninterrupted.progress()
    kill_between(course, dice, "command", 0.02, BUILT - 0.1)
    course.require_whole()
    for role, phase in (("trainer", "syntax"), ("command", "file_graph")):
        kill_in(course, dice, role, phase)
        course.require_whole()
    course.finish()
    require_the_same_end(course, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_any_two_points_it_ends_as_if_nothing_had_happened(
    course: Any, uninterrupted: Any, dice: random.Random, seed: int
) -> None:
    course.whole = uninterrupted.progress()
    middle = dice.uniform(0.1, 0.8)
    for low, high in ((0.0, middle), (middle + 0.02, 0.9)):
        trains = low > BUILT + 0.05
        kill_between(course, dice, dice.choice(("trainer", "command")[not trains :]), low, high)
        course.require_whole()
    course.finish()
    require_the_same_end(course, uninterrupted)
