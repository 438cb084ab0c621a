"""Settings for sampling. The module doesn't import torch, so that commands parse their options quickly."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Temperature and cut-offs for drawing tokens from the model's distribution."""

    temperature: float = 1.0
    """Divisor of the logits. 0 always takes the most likely token; values below 1 favour likely tokens."""
    top_k: int | None = None
    """Number of most likely tokens from which one is drawn. None means all tokens."""
    top_p: float = 1.0
    """Draw from the smallest set of most likely tokens whose probabilities sum to at least this value."""
    seed: int = 0
