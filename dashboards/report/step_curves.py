"""Training loss and learning rate of the finished runs of a specialist, from the metrics of their steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from markupsafe import Markup

from curriculum import parquet
from curriculum.inspection.formats import integer
from curriculum.train.run_directory import METRICS
from dashboards.charts import plots
from dashboards.charts.plots import Point, Series
from schemas.errors import CurriculumError
from schemas.job import METRICS_SCHEMA

MAX_POINTS = 400
"""Points of a curve per run; a point is the mean over equally many steps."""
_COLUMNS = pa.schema([METRICS_SCHEMA.field(name) for name in ("step", "loss", "learning_rate")])


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCurves:
    """Curves of one run over its steps."""

    losses: tuple[Point, ...]
    """Last step and mean training loss of consecutive steps, in nats per scored token."""
    learning_rates: tuple[Point, ...]
    """Last step and mean learning rate of the same steps."""


def read_step_curves(run: Path) -> StepCurves | None:
    """Return the curves of a run directory, or None if its metrics are missing or damaged."""
    files = sorted((run / METRICS).glob("[0-9]*.parquet"))
    try:
        table = (
            parquet.read_table(files, columns=_COLUMNS.names, schema=_COLUMNS) if files else None
        )
    except (CurriculumError, OSError):
        return None
    if table is None or not len(table):
        return None
    order = np.argsort(table["step"].to_numpy(), kind="stable")
    steps, losses, rates = (table[name].to_numpy()[order] for name in _COLUMNS.names)
    return StepCurves(losses=_thinned(steps, losses), learning_rates=_thinned(steps, rates))


def _thinned(steps: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> tuple[Point, ...]:
    """Return at most MAX_POINTS means of consecutive values that are finite, each with its last step."""
    size = max(1, -(-len(steps) // MAX_POINTS))
    points = []
    for start in range(0, len(steps), size):
        part = values[start : start + size]
        finite = part[np.isfinite(part)]
        if len(finite):
            last = int(steps[min(start + size, len(steps)) - 1])
            points.append((float(last), float(finite.mean())))
    return tuple(points)


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseSteps:
    """The step curves of a finished phase, with its place on the axis of all steps."""

    name: str
    first: int
    """Number of steps before the phase."""
    steps: int
    curves: StepCurves | None


def loss_chart(phases: Sequence[PhaseSteps]) -> Markup | None:
    """Return the training loss over the steps of all phases, or None without metrics."""
    found = [(phase.first, phase.curves.losses) for phase in phases if phase.curves]
    losses = _joined(found)
    if not losses:
        return None
    smooth = _joined([(first, plots.running_mean(points)) for first, points in found])
    mean = Series(points=smooth, look="own", name="running mean", figure=f"{smooth[-1][1]:.3f}")
    return _chart([Series(points=losses, look="raw", dots="none"), mean], phases, "training loss")


def learning_rate_chart(phases: Sequence[PhaseSteps]) -> Markup | None:
    """Return the learning rate over the steps of all phases, or None without metrics."""
    found = [(phase.first, phase.curves.learning_rates) for phase in phases if phase.curves]
    rates = _joined(found)
    if not rates:
        return None
    line = Series(points=rates, look="own", name="learning rate", figure=f"{rates[-1][1]:.2g}")
    return _chart([line], phases, "learning rate", from_zero=True)


def _joined(curves: Sequence[tuple[int, Sequence[Point]]]) -> list[Point]:
    return [(first + step, value) for first, points in curves for step, value in points]


def _chart(
    series: Sequence[Series], phases: Sequence[PhaseSteps], what: str, *, from_zero: bool = False
) -> Markup:
    last = phases[-1].first + phases[-1].steps
    values = [value for curve in series for _, value in curve.points]
    return plots.plot(
        series,
        x=plots.within(0, last),
        y=plots.around([0.0, *values, 1.05 * max(values)] if from_zero else values),
        label=f"{what} over {integer(last)} steps",
        below="steps of all phases",
        marks=[(phase.first, phase.name) for phase in phases],
    )
