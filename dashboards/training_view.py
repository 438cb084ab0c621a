"""x-axis and smoothing that a reader chooses for curves of training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from curriculum.inspection.step_metrics import TrainingPoint
from dashboards.charts import plots
from dashboards.charts.plots import Scale


class TrainingProgress(Protocol):
    """Progress of a training, counted from its start."""

    @property
    def steps(self) -> int:
        """Number of optimizer steps."""

    @property
    def tokens(self) -> int:
        """Number of valid tokens."""

    @property
    def scored_tokens(self) -> int:
        """Number of scored tokens."""

    @property
    def seconds(self) -> float:
        """Training time, without evaluations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingAxis:
    """An x-axis of curves of training."""

    name: str
    """Name in the list of axes."""
    title: str
    """Title below a chart."""
    place: Callable[[TrainingProgress], float]
    """Position of a state of training on the axis."""
    is_duration: bool = False

    def scale(self, last: float) -> Scale:
        """Return the scale of the axis from 0 to a position."""
        return plots.durations(last) if self.is_duration else plots.within(0, last or 1)


STEPS = TrainingAxis(name="steps", title="steps", place=lambda point: point.steps)
TOKENS = TrainingAxis(name="tokens", title="training tokens", place=lambda point: point.tokens)
SCORED = TrainingAxis(
    name="scored tokens", title="scored training tokens", place=lambda point: point.scored_tokens
)
TIME = TrainingAxis(
    name="training time",
    title="training time",
    place=lambda point: point.seconds,
    is_duration=True,
)
AXES: Mapping[str, TrainingAxis] = {axis.name: axis for axis in (STEPS, TOKENS, SCORED, TIME)}
"""Axes by name, in the order of the list."""
MAX_WEIGHT = 0.99
SETTLED = 10
"""The first 1/SETTLED of the losses of a run may be too high for a plot and cut off."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingView:
    """Choices of the reader for all curves of training on a page."""

    axis: TrainingAxis = STEPS
    loss_weight: float = 0.9
    """Weight of the exponential moving average of training losses; 0 for no smoothing."""
    bpb_weight: float = 0.0
    """Weight of the exponential moving average of val_bpb. Evaluations are few and exact, hence none."""

    @staticmethod
    def of(axis: str, loss_weight: str, bpb_weight: str) -> "TrainingView":
        """Return the view that an address asks for; the default of each choice that it doesn't have."""
        usual = TrainingView()
        return TrainingView(
            axis=AXES.get(axis, usual.axis),
            loss_weight=_weight(loss_weight, usual.loss_weight),
            bpb_weight=_weight(bpb_weight, usual.bpb_weight),
        )


def _weight(text: str, usual: float) -> float:
    """Return the weight in a text, or the usual one.

    >>> _weight("0.5", 0.9), _weight("1", 0.9), _weight("nan", 0.9), _weight("", 0.9)
    (0.5, 0.9, 0.9, 0.9)
    """
    try:
        weight = float(text)
    except ValueError:
        return usual
    return weight if 0 <= weight <= MAX_WEIGHT else usual


def step_places(
    axis: TrainingAxis, points: Sequence[TrainingPoint], steps: Sequence[int]
) -> list[float]:
    """Return the positions of some steps of a run on an axis.

    On other axes than that of steps, positions are linear between the points of the run, and steps after the
    last point have its position.
    """
    if axis is STEPS:
        return [float(step) for step in steps]
    known = [0, *(point.steps for point in points)], [0.0, *map(axis.place, points)]
    return [float(place) for place in np.interp(steps, *known)]
