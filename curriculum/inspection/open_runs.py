"""Loss and val_bpb of a run that trains now, from the parts of its metrics and its heartbeat."""

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
"""Points of a curve of losses; each is the mean over equally many steps."""
KEPT_PARTS = 1 << 14
"""Parts of metrics that are kept in memory: a run writes one every ten seconds."""

_PART = pa.schema([METRICS_SCHEMA.field(name) for name in ("step", "loss")])


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingCurves:
    """Curves of an open run, as far as it has written them."""

    losses: tuple[tuple[int, float], ...]
    """Means of the training loss over some steps, in nats a scored token, each with its last step."""
    phase: tuple[Figure, ...]
    """Evaluations of the phase's own validation rows, by step."""
    fixed: Mapping[FixedSet, tuple[Figure, ...]]
    """Evaluations of each fixed set that has some."""
    heartbeat: Heartbeat | None
    """None before its first step."""


def training_curves(run: Path, *, points: int = MAX_POINTS) -> TrainingCurves:
    """Read the curves of the run in a directory; a part that is replaced meanwhile is left out."""
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
    """Steps and losses of all parts of a run's metrics, in step order."""
    steps: list[int] = []
    losses: list[float] = []
    for file in sorted(folder.glob("[0-9]*.parquet")):
        try:
            part = _part(file, identity_of(file.stat()))
        except FileNotFoundError:
            continue  # The trainer starts again before it.
        steps += part[0]
        losses += part[1]
    return steps, losses


@functools.lru_cache(maxsize=KEPT_PARTS)
def _part(file: Path, _: Identity) -> tuple[list[int], list[float]]:
    """Steps and losses of one part, which is read anew where it changed."""
    table = parquet.read_table(file, columns=_PART.names, schema=_PART)
    steps, losses = (table[name].to_numpy() for name in _PART.names)
    return list(map(int, steps)), list(map(float, losses))


def _thinned(
    steps: Sequence[int], losses: Sequence[float], points: int
) -> tuple[tuple[int, float], ...]:
    """The losses, or means of equally many of them where there are more than `points`.

    >>> _thinned([1, 2, 3, 4, 5], [4.0, 2.0, 3.0, 1.0, 5.0], 3)
    ((2, 3.0), (4, 2.0), (5, 5.0))
    """
    size = max(1, -(-len(steps) // points))
    return tuple(
        (steps[min(at + size, len(steps)) - 1], float(np.mean(losses[at : at + size])))
        for at in range(0, len(steps), size)
    )
