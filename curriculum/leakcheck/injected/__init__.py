"""Leaks that small proofs of the decoder alone miss, each planted into the real step.

Every kind has several, at different places of the product; a claim of the step must fail of each.
"""

from curriculum.leakcheck.injected.loading import LOADING
from curriculum.leakcheck.injected.site import (
    KINDS,
    InjectedLeak,
    Needs,
    Site,
    red_claims,
    try_leak,
)
from curriculum.leakcheck.injected.sizes import SIZES
from curriculum.leakcheck.injected.sums import SUMS
from curriculum.leakcheck.injected.training import TRAINING

__all__ = ["KINDS", "LEAKS", "InjectedLeak", "Needs", "Site", "red_claims", "try_leak"]

LEAKS: tuple[InjectedLeak, ...] = (*TRAINING, *SIZES, *LOADING, *SUMS)
