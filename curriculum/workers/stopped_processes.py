"""Processes that a signal has stopped: they neither end nor fail, so their parent would wait forever."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LOOK_SECONDS = 1.0
STOPPED_SECONDS = 10.0
"""Seconds after which a stopped process is reported. Shorter stops may be caused by a debugger."""


def stopped_words(pid: int) -> str | None:
    """Return a message that a process is stopped and how to continue it; None if it isn't stopped."""
    # Deferred, because workers don't need it and have to enter their sandbox soon.
    import psutil

    try:
        state = psutil.Process(pid).status()
    except psutil.Error:
        return None
    is_stopped = state in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return f"is stopped; continue it with `kill -CONT {pid}`" if is_stopped else None


@dataclass(kw_only=True, slots=True)
class StoppedProcesses:
    """Watcher that reports each stopped process once. Slow processes aren't reported."""

    tell: Callable[[str], None]
    _looked: float = 0.0
    _since: dict[int, float] = field(default_factory=dict)
    """Time at which each stopped process was first seen stopped, by pid; infinite once it was reported."""

    def look(self, processes: Sequence[tuple[int | None, str]]) -> list[float]:
        """Check processes, given as pairs of pid and task, but at most once per LOOK_SECONDS.

        Returns, for each process, the seconds since the previous check if the process was stopped at both
        checks, else 0.
        """
        now = time.monotonic()
        seconds = now - self._looked
        if seconds < LOOK_SECONDS:
            return [0.0] * len(processes)
        self._looked, before = now, self._since
        self._since = {}
        for pid, task in processes:
            if pid is None or (words := stopped_words(pid)) is None:
                continue
            since = before.get(pid, now)
            if now - since >= STOPPED_SECONDS:
                self.tell(f"worker process {pid} {words}; its task is {task}")
                since = float("inf")
            self._since[pid] = since
        still = before.keys() & self._since.keys()
        return [seconds if pid in still else 0.0 for pid, _ in processes]
