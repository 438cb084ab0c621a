"""Leaks, each injected into the product: what REPACKED must see, at different places of the product."""

from tests.curriculum.leakcheck.leaks import (
    layers,
    loading,
    outside,
    overlooked,
    sizes,
    training,
    unforeseen,
)
from tests.curriculum.leakcheck.leaks.site import (
    InjectedLeak,
    Needs,
    Site,
    first_disagreement,
    try_leak,
)

__all__ = [
    "LEAKS",
    "OUTSIDE",
    "InjectedLeak",
    "Needs",
    "Site",
    "first_disagreement",
    "try_leak",
]

LEAKS: tuple[InjectedLeak, ...] = tuple(
    leak
    for module in (layers, training, sizes, loading, outside, unforeseen, overlooked)
    for leak in vars(module).values()
    if isinstance(leak, InjectedLeak)
)
"""Every leak that these modules declare."""
OUTSIDE = tuple(
    leak
    for module in (outside, unforeseen, overlooked)
    for leak in vars(module).values()
    if isinstance(leak, InjectedLeak)
)
"""Leaks that were written without knowing how they are looked for."""
