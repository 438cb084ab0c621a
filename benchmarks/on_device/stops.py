"""Signals and time limits: SIGTERM, Ctrl-C and the deadline end the run, a limit ends one measurement."""

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType

_REASONS = {
    signal.SIGALRM: "time limit reached",
    signal.SIGTERM: "stopped by SIGTERM",
    signal.SIGINT: "stopped by Ctrl-C",
}
_MIN_SECONDS = 0.01
"""Minimum seconds of a timer; a timer of 0 would never fire."""


class Ended(BaseException):
    """End of the run before its last measurement.

    It derives from BaseException, so that no `except Exception` catches it.
    """

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, status


class TooLong(BaseException):
    """End of a measurement that exceeds its time limit."""


class Stops:
    """Signal handlers that raise Ended or TooLong; within `defer`, they raise Ended at its end."""

    def __init__(self) -> None:
        self._deadline = float("inf")
        self._is_deferred = False
        self._ended: Ended | None = None

    @contextlib.contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Raise Ended in this block on SIGTERM, on Ctrl-C and after `seconds`."""
        before = {number: signal.signal(number, self._stop) for number in _REASONS}
        self._deadline = time.monotonic() + seconds
        timer = signal.setitimer(signal.ITIMER_REAL, max(seconds, _MIN_SECONDS))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, *timer)
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Raise TooLong in this block after `seconds`, or Ended if the deadline comes first."""
        self._set_timer(min(seconds, self._deadline - time.monotonic()))
        try:
            yield
        finally:
            self._set_timer(self._deadline - time.monotonic())

    @contextlib.contextmanager
    def defer(self) -> Iterator[None]:
        """Defer Ended to the end of this block."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        if self._ended is not None:
            raise self._ended

    def _set_timer(self, seconds: float) -> None:
        if self._deadline < float("inf"):
            signal.setitimer(signal.ITIMER_REAL, max(seconds, _MIN_SECONDS))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        received = signal.Signals(number)
        is_alarm = received is signal.SIGALRM
        if is_alarm and time.monotonic() < self._deadline - _MIN_SECONDS:
            # Within `defer`, no measurement runs any more, so its limit came a moment too late.
            if not self._is_deferred:
                raise TooLong
            return
        # Only the first signal counts. A later one must not interrupt the shutdown.
        if self._ended is None:
            self._ended = Ended(_REASONS[received], 0 if is_alarm else 128 + number)
            if not self._is_deferred:
                raise self._ended
