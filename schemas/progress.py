"""Progress of a stage, as steps report it and the command line and the flows show it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """One item of a stage, `done` of `total` units; `total` None where the end isn't known."""

    stage: str
    item: str
    done: int
    total: int | None
    unit: str
    note: str = ""


ProgressCallback = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Drop an item of progress."""
