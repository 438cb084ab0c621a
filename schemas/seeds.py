"""Range of random seeds."""

from typing import Annotated

from pydantic import Field

from schemas.text import Whole

MAX_SEED = 2**62
"""Largest seed. torch accepts seeds of 63 bits, and an ablation adds to the seed."""
Seed = Annotated[Whole, Field(ge=0, le=MAX_SEED)]
