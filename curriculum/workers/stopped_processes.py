"""Processes stopped by a signal, which neither end nor fail, so that their parent would wait forever."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LOOK_SECONDS = 1.0
STOPPED_SECONDS = 10.0
"""Seconds that a process must be stopped before it is reported, since a debugger's pause may be short."""


def stopped_words(pid: int) -> str | None:
    """Return that a process is stopped and how to continue it; None if it isn't stopped or has ended."""
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
    """Watch over processes that reports each stopped one once, but no slow ones."""

    tell: Callable[[str], None]
    _looked: float = 0.0
    _since: dict[int, float] = field(default_factory=dict)
    """Times at which stopped processes were first seen; infinite after they were reported."""

    def look(self, processes: Sequence[tuple[int | None, str]]) -> list[float]:
        """Check processes by pid and task name, at most once per LOOK_SECONDS.

        Returns, per process, the seconds since the last check if it was stopped both times, else 0.
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
