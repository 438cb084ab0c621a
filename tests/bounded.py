"""Limits of time and memory that a test holds a block to."""

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

MEBIBYTE = 1 << 20


@contextmanager
def bounded(*, seconds: float, mebibytes: float) -> Iterator[None]:
    """Fail if the block takes more CPU time, of children too, or more memory of this process."""
    tracemalloc.start()
    began = sum(os.times()[:4])
    try:
        yield
        took, peak = sum(os.times()[:4]) - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert took < seconds
    assert peak < mebibytes * MEBIBYTE
