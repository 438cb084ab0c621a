"""Training loss and learning rate over the steps of all phases, and the x-axes of a report's curves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from curriculum.inspection.formats import integer
from curriculum.inspection.step_metrics import TrainingPoint, training_points
from curriculum.train.run_directory import METRICS
from dashboards.charts import plots, smoothing
from dashboards.charts.plots import Point, Series
from dashboards.training_view import AXES, TrainingAxis, TrainingView
from schemas.errors import CurriculumError


def read_points(run: Path) -> tuple[TrainingPoint, ...]:
    """Return the points of the run in a folder; none if its metrics are missing or damaged."""
    try:
        return training_points(run / METRICS)
    except (CurriculumError, OSError):
        return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseSteps:
    """Points of a finished phase, and the phase's place on the axis of the steps of all phases."""

    name: str
    first: int
    """Number of steps before the phase."""
    steps: int
    points: tuple[TrainingPoint, ...]

    def curve(self, values: Sequence[float]) -> list[Point]:
        """Return values, one for each point, over the steps of all phases."""
        steps = (self.first + point.steps for point in self.points)
        return [*zip(steps, values, strict=True)]


def loss_chart(phases: Sequence[PhaseSteps]) -> Markup | None:
    """Return a plot of the training loss over the steps of all phases; None without metrics.

    The loss is smoothed within each phase.
    """
    found = [phase for phase in phases if phase.points]
    if not found:
        return None
    series = []
    for phase in found:
        losses = [point.loss for point in phase.points]
        is_last = phase is found[-1]
        line = Series(
            points=phase.curve(losses),
            look="own",
            name="last loss" if is_last else "",
            figure=f"{losses[-1]:.3f}" if is_last else "",
            dots="last" if is_last else "none",
        )
        series.append(smoothing.smooth(line, TrainingView().loss_weight))
    return _chart(series, phases, "training loss")


def learning_rate_chart(phases: Sequence[PhaseSteps]) -> Markup | None:
    """Return a plot of the learning rate over the steps of all phases; None without metrics."""
    rates = [
        place
        for phase in phases
        for place in phase.curve([point.learning_rate for point in phase.points])
        if math.isfinite(place[1])
    ]
    if not rates:
        return None
    line = Series(points=rates, look="own", name="learning rate", figure=f"{rates[-1][1]:.2g}")
    return _chart([line], phases, "learning rate", from_zero=True)


def _chart(
    series: Sequence[Series], phases: Sequence[PhaseSteps], what: str, *, from_zero: bool = False
) -> Markup:
    last = phases[-1].first + phases[-1].steps
    values = [value for curve in series for _, value in (*curve.points, *curve.behind)]
    return plots.plot(
        series,
        x=plots.within(0, last),
        y=plots.around([0.0, *values, 1.05 * max(values)] if from_zero else values),
        label=f"{what} over {integer(last)} steps",
        below="steps of all phases",
        marks=[(phase.first, phase.name) for phase in phases],
    )


def axis_data(phases: Sequence[PhaseSteps]) -> list[dict[str, Any]]:
    """Return the x-axes of all curves for the page's script, the axis of steps first.

    An axis has the places of the same states of training, as shares of the width. Without metrics of all
    phases, there is only the axis of steps.
    """
    steps, *others = (_axis_data(axis, phases) for axis in AXES.values())
    return [steps, *others] if phases and all(phase.points for phase in phases) else [steps]


def _axis_data(axis: TrainingAxis, phases: Sequence[PhaseSteps]) -> dict[str, Any]:
    found, first = [0.0], 0.0
    for phase in phases:
        found += [first + axis.place(point) for point in phase.points]
        first = found[-1]
    scale = axis.scale(first)
    return {
        "name": axis.name,
        "title": f"{axis.title} of all phases",
        "ticks": [[_share(scale, value), label] for value, label in scale.ticks],
        "places": [_share(scale, place) for place in found],
    }


def _share(scale: plots.Scale, value: float) -> float:
    return round(plots.across(scale, value), 4)
