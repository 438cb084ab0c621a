"""Signals that ask a process to terminate, and handlers that libraries must not replace."""

import contextlib
import signal
import threading
from collections.abc import Iterator


def terminating_signals() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, and SIGHUP unless it is ignored, as under nohup."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return (signal.SIGTERM,)
    return (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handlers_restored(*numbers: signal.Signals) -> Iterator[None]:
    """Restore the handlers of some signals after the block; do nothing outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
