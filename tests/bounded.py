"""Limits of time and memory that a test holds a block to, and blocks that would go on beyond them."""

import faulthandler
import os
import resource
import signal
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MEBIBYTE = 1 << 20
MEMORY_ENDED = 77
"""Exit code of `exit_apart` where memory ended."""


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


@contextmanager
def endless(*, seconds: float) -> Iterator[None]:
    """Fail unless the block still runs after so many seconds, which end it."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with warnings.catch_warnings():
            # A call that is interrupted as it opens something leaves that open.
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    except TimeoutError:
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    raise AssertionError("the block ended by itself")


def exit_apart(work: Callable[[], object], *, mebibytes: int | None = None) -> int:
    """Do work in a process of its own that may take so much memory more; its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    faulthandler.disable()
    try:
        if mebibytes is not None:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            most = pages * os.sysconf("SC_PAGE_SIZE") + mebibytes * MEBIBYTE
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        work()
        code = 0
    except MemoryError:
        code = MEMORY_ENDED
    finally:
        os._exit(code)
