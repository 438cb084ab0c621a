"""Leaks, each injected into the product: what REPACKED must see, at different places of the product."""

from tests.curriculum.leakcheck.leaks import layers, loading, sizes, training
from tests.curriculum.leakcheck.leaks.site import (
    InjectedLeak,
    Needs,
    Site,
    first_disagreement,
    try_leak,
)

__all__ = [
    "LEAKS",
    "InjectedLeak",
    "Needs",
    "Site",
    "first_disagreement",
    "try_leak",
]

LEAKS: tuple[InjectedLeak, ...] = tuple(
    leak
    for module in (layers, training, sizes, loading)
    for leak in vars(module).values()
    if isinstance(leak, InjectedLeak)
)
"""Every leak that these modules declare."""
