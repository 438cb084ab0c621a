"""The one rule by which shares give way to what there is."""

import math
from collections.abc import Sequence


def cut_to(shares: Sequence[float], most: Sequence[float]) -> list[float]:
    """Shares cut to `most`, the others raised alike in their place; both in the same order.

    They sum to 1 where `most` sums to 1 at least.

    >>> cut_to([0.5, 0.25, 0.25], [0.2, 1.0, 1.0])
    [0.2, 0.4, 0.4]
    """
    cut: set[int] = set()
    while True:
        left = 1 - math.fsum(most[at] for at in cut)
        free = math.fsum(share for at, share in enumerate(shares) if at not in cut)
        scale = left / free if free else 1.0
        over = {at for at, share in enumerate(shares) if at not in cut and share * scale > most[at]}
        if not over:
            return [most[at] if at in cut else share * scale for at, share in enumerate(shares)]
        cut |= over
