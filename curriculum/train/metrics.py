"""Metrics as Parquet parts, a row a step, and as lines to read."""

import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from curriculum.train.disk import replace_whole
from schemas.job import METRICS_SCHEMA

FLUSH_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepMetrics:
    """One row of METRICS_SCHEMA."""

    step: int
    position: int
    valid_tokens: int
    scored_tokens: int
    loss: float
    z_loss: float
    gradient_norm: float
    learning_rate: float
    attention_density: float
    padding_share: float
    seconds: float
    tokens_per_second: float
    scored_tokens_per_second: float
    memory_bytes: int


class Metrics:
    """The metrics of a run.

    A part never reaches past a checkpoint, so those from the resumed step on can be removed whole.
    """

    def __init__(self, folder: Path, *, resumed_at: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._rows: list[StepMetrics] = []
        self._flushed = time.monotonic()
        for part in folder.glob("*.parquet"):
            if int(part.stem) > resumed_at:
                part.unlink()

    def record(self, row: StepMetrics, *, steps: int) -> None:
        """Keep a row, and write what is kept every ten seconds."""
        self._rows.append(row)
        due = time.monotonic() - self._flushed >= FLUSH_SECONDS
        if due or row.step % max(steps // 20, 1) == 0 or row.step == steps:
            say(_line(row, steps))
        if due:
            self.flush()

    def flush(self) -> None:
        """Write what is kept as one part, named by its first step."""
        self._flushed = time.monotonic()
        if self._rows:
            table = pa.Table.from_pylist([asdict(row) for row in self._rows], METRICS_SCHEMA)
            name = f"{self._rows[0].step:010d}.parquet"
            replace_whole(self.folder / name, lambda path: pq.write_table(table, path))
            self._rows = []


def read_metrics(folder: Path) -> pa.Table:
    """All parts of a run, in step order."""
    parts = sorted(folder.glob("*.parquet"))
    tables = [pq.read_table(part, partitioning=None) for part in parts]
    return pa.concat_tables(tables) if tables else METRICS_SCHEMA.empty_table()


def memory_bytes(device: torch.device) -> int:
    """The most memory held so far: of the GPU where there is one, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def say(line: str) -> None:
    """A line of the run's console log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _line(row: StepMetrics, steps: int) -> str:
    return (
        f"step {row.step}/{steps}  loss {row.loss:.4f}  rate {row.learning_rate:.2e}  "
        f"gradient {row.gradient_norm:.2f}  {row.tokens_per_second:,.0f} tokens/s"
    )
