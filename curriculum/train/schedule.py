"""Warm up, stay, decay: one stable rate over all phases, and the decay as a job of its own."""

from schemas.job import OptimizerSpec

REWARM_FROM = 0.1
"""Of the rate: where a job starts that carries on with Adam's moments at another row length."""
DECAY_TO = 0.1


def learning_rate(step: int, steps: int, optimizer: OptimizerSpec, *, carries_on: bool) -> float:
    """The rate of step `step`, counted from 0 of `steps`.

    stable, 4 steps of warm-up to 1.0: 0.25, 0.5, 0.75, 1.0, 1.0 …
    decay over 10 steps from 1.0: 1.0, 0.9, …, 0.2, 0.1 at the last.
    """
    share = _warmup(step, optimizer.warmup_steps, REWARM_FROM if carries_on else 0.0)
    if optimizer.schedule == "decay":
        share *= 1 - (1 - DECAY_TO) * step / max(steps - 1, 1)
    return optimizer.learning_rate * share


def _warmup(step: int, steps: int, start: float) -> float:
    if step >= steps:
        return 1.0
    return start + (1 - start) * (step + 1) / steps
