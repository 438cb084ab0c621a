"""What a stage tells where there is no terminal."""

import pytest

from flows.cli.console import watching
from schemas.progress import Progress


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
    assert capsys.readouterr().err.splitlines() == [
        "train syntax: 0/9 steps",
        "train syntax: 0/9 steps  waits for a slot",
        "train syntax: 9/9 steps  done",
    ]
