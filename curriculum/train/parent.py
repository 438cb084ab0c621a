"""The end of a parent, as the system tells of it."""

import ctypes
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def dying_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """What a process calls first, so that Linux signals it when the thread that started it is gone.

    It may be called between fork and exec: what it needs is looked up before, since afterwards another
    thread's lock may be held for ever. Elsewhere than on Linux it does nothing.
    """
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, number)
