"""Changes during a run: the clock, its diet, and its machine."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from curriculum.store.owners import this_process
from curriculum.train.launch.gpu_slots import Slots
from schemas.job import RunState, SlotState

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
JUMPING = """
import itertools, time
told, hours = time.time, itertools.cycle((0, 30, -30))
def jumping():
    return told() + 3600 * next(hours)
time.time = jumping
"""
LONG_AGO, IN_A_YEAR = -4e8, 4e7


def test_clock_jumps_change_nothing(course: Any, uninterrupted: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(JUMPING)
    course.variables = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    }
    process = course.start()
    course.await_progress(int(uninterrupted.progress() * 0.5), "trainer", process)
    course.kill("command")
    process.wait(300)
    course.await_quiet()
    for number, file in enumerate(sorted(course.home.rglob("*"))):
        then = file.stat().st_mtime + (LONG_AGO, IN_A_YEAR)[number % 2]
        os.utime(file, (then, then))
    course.finish()
    course.require_whole()
    assert course.contents() == uninterrupted.contents()


def test_a_diet_that_is_edited_while_it_runs_changes_the_next_run_only(
    course: Any, uninterrupted: Any
) -> None:
    process = course.start()
    course.await_progress(int(uninterrupted.progress() * 0.4), "trainer", process)
    text = course.diet.read_text()
    course.diet.write_text(text.replace("token_budget: 52K", "token_budget: 30K"))
    assert process.wait(600) == 0, course.said.read_text()
    assert course.contents() == uninterrupted.contents()


@pytest.mark.parametrize(
    "host", [None, "another-host"], ids=["its pid was given to another", "moved"]
)
def test_what_a_machine_that_went_down_left_of_its_owner_holds_nobody_up(
    course: Any, uninterrupted: Any, host: str | None
) -> None:
    process = course.start()
    course.await_progress(int(uninterrupted.progress() * 0.5), "trainer", process)
    course.kill("command")
    process.wait(300)
    course.await_quiet()
    me = this_process()
    owner = me.model_copy(update={"host": host or me.host})
    (run,) = [file.parent for file in course.home.glob("runs/**/job.json") if "syntax" in str(file)]
    (run / "state.json").write_text(owner.model_dump_json())
    leave_behind(Slots(course.home / "slots", 1), owner, run)
    course.finish()
    assert course.contents() == uninterrupted.contents()


def leave_behind(slots: Slots, owner: RunState, run: Path) -> None:
    """The record of a slot, and a place in the line, of somebody who is gone."""
    deadline = time.monotonic() + 60
    while slots.holders() != [None]:
        # A process that is ending gives up its memory, and with it its name, before its files.
        assert time.monotonic() < deadline, slots.holders()
        time.sleep(0.1)
    state = SlotState(**owner.model_dump(), run=str(run)).model_dump_json()
    (record,) = slots.folder.glob("*-0.lock")
    record.with_suffix(".json").write_text(state)
    record.with_name(f"{record.name.removesuffix('-0.lock')}.0000000001.json").write_text(state)
    assert slots.holders() == [None]
