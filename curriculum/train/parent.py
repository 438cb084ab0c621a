"""The environment of a process from its parent, and a signal at the parent's end."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def job_environment() -> dict[str, str]:
    """The environment of this process for a job and the commands in it, without what they need not have.

    Prefect's variables hold what lets a program into its server, and a command of others may look for modules
    beside its script.
    """
    return {
        name: value
        for name, value in os.environ.copy().items()
        if not name.startswith("PREFECT_") and name != "PYTHONSAFEPATH"
    }


def dying_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """What a process calls first, so that Linux signals it when the thread that started it is gone.

    It may be called between fork and exec: what it needs is looked up before, since afterwards another
    thread's lock may be held for ever. Elsewhere than on Linux it does nothing.
    """
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, number)
