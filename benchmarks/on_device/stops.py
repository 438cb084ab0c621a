"""Stops: SIGTERM, Ctrl-C and the deadline end the run, a limit ends one measurement."""

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType

_WORDS = {
    signal.SIGALRM: "time over",
    signal.SIGTERM: "stopped by SIGTERM",
    signal.SIGINT: "stopped by Ctrl-C",
}
_SHORTEST = 0.01
"""Seconds; a timer of 0 would never go off."""


class Ended(BaseException):
    """The end of the run before its last line; no `except Exception` on the way takes it for an error."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, status


class TooLong(BaseException):
    """The end of a measurement that would take the time of others."""


class Stops:
    """Handlers that raise Ended or TooLong, at once or at the end of `held`."""

    def __init__(self) -> None:
        self._deadline = float("inf")
        self._held = False
        self._ended: Ended | None = None

    @contextlib.contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Raise Ended in this block at each of the signals, and after so many seconds."""
        before = {each: signal.signal(each, self._stop) for each in _WORDS}
        self._deadline = time.monotonic() + seconds
        timer = signal.setitimer(signal.ITIMER_REAL, max(seconds, _SHORTEST))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, *timer)
            for each, handler in before.items():
                signal.signal(each, handler)

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Raise TooLong in this block after so many seconds, Ended at the deadline if that is earlier."""
        self._ring(min(seconds, self._deadline - time.monotonic()))
        try:
            yield
        finally:
            self._ring(self._deadline - time.monotonic())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the end back until the end of this block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._ended is not None:
            raise self._ended

    def _ring(self, seconds: float) -> None:
        if self._deadline < float("inf"):
            signal.setitimer(signal.ITIMER_REAL, max(seconds, _SHORTEST))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        word = signal.Signals(number)
        is_alarm = word is signal.SIGALRM
        if is_alarm and time.monotonic() < self._deadline - _SHORTEST:
            # In `held` no measurement runs: its limit came a moment late.
            if not self._held:
                raise TooLong
            return
        # The first end counts: a later one must not interrupt what the first one began.
        if self._ended is None:
            self._ended = Ended(_WORDS[word], 0 if is_alarm else 128 + number)
            if not self._held:
                raise self._ended
