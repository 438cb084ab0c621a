"""Training loss and learning rate of a specialist's finished runs, read from the metrics of their steps."""

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
"""Maximum number of points in a run's curve; each point is a mean over equally many steps."""
_COLUMNS = pa.schema([METRICS_SCHEMA.field(name) for name in ("step", "loss", "learning_rate")])


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCurves:
    """Curves of one run over its training steps."""

    losses: tuple[Point, ...]
    """Mean training loss of consecutive steps, in nats per scored token, at the last of these steps."""
    learning_rates: tuple[Point, ...]
    """Mean learning rate of the same steps, at the last of these steps."""


def read_step_curves(run: Path) -> StepCurves | None:
    """Return the curves of the run in a folder; None if its metrics are missing or damaged."""
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
    """Reduce a curve to at most MAX_POINTS points: means of consecutive finite values.

    The position of a mean is the last of its steps.
    """
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
    """Step curves of a finished phase, and the phase's place on the axis of the steps of all phases."""

    name: str
    first: int
    """Number of steps before the phase."""
    steps: int
    curves: StepCurves | None


def loss_chart(phases: Sequence[PhaseSteps]) -> Markup | None:
    """Return a plot of the training loss over the steps of all phases; None without metrics."""
    found = [(phase.first, phase.curves.losses) for phase in phases if phase.curves]
    losses = _joined(found)
    if not losses:
        return None
    smooth = _joined([(first, plots.running_mean(points)) for first, points in found])
    mean = Series(points=smooth, look="own", name="running mean", figure=f"{smooth[-1][1]:.3f}")
    return _chart([Series(points=losses, look="raw", dots="none"), mean], phases, "training loss")


def learning_rate_chart(phases: Sequence[PhaseSteps]) -> Markup | None:
    """Return a plot of the learning rate over the steps of all phases; None without metrics."""
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
