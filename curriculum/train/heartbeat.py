"""The sign of life of a run: how far it is, in a small file that is rewritten once a second."""

import contextlib
import time
from pathlib import Path

from curriculum.train.checkpoint import TrainerState
from curriculum.train.directory import HEARTBEAT
from curriculum.train.gate import gate_bits
from schemas.job import Heartbeat, Job
from schemas.moment import now as present

LEAST_SECONDS = 1.0


class Heart:
    """Beats after a step, unless it did a moment ago; a beat costs a file of a hundred bytes."""

    def __init__(self, job: Job, directory: Path) -> None:
        self.job, self.directory = job, directory
        self._last = float("-inf")
        self._positions, self._seconds = 0, 0.0

    def step(self, state: TrainerState, *, positions: int, seconds: float) -> None:
        """Say how far `state` is, by a step of so many row positions that took so long."""
        self._positions += positions
        self._seconds += seconds
        now = time.monotonic()
        if now - self._last < LEAST_SECONDS:
            return
        bits = gate_bits(state.figures, self.job.phase)
        beat = Heartbeat(
            step=state.step,
            steps=self.job.steps,
            valid_tokens=state.tokens.valid,
            tokens_per_second=self._positions / max(self._seconds, 1e-9),
            val_bpb=bits[-1] if bits else None,
            at=present(),
        )
        # Nothing rests on it: it isn't flushed to the disk, and one that is full is told by a checkpoint.
        draft = self.directory / f".{HEARTBEAT}.draft"
        with contextlib.suppress(OSError):
            draft.write_text(beat.model_dump_json())
            draft.replace(self.directory / HEARTBEAT)
        self._last, self._positions, self._seconds = now, 0, 0.0
