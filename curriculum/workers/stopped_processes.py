"""Processes that a signal stopped: they neither end nor fail, and their parent would wait for ever."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LOOK_SECONDS = 1.0
STOPPED_SECONDS = 10.0
"""Seconds that a process is stopped before it is reported: a debugger's pause may be short."""


def stopped_words(pid: int) -> str | None:
    """Say that a process is stopped and how it goes on; None for one that isn't, and one that has ended."""
    # Imported here: a worker needs it not, and has to enter its sandbox soon.
    import psutil

    try:
        state = psutil.Process(pid).status()
    except psutil.Error:
        return None
    is_stopped = state in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return f"is stopped, and `kill -CONT {pid}` lets it go on" if is_stopped else None


@dataclass(kw_only=True, slots=True)
class StoppedProcesses:
    """Watch over processes, which reports each one that stays stopped once, and no slow one."""

    tell: Callable[[str], None]
    _looked: float = 0.0
    _since: dict[int, float] = field(default_factory=dict)
    """Times at which stopped processes were first seen so; infinite once that was reported."""

    def look(self, processes: Sequence[tuple[int | None, str]]) -> list[float]:
        """Look at processes by their pids and what they work at, unless the last look was a moment ago.

        Return the seconds since the last look of each that was stopped at both looks, else 0.
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
                self.tell(f"worker process {pid} {words}; it works at {task}")
                since = float("inf")
            self._since[pid] = since
        still = before.keys() & self._since.keys()
        return [seconds if pid in still else 0.0 for pid, _ in processes]
