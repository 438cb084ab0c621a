"""Sampling settings, without torch, so that commands parse options quickly."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Temperature and cut-offs for drawing tokens from the model's distribution."""

    temperature: float = 1.0
    """0 always takes the most likely token; values below 1 favour likely tokens."""
    top_k: int | None = None
    """Sample from the k most likely tokens; None means all."""
    top_p: float = 1.0
    """Sample from the most likely tokens whose probabilities sum to this value."""
    seed: int = 0
