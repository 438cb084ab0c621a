"""Follower of a run's log and heartbeat. It reports new lines, new steps and stalls."""

import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from curriculum.store import inside
from curriculum.train.processes import describe_stopped
from curriculum.train.run_directory import HEARTBEAT, LOG
from schemas.job import Heartbeat, Job
from schemas.progress import Progress, ProgressCallback

MIN_SILENCE_SECONDS = 600.0
STEPS_OF_SILENCE = 20
"""Time without a new step after which a run counts as stalled, in median durations of a step."""
_MAX_KEPT_STEPS = 101
_MAX_BYTES_PER_LOOK = 1 << 20
_MAX_LINES_PER_LOOK = 200


class LogFollower:
    """Reporter of everything new in a run's log and heartbeat since the last look."""

    def __init__(
        self,
        job: Job,
        directory: Path,
        watch: ProgressCallback,
        tell: Callable[[str], None],
        stalled: Callable[[str], None],
    ) -> None:
        self.job, self.directory = job, directory
        self.watch, self.tell, self.stalled = watch, tell, stalled
        self._tail = Tail(directory / LOG)
        self._pulse = StepMonitor(time.monotonic())
        self._seen: Heartbeat | None = None

    def look(self, runs: bool = True) -> None:
        """Report new lines and steps, and a stall that has begun.

        `runs` is False for a job that doesn't run yet. Such a job can't stall.
        """
        if not runs:
            self._pulse = StepMonitor(time.monotonic())
        for line in self._tail.lines():
            self.tell(line)
        beat = read_heartbeat(self.directory)
        if beat is not None and beat != self._seen:
            self._seen = beat
            # The last step isn't the end of the run: an evaluation and a checkpoint follow.
            if beat.step < beat.steps or beat.doing is not None:
                self.watch(progress_of(self.job, beat))
        silent = self._pulse.seconds_stalled(beat.step if beat else 0, time.monotonic())
        if silent is not None:
            at = f"after step {beat.step} of {beat.steps}" if beat else "before its first step"
            still = "; ".join(describe_stopped(self.directory)) or "its processes are still running"
            self.stalled(
                f"{self.job.phase} has finished no step for {silent / 60:.0f} min, {at}; "
                f"{still}. See the log, {self.directory / LOG}"
            )


class Tail:
    """Reader of the lines that are appended to a file from now on."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._at = file.stat().st_size if file.exists() else 0
        self._rest = b""

    def lines(self) -> list[str]:
        r"""Return the new complete lines, at most 200.

        If \r overwrites a line, only its last state is returned. b"10%\r20%\r30%\nstep 1\nste" -> ["30%",
        "step 1"]
        """
        if not self.file.exists():
            return []
        with self.file.open("rb") as file:
            file.seek(self._at)
            new = file.read(_MAX_BYTES_PER_LOOK)
        self._at += len(new)
        *whole, self._rest = (self._rest + new).split(b"\n")
        self._rest = self._rest[-_MAX_BYTES_PER_LOOK:]
        lines = [line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace") for line in whole]
        if (dropped := len(lines) - _MAX_LINES_PER_LOOK) > 0:
            lines = [f"… {dropped} more lines in {self.file.name}", *lines[dropped:]]
        return lines


class StepMonitor:
    """Detector of stalls. All times passed to it come from one monotonic clock."""

    def __init__(self, now: float) -> None:
        self._step, self._since, self._reported = 0, now, False
        self._took: deque[float] = deque(maxlen=_MAX_KEPT_STEPS)

    def seconds_stalled(self, step: int, now: float) -> float | None:
        """Return the seconds since the last step if they are too many, else None.

        A stall is reported once. After that, the result is None until the next step.
        """
        if step != self._step:
            if self._step and step > self._step:
                self._took.append((now - self._since) / (step - self._step))
            self._step, self._since, self._reported = step, now, False
        silent = now - self._since
        usual = statistics.median(self._took) if self._took else 0.0
        if self._reported or silent < max(MIN_SILENCE_SECONDS, STEPS_OF_SILENCE * usual):
            return None
        self._reported = True
        return silent


def read_heartbeat(directory: Path) -> Heartbeat | None:
    """Read the last heartbeat of an open run. None if there is none."""
    return inside.read(Heartbeat, directory / HEARTBEAT)


def progress_of(job: Job, beat: Heartbeat) -> Progress:
    """Convert a heartbeat to progress.

    While the model is evaluated after a step, this step counts as not done.
    """
    measured = [] if beat.val_bpb is None else [f"val_bpb {beat.val_bpb:.3f}"]
    speed = f"{beat.tokens_per_second:,.0f} tokens/s"
    return Progress(
        stage="train",
        item=job.phase,
        done=min(beat.step, max(beat.steps - 1, 0)),
        total=beat.steps,
        unit="steps",
        note=", ".join([*measured, beat.doing or speed]),
        after=beat.evaluating_seconds,
    )
