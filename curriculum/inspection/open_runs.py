"""Training loss and val_bpb of an open run, from its heartbeat and the parts of its metrics."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from curriculum import parquet
from curriculum.published_files import Identity, identity_of
from curriculum.store import inside
from curriculum.train.run_directory import HEARTBEAT, METRICS
from schemas.job import METRICS_SCHEMA, Figure, Heartbeat
from schemas.objectives import FIXED_SETS, PHASE_SET, FixedSet

MAX_POINTS = 400
"""Maximum number of points in a loss curve; each point is the mean of the same number of steps."""
KEPT_PARTS = 1 << 14
"""Number of parts of metrics to cache in memory. A run writes a part every ten seconds."""

_PART = pa.schema([METRICS_SCHEMA.field(name) for name in ("step", "loss")])


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingCurves:
    """Curves of an open run, up to the metrics that it wrote last."""

    losses: tuple[tuple[int, float], ...]
    """Points of the loss curve, each for a group of steps.

    A point is the last step of the group, and its mean training loss in nats per scored token.
    """
    phase: tuple[Figure, ...]
    """Evaluations on the validation rows of the phase itself, by step."""
    fixed: Mapping[FixedSet, tuple[Figure, ...]]
    """Evaluations on each fixed set that was measured, by step."""
    heartbeat: Heartbeat | None
    """Heartbeat of the run; None before its first step."""


def training_curves(run: Path, *, points: int = MAX_POINTS) -> TrainingCurves:
    """Read the curves of the run in a directory. Parts that are removed meanwhile are skipped."""
    steps, losses = step_losses(run / METRICS)
    heartbeat = inside.read(Heartbeat, run / HEARTBEAT)
    figures = heartbeat.figures if heartbeat else ()
    return TrainingCurves(
        losses=_thinned(steps, losses, points),
        phase=tuple(figure for figure in figures if figure.set == PHASE_SET),
        fixed={
            name: taken
            for name in FIXED_SETS
            if (taken := tuple(figure for figure in figures if figure.set == name))
        },
        heartbeat=heartbeat,
    )


def step_losses(folder: Path) -> tuple[Sequence[int], Sequence[float]]:
    """Return the steps and losses in all parts of a run's metrics, in the order of steps."""
    steps: list[int] = []
    losses: list[float] = []
    for file in sorted(folder.glob("[0-9]*.parquet")):
        try:
            part = _part(file, identity_of(file.stat()))
        except FileNotFoundError:
            continue  # A trainer that resumes from an earlier step removes the parts after it.
        steps += part[0]
        losses += part[1]
    return steps, losses


@functools.lru_cache(maxsize=KEPT_PARTS)
def _part(file: Path, _: Identity) -> tuple[list[int], list[float]]:
    """Return the steps and losses of one part. The result is cached until the file changes."""
    table = parquet.read_table(file, columns=_PART.names, schema=_PART)
    steps, losses = (table[name].to_numpy() for name in _PART.names)
    return list(map(int, steps)), list(map(float, losses))


def _thinned(
    steps: Sequence[int], losses: Sequence[float], points: int
) -> tuple[tuple[int, float], ...]:
    """Return pairs of step and loss, at most `points`; if there are more, average groups of equal size.

    >>> _thinned([1, 2, 3, 4, 5], [4.0, 2.0, 3.0, 1.0, 5.0], 3)
    ((2, 3.0), (4, 2.0), (5, 5.0))
    """
    size = max(1, -(-len(steps) // points))
    return tuple(
        (steps[min(at + size, len(steps)) - 1], float(np.mean(losses[at : at + size])))
        for at in range(0, len(steps), size)
    )
