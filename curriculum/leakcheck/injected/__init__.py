"""Leaks that small proofs of the decoder alone miss, each injected into the real step.

Every kind has several, at different places of the product; a claim of the step must fail of each.
"""

from curriculum.leakcheck.injected import loading, sizes, training
from curriculum.leakcheck.injected.site import (
    KINDS,
    InjectedLeak,
    Needs,
    Site,
    red_claims,
    try_leak,
)

__all__ = ["KINDS", "LEAKS", "InjectedLeak", "Needs", "Site", "red_claims", "try_leak"]

LEAKS: tuple[InjectedLeak, ...] = tuple(
    sorted(
        (
            each
            for module in (training, sizes, loading)
            for each in vars(module).values()
            if isinstance(each, InjectedLeak)
        ),
        key=lambda leak: KINDS.index(leak.kind),
    )
)
"""Every leak that these modules declare, by kind and then as they stand there."""
