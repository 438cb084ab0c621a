"""Training steps of a run, read from the parts of its metrics."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum import parquet
from curriculum.published_files import Identity, identity_of
from schemas.job import METRICS_SCHEMA

MAX_POINTS = 400
"""Maximum number of points in the curve of a run; each point stands for the same number of steps."""
KEPT_PARTS = 1 << 14
"""Number of parts of metrics to cache in memory. A run writes a part every ten seconds."""
_SUMS = ("valid_tokens", "scored_tokens", "seconds")
_COLUMNS = ("step", "loss", "learning_rate", *_SUMS)

Columns = Mapping[str, npt.NDArray[np.float64]]
"""Values by the name of their column; one value per step, in the order of steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPoint:
    """A point in the curves of a run, for a group of consecutive steps."""

    steps: int
    """Number of the last step of the group."""
    tokens: int
    """Valid tokens from the start of the run to that step."""
    scored_tokens: int
    """Scored tokens from the start of the run to that step."""
    seconds: float
    """Training time from the start of the run to that step, without evaluations."""
    loss: float
    """Mean training loss of the group, in nats per scored token."""
    learning_rate: float
    """Mean of the group's finite learning rates; NaN if it has none."""


def training_points(folder: Path, *, points: int = MAX_POINTS) -> tuple[TrainingPoint, ...]:
    """Return at most `points` points for the steps in a folder of metrics.

    Steps without a finite loss count in the sums only.
    """
    columns = read_steps(folder)
    steps, losses, rates = (columns[name] for name in ("step", "loss", "learning_rate"))
    tokens, scored, seconds = (np.cumsum(columns[name]) for name in _SUMS)
    size = max(1, -(-len(steps) // points))
    found = []
    for start in range(0, len(steps), size):
        group = slice(start, start + size)
        last = min(start + size, len(steps)) - 1
        loss = _finite_mean(losses[group])
        if np.isfinite(loss):
            point = TrainingPoint(
                steps=int(steps[last]),
                tokens=int(tokens[last]),
                scored_tokens=int(scored[last]),
                seconds=float(seconds[last]),
                loss=loss,
                learning_rate=_finite_mean(rates[group]),
            )
            found.append(point)
    return tuple(found)


def _finite_mean(values: npt.NDArray[np.float64]) -> float:
    """Return the mean of the finite values; NaN if there are none.

    >>> _finite_mean(np.array([1.0, np.nan, 2.0, np.inf, 6.0])), _finite_mean(np.array([np.nan]))
    (3.0, nan)
    """
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


def step_losses(folder: Path) -> tuple[Sequence[int], Sequence[float]]:
    """Return the steps and losses in all parts of a run's metrics, in the order of steps."""
    columns = read_steps(folder)
    return [*map(int, columns["step"])], [*map(float, columns["loss"])]


def read_steps(folder: Path) -> Columns:
    """Return the columns of all parts in a folder of metrics; parts removed meanwhile are skipped."""
    parts = []
    for file in sorted(folder.glob("[0-9]*.parquet")):
        try:
            parts.append(_part(file, identity_of(file.stat())))
        except FileNotFoundError:
            continue  # A trainer that resumes from an earlier step removes the parts after it.
    empty: npt.NDArray[np.float64] = np.empty(0)
    return {name: np.concatenate([empty, *(part[name] for part in parts)]) for name in _COLUMNS}


@functools.lru_cache(maxsize=KEPT_PARTS)
def _part(file: Path, _: Identity) -> Columns:
    """Return the columns of one part. The result is cached until the file changes.

    External trainers may write fewer columns while a run is open; missing columns are zero.

    Raises:
        StoreError: naming the file if it is damaged or a column has another type.
    """
    there = parquet.read_schema(file).names
    schema = pa.schema([METRICS_SCHEMA.field(name) for name in _COLUMNS if name in there])
    table = parquet.read_table(file, schema.names, schema=schema)
    zeros: npt.NDArray[np.float64] = np.zeros(len(table))
    return {
        name: table[name].to_numpy().astype(np.float64) if name in there else zeros
        for name in _COLUMNS
    }
