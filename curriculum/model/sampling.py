"""Settings of sampling; without torch, so that options can be read at once."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Temperature and cut-offs by which a token is drawn from the model's distribution."""

    temperature: float = 1.0
    """0 takes the likeliest, always; below 1 the likely are likelier still."""
    top_k: int | None = None
    """Only the so many likeliest."""
    top_p: float = 1.0
    """Only the likeliest that together have this share."""
    seed: int = 0
