"""Progress of stages, on a terminal and elsewhere."""

import re
import sys
from dataclasses import replace

import pytest

from flows.cli.progress_bars import watching
from schemas.progress import Progress
from tests.flows.terminal import STYLE, on_terminal


def test_without_a_terminal_a_line_says_what_is_waited_for_but_not_each_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def at(done: int, note: str = "") -> Progress:
        return Progress(stage="train", item="syntax", done=done, total=9, unit="steps", note=note)

    with watching() as watch:
        for progress in (at(0), at(0, "waits for a slot"), at(0, "waits for a slot")):
            watch(progress)
        for progress in (at(1, "fast"), at(2, "faster"), at(9, "done")):
            watch(progress)
    *waiting, last = capsys.readouterr().err.splitlines()
    assert waiting == ["train syntax: 0/9 steps", "train syntax: 0/9 steps  waits for a slot"]
    assert re.fullmatch(r"train syntax: 9/9 steps  \d+ m?s  done", last), last


def test_the_tasks_of_a_stage_share_one_line_which_begins_again_with_the_stage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with watching() as watch:
        for phase in ("syntax", "file_graph"):
            for done in range(3):
                item = f"{phase} {done}"
                watch(Progress(stage="rows", item=item, done=done, total=2, unit="tasks"))
    lines = capsys.readouterr().err.splitlines()
    expected = ["rows: 0/2 tasks", "rows: 2/2 tasks"] * 2
    assert [line.split("  ")[0] for line in lines] == expected
    assert lines[1].endswith("syntax 2")


def test_the_time_of_a_stage_is_that_of_its_own_round_and_remaining_time_leaves_out_its_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    mix = Progress(stage="mix", item="syntax", done=0, total=1, unit="tasks")
    step = Progress(stage="train", item="syntax", done=0, total=21, unit="steps")
    with watching() as watch:
        for at, progress in (
            (0, mix),
            (1, replace(mix, done=1)),
            (2, step),
            (18, replace(step, done=1)),
            (28, replace(step, done=6)),
            (60, replace(step, done=21)),
            (100, replace(mix, item="file_graph")),
            (102, replace(mix, item="file_graph", done=1)),
        ):
            now[0] = at
            watch(progress)
    assert capsys.readouterr().err.splitlines() == [
        "mix: 1/1 tasks  1.0 s  syntax",
        "train syntax: 0/21 steps",
        "train syntax: 1/21 steps  16 s",
        "train syntax: 6/21 steps  26 s, about 30 s left",
        "train syntax: 21/21 steps  58 s",
        "mix: 1/1 tasks  2.0 s  file_graph",
    ]


def test_remaining_time_has_the_evaluations_that_follow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    step = Progress(stage="train", item="syntax", done=0, total=21, unit="steps")
    with watching() as watch:
        for at, progress in (
            (0, step),
            (5, replace(step, note="evaluating")),
            (18, replace(step, done=1, after=12.0)),
            (28, replace(step, done=6, after=12.0)),
            (60, replace(step, done=20, note="evaluating")),
        ):
            now[0] = at
            watch(progress)
    assert capsys.readouterr().err.splitlines() == [
        "train syntax: 0/21 steps",
        "train syntax: 0/21 steps  evaluating",
        "train syntax: 1/21 steps  18 s",
        "train syntax: 6/21 steps  28 s, about 42 s left",
        "train syntax: 20/21 steps  1 min, about 2.2 s left  evaluating",
    ]


def test_a_terminal_has_a_bar_a_stage_with_elapsed_and_remaining_time() -> None:
    drawn = on_terminal((), {"COLUMNS": "80"}, (sys.executable, "-c", TWO_PHASES)).sent
    last = drawn.rpartition("\x1b[2K")[2].splitlines()
    shown = [STYLE.sub("", line) for line in last if "━" in line]
    assert [line.split()[0] for line in shown] == ["documents", "rows", "train"]
    assert all(len(re.findall(r"\d:\d\d:\d\d", line)) == 2 for line in shown), shown
    assert all(len(line) <= 80 for line in shown)


TWO_PHASES = """
from flows.cli.progress_bars import watching
from schemas.progress import Progress
from tests.flows.terminal import STYLE, on_terminal
with watching() as watch:
    for phase in ("syntax", "file_graph"):
        for stage in ("documents", "rows"):
            for done in (0, 1, 2):
                item = f"{phase} of a repository with a long name and a long path in it {done}"
                watch(Progress(stage=stage, item=item, done=done, total=2, unit="tasks"))
    for done in (0, 5):
        watch(Progress(stage="train", item="syntax", done=done, total=5, unit="steps", after=3.0))
"""
