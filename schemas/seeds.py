"""Seeds of random numbers."""

from typing import Annotated

from pydantic import Field

from schemas.text import Whole

MAX_SEED = 2**62
"""The largest seed: torch takes 63 bits, and an ablation adds to one."""
Seed = Annotated[Whole, Field(ge=0, le=MAX_SEED)]
