"""Python reads this as it starts: whoever says the words of $HOLD_AT waits there for SIGTERM, or for its end.

So a process is stopped or killed where a test wants it, however late the test looks. $HOLD_IN, where it is
given, stands in the command of who is meant.
"""

import os
import signal
import sys
import time
from types import FrameType
from typing import Any


class Holding:
    """Standard output that holds who writes the words."""

    def __init__(self, stream: Any, words: str) -> None:
        self.stream, self.words = stream, words

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Pass the text on; return once a signal has come if it holds the words."""
        if self.words not in text:
            return int(self.stream.write(text))
        came: list[int] = []
        before = signal.getsignal(signal.SIGTERM)

        def heard(number: int, frame: FrameType | None) -> None:
            came.append(number)
            if callable(before):
                before(number, frame)

        # Listened to before anybody can have read the words.
        if callable(before):
            signal.signal(signal.SIGTERM, heard)
        written = int(self.stream.write(text))
        self.stream.flush()
        while not came:
            time.sleep(0.005)
        signal.signal(signal.SIGTERM, before)
        return written


words = os.environ.get("HOLD_AT")
if words and os.environ.get("HOLD_IN", "") in " ".join(sys.orig_argv):
    sys.stdout = Holding(sys.stdout, words)
