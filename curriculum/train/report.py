"""Report of a run, built from its last state and its metrics, and heartbeat while the run trains."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from curriculum.store.owners import this_process
from curriculum.train import checkpoint
from curriculum.train.advance_when import gate_bits
from curriculum.train.checkpoint import CheckpointState
from curriculum.train.document_sums import seconds_of
from curriculum.train.evaluation import evaluations_left
from curriculum.train.evaluation_sets import positions_read
from curriculum.train.metrics import read_metrics, summary
from curriculum.train.run_directory import CHECKPOINTS, HEARTBEAT, METRICS, REPORT, STATE
from curriculum.whole_files import write_whole
from schemas.job import Doing, Failure, Figure, Heartbeat, Job, MaskingCost, Report, Stopped
from schemas.json_text import now


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingEnd:
    """End of a training, with the reason and the last checkpoint."""

    stopped: Stopped
    reason: str
    state: CheckpointState
    checkpoint: Path | None


def report_of(
    job: Job,
    workspace: Path,
    directory: Path,
    outcome: TrainingEnd,
    *,
    devices: int = 1,
    leakcheck: Literal["passed", "not run"] = "not run",
    masking_cost: MaskingCost | None = None,
    failure: Failure | None = None,
) -> Report:
    """Build the report of a run from its state, its figures and a summary of its metrics."""
    state = outcome.state
    measured = summary(read_metrics(directory / METRICS))
    seconds, evaluating = measured.seconds, seconds_of(directory)
    gpu_seconds = (seconds + evaluating) * devices if job.device == "cuda" else 0.0
    where = outcome.checkpoint.relative_to(workspace).as_posix() if outcome.checkpoint else ""
    return Report(
        specialist=job.specialist,
        phase=job.phase,
        attempt=job.attempt,
        stopped=outcome.stopped,
        reason=outcome.reason,
        failure=failure,
        steps=state.step,
        tokens=state.tokens,
        before=_at(state.figures, 0),
        after=_at(state.figures, state.step) if state.step else (),
        history=tuple(figure for figure in state.figures if figure.family == "*"),
        tokens_per_second=state.tokens.positions / seconds if seconds else 0.0,
        seconds=seconds,
        evaluation_seconds=evaluating,
        gpu_seconds=gpu_seconds,
        cost=None if job.gpu_price is None else job.gpu_price * gpu_seconds / 3600,
        device=state.device or job.device,
        backend=state.backend or job.backend,
        switched=state.switched,
        masked_mfu=measured.masked_mfu,
        causal_mfu=measured.causal_mfu,
        padded_positions=measured.padded_positions,
        mean_context=measured.mean_context,
        attention_density=measured.attention_density,
        masking_cost=masking_cost,
        leakcheck=leakcheck,
        study=job.study,
        checkpoint=where,
        ended=now(),
    )


def write_end(
    job: Job,
    workspace: Path,
    directory: Path,
    stopped: Stopped,
    reason: str,
    *,
    failure: Failure | None = None,
    devices: int = 1,
) -> None:
    """Write report.json of a run that failed or was cancelled.

    Its progress is that of the last checkpoint.
    """
    last = checkpoint.newest(directory / CHECKPOINTS)
    state = CheckpointState()
    if last is not None and (last / "state.json").is_file():
        state = checkpoint.read_state(last)
    outcome = TrainingEnd(stopped=stopped, reason=reason, state=state, checkpoint=last)
    report = report_of(job, workspace, directory, outcome, failure=failure, devices=devices)
    write_whole(directory / REPORT, report.model_dump_json(indent=1))


def record_kernel(directory: Path, job: Job) -> None:
    """Record the chosen device and backend in the state.json of a run that this process owns."""
    chosen = {"device": job.device, "backend": job.kernel}
    state = this_process().model_copy(update=chosen)
    write_whole(directory / STATE, state.model_dump_json(indent=1))


def _at(figures: tuple[Figure, ...], step: int) -> tuple[Figure, ...]:
    return tuple(figure for figure in figures if figure.step == step)


MIN_SECONDS = 1.0
FORWARD = 1 / 3
"""Time of a forward pass relative to a step on equally many positions. Backward takes twice as long."""


class HeartbeatWriter:
    """Writer of heartbeats after steps, at most one per second, and before any other activity.

    A heartbeat is a file of a few kilobytes.
    """

    def __init__(self, job: Job, directory: Path) -> None:
        self.job, self.directory = job, directory
        self._last = float("-inf")
        self._positions, self._seconds = 0, 0.0
        self._speed, self._evaluation = 0.0, 0.0

    def step(self, state: CheckpointState, *, positions: int, seconds: float) -> None:
        """Record a step on `positions` row positions that took `seconds`. Write a heartbeat if one is due."""
        self._positions += positions
        self._seconds += seconds
        at = time.monotonic()
        if at - self._last < MIN_SECONDS:
            return
        self._speed = self._positions / max(self._seconds, 1e-9)
        self.beat(state)
        self._last, self._positions, self._seconds = at, 0, 0.0

    def set_evaluation_seconds(self, seconds: float) -> None:
        """Set the duration that later evaluations are expected to have to that of a complete evaluation."""
        self._evaluation = seconds

    def beat(self, state: CheckpointState, doing: Doing | None = None) -> None:
        """Write a heartbeat now. `doing` names the activity that begins, unless it is a step."""
        bits = gate_bits(state.figures, self.job.phase)
        left = evaluations_left(state.step, every=self.job.evaluate_every, steps=self.job.steps)
        one = self._evaluation
        if not one and self._speed:
            # Before the first measured evaluation, estimated from the speed of steps.
            one = FORWARD * positions_read(self.job.evaluations) / self._speed
        beat = Heartbeat(
            step=state.step,
            steps=self.job.steps,
            valid_tokens=state.tokens.valid,
            tokens_per_second=self._speed,
            val_bpb=bits[-1] if bits else None,
            figures=tuple(figure for figure in state.figures if figure.family == "*"),
            doing=doing,
            evaluating_seconds=left * one,
            at=now(),
        )
        # Losing a heartbeat is harmless: the file isn't flushed to disk, and a full disk is reported by
        # checkpoints.
        draft = self.directory / f".{HEARTBEAT}.draft"
        with contextlib.suppress(OSError):
            draft.write_text(beat.model_dump_json())
            draft.replace(self.directory / HEARTBEAT)
