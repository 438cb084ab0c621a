"""The order of measurements and their shares of the time that is left.

Measurements run in the order of their waves, the first of which holds what is most valuable of every
section. Each gets a share of the time left by its weight. A section whose measurements take long can't
take all: sections without a line keep RESERVE of the time each. A measurement that won't fit beside that,
judged by those before it in its section, is left out and named; one that takes longer is ended.
"""

import gc
import math
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks.on_device.lines import Figure, ResultLine, Table
from benchmarks.on_device.stops import Ended, Stops, TooLong
from schemas.errors import CurriculumError

RESERVE = 0.04
"""Share of the whole time that each section without a line keeps."""
_MAX_REASON_LENGTH = 200
_WORKS = 0.6
"""Share of a measurement's longest time for its rounds; before them its kernels are compiled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Figures of a measurement, and what has to be said about them."""

    figures: tuple[Figure, ...]
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """A line to be: its labels, and the work that gives its figures within about so many seconds."""

    wave: int
    line: ResultLine
    weight: float = 1.0
    """Expected cost, in units that are the same throughout a section."""
    work: Callable[[float], Outcome]
    build: Callable[[], str]
    """Build it on fake tensors of a GPU, and say what came out."""

    @property
    def section(self) -> str:
        """The section of the line."""
        return self.line.section


def ordered(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Sort by waves; within a wave the given order stays."""
    return sorted(measurements, key=lambda each: each.wave)


class Schedule:
    """Time that all measurements share."""

    def __init__(
        self,
        table: Table,
        stops: Stops,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        longest: float = math.inf,
    ) -> None:
        """Share `seconds`; no measurement gets more than `longest` of them."""
        self._table, self._stops, self._clock = table, stops, clock
        self._seconds, self._longest = seconds, longest
        self._ends = clock() + seconds
        self._paces: dict[str, list[float]] = {}
        """Seconds of a unit of weight that the measurements of each section took."""

    def run(self, measurements: Sequence[Measurement]) -> None:
        """Add a line for each measurement that fits into the time left.

        Raises:
            Ended: for a device that does no more work.
        """
        measurements = [each for each in measurements if not self._table.has(each.line)]
        for number, each in enumerate(measurements):
            rest = measurements[number:]
            if not self._fits(each, rest):
                self._leave_out(each)
                continue
            left = self._ends - self._clock()
            share = left * each.weight / sum(other.weight for other in rest)
            began = self._clock()
            limit = min(left - self._reserve(each, rest), self._longest)
            line = self._line(each, min(share, _WORKS * self._longest), limit)
            seconds = self._clock() - began
            self._paces.setdefault(each.section, []).append(seconds / each.weight)
            line = replace(line, seconds=round(seconds, 2))
            with self._stops.held():
                self._table.add(line)
            _require_device(line)

    def _line(self, each: Measurement, share: float, limit: float) -> ResultLine:
        """Measure; an error becomes the reason in the line.

        The traceback of one that is no refusal goes to stderr.
        """
        try:
            with self._stops.limited(limit):
                outcome = each.work(share)
        except TooLong:
            line = replace(
                each.line, note=f"failed: ended after {limit:,.0f} s, for the other sections"
            )
        except CurriculumError as refusal:
            line = replace(each.line, note=f"refused: {refusal}")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            words = (str(error).strip().splitlines() or [""])[0][:_MAX_REASON_LENGTH]
            line = replace(each.line, note=f"failed: {type(error).__name__}: {words}")
        else:
            line = replace(each.line, figures=outcome.figures, note=outcome.note)
        # Outside of `except`: an error being handled keeps the tensors of its frames.
        if not line.figures or torch.cuda.is_available():
            release()
        return line

    def _fits(self, each: Measurement, rest: Sequence[Measurement]) -> bool:
        # The first measurement of a section compiles for all: no estimate comes from it alone.
        paces = self._paces.get(each.section, [])
        estimate = min(paces) * each.weight if len(paces) > 1 else 0.0
        left = self._ends - self._clock()
        return left > 0 and estimate <= left - self._reserve(each, rest)

    def _reserve(self, each: Measurement, rest: Sequence[Measurement]) -> float:
        """Seconds for the other sections that have no line yet."""
        waiting = {other.section for other in rest} - set(self._paces) - {each.section}
        return RESERVE * self._seconds * len(waiting)

    def _leave_out(self, each: Measurement) -> None:
        with self._stops.held():
            self._table.left_out += (each.line.name,)
            self._table.write()


def release() -> None:
    """Return the memory that no tensor uses to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _require_device(line: ResultLine) -> None:
    """Raise Ended after an error that left the device unusable, as an illegal access does."""
    if line.figures or not torch.cuda.is_available():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        reason = f"the device failed: {str(error).splitlines()[0]}"
        raise Ended(reason, status=1) from error
