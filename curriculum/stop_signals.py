"""Signals that ask a process to end in order."""

import signal


def terminating_signals() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, and SIGHUP unless it is ignored, as under nohup."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return (signal.SIGTERM,)
    return (signal.SIGTERM, signal.SIGHUP)
