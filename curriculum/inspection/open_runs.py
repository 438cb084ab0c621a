"""Training loss and val_bpb of an open run, from its heartbeat and the parts of its metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from curriculum.inspection.step_metrics import MAX_POINTS, TrainingPoint, training_points
from curriculum.store import inside
from curriculum.train.run_directory import HEARTBEAT, METRICS
from schemas.job import Figure, Heartbeat
from schemas.objectives import FIXED_SETS, PHASE_SET, FixedSet


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingCurves:
    """Curves of an open run, up to the metrics that it wrote last."""

    points: tuple[TrainingPoint, ...]
    phase: tuple[Figure, ...]
    """Evaluations on the validation rows of the phase itself, by step."""
    fixed: Mapping[FixedSet, tuple[Figure, ...]]
    """Evaluations on each fixed set that was measured, by step."""
    heartbeat: Heartbeat | None
    """Heartbeat of the run; None before its first step."""


def training_curves(run: Path, *, points: int = MAX_POINTS) -> TrainingCurves:
    """Read the curves of the run in a directory, with at most `points` points of its training loss."""
    found = training_points(run / METRICS, points=points)
    heartbeat = inside.read(Heartbeat, run / HEARTBEAT)
    figures = heartbeat.figures if heartbeat else ()
    return TrainingCurves(
        points=found,
        phase=tuple(figure for figure in figures if figure.set == PHASE_SET),
        fixed={
            name: taken
            for name in FIXED_SETS
            if (taken := tuple(figure for figure in figures if figure.set == name))
        },
        heartbeat=heartbeat,
    )
