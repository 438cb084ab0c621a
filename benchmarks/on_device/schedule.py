"""Order of the measurements, and the time that each measurement gets.

Measurements run in waves; the first wave contains the most important measurements of every section. A
measurement gets a share of the remaining time in proportion to its weight. A slow section can't take all the
time: RESERVE of the time is kept for every section that has no result yet. If a measurement probably takes
longer than the rest of the time, estimated from earlier measurements of its section, it is skipped and
listed. A measurement that exceeds its limit is stopped.
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
"""Share of the whole time that is kept for a section without a result."""
_MAX_REASON_LENGTH = 200
_ROUNDS_SHARE = 0.6
"""Share of a measurement's time limit for its rounds; the rest is for compiling its kernels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Figures of a measurement, and a note about them."""

    figures: tuple[Figure, ...]
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """Measurement to run: the labels of its result, and the function that measures its figures."""

    wave: int
    line: ResultLine
    weight: float = 1.0
    """Expected duration, in a unit that is the same within a section."""
    work: Callable[[float], Outcome]
    """Function that measures for about the given number of seconds."""
    build: Callable[[], str]
    """Function that builds the measured model on fake GPU tensors, and describes the output."""

    @property
    def section(self) -> str:
        """Section of the result."""
        return self.line.section


def sort_by_wave(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Sort measurements by wave; keep the given order within a wave."""
    return sorted(measurements, key=lambda measurement: measurement.wave)


class Schedule:
    """Time limit of a run, divided between its measurements."""

    def __init__(
        self,
        table: Table,
        stops: Stops,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        limit: float = math.inf,
    ) -> None:
        """Divide `seconds` between measurements; `limit` is the maximum seconds of one measurement."""
        self._table, self._stops, self._clock = table, stops, clock
        self._seconds, self._limit = seconds, limit
        self._ends = clock() + seconds
        self._paces: dict[str, list[float]] = {}
        """Seconds per unit of weight of the finished measurements, by section."""

    def run(self, measurements: Sequence[Measurement]) -> None:
        """Add a result for every measurement that fits into the remaining time.

        Measurements that have figures in the table are not repeated.

        Raises:
            Ended: if an error left the device unusable.
        """
        measurements = [
            measurement for measurement in measurements if not self._table.has(measurement.line)
        ]
        for number, measurement in enumerate(measurements):
            rest = measurements[number:]
            if not self._fits(measurement, rest):
                self._skip(measurement)
                continue
            left = self._ends - self._clock()
            share = left * measurement.weight / sum(other.weight for other in rest)
            began = self._clock()
            limit = min(left - self._reserve(measurement, rest), self._limit)
            line = self._measure(measurement, min(share, _ROUNDS_SHARE * self._limit), limit)
            seconds = self._clock() - began
            self._paces.setdefault(measurement.section, []).append(seconds / measurement.weight)
            line = replace(line, seconds=round(seconds, 2))
            with self._stops.defer():
                self._table.add(line)
            _require_device(line)

    def _measure(self, measurement: Measurement, share: float, limit: float) -> ResultLine:
        """Run a measurement; after an error, the result contains the reason instead of figures.

        Print the traceback of an unexpected error to stderr.
        """
        try:
            with self._stops.limited(limit):
                outcome = measurement.work(share)
        except TooLong:
            note = f"failed: stopped after {limit:,.0f} s to leave time for the other sections"
            line = replace(measurement.line, note=note)
        except CurriculumError as refusal:
            line = replace(measurement.line, note=f"refused: {refusal}")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            reason = (str(error).strip().splitlines() or [""])[0][:_MAX_REASON_LENGTH]
            line = replace(measurement.line, note=f"failed: {type(error).__name__}: {reason}")
        else:
            line = replace(measurement.line, figures=outcome.figures, note=outcome.note)
        # Outside of `except`, because an error that is being handled keeps the tensors of its frames.
        if not line.figures or torch.cuda.is_available():
            release()
        return line

    def _fits(self, measurement: Measurement, rest: Sequence[Measurement]) -> bool:
        # The first measurement of a section compiles kernels for all, so it is no basis for an estimate.
        paces = self._paces.get(measurement.section, [])
        estimate = min(paces) * measurement.weight if len(paces) > 1 else 0.0
        left = self._ends - self._clock()
        return left > 0 and estimate <= left - self._reserve(measurement, rest)

    def _reserve(self, measurement: Measurement, rest: Sequence[Measurement]) -> float:
        """Return the seconds that are kept for the other sections without a result."""
        waiting = {other.section for other in rest} - set(self._paces) - {measurement.section}
        return RESERVE * self._seconds * len(waiting)

    def _skip(self, measurement: Measurement) -> None:
        with self._stops.defer():
            self._table.skipped += (measurement.line.name,)
            self._table.write()


def release() -> None:
    """Return unused memory of torch to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _require_device(line: ResultLine) -> None:
    """Raise Ended if an error, such as an illegal memory access, left the device unusable."""
    if line.figures or not torch.cuda.is_available():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        reason = f"the device failed: {str(error).splitlines()[0]}"
        raise Ended(reason, status=1) from error
