"""Memory that a process frees and needs again at once, as a step on a CPU does with all it computes."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Of glibc's malloc.h."""
_MOST_KEPT = 2**31 - 1
"""Bytes at the end of the heap; what is free beyond goes back."""


def keep_freed_memory() -> None:
    """Let malloc use freed memory again and not give it back: each page that comes anew costs a fault.

    It holds for this process, up to its end, and takes a seventh off a step of `tiny` on a CPU. Other C
    libraries than glibc keep to their ways.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT)
