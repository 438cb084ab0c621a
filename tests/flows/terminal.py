"""A command on a terminal, with all that it sends there."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PATIENCE_S = 480
LIVE = re.compile(r"\r?\x1b\[(?:\?25[lh]|1A|2K)")
"""What a live display sends: the cursor away and back, up by a line, and a line emptied."""
PROGRAM = (sys.executable, "-m", "flows.cli")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A command that has ended."""

    code: int
    sent: str
    """To its terminal, by stdout and stderr; line feeds as they were before the terminal's CR."""


def on_terminal(
    words: Sequence[str], variables: Mapping[str, str], program: Sequence[str] = PROGRAM
) -> Ended:
    """Run a command whose stdout and stderr are a terminal.

    Raises:
        TimeoutExpired: for one that closes its terminal and doesn't end.
    """
    ours, theirs = os.openpty()
    try:
        process = subprocess.Popen(
            [*program, *words],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "COLUMNS": "150", "TERM": "xterm-256color", **variables},
        )
    finally:
        os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as screen, process:
        sent = bytearray()
        # The last of its writers has closed it where a read fails.
        try:
            while piece := screen.read(1 << 16):
                sent += piece
        except OSError:
            pass
        code = process.wait(PATIENCE_S)
    return Ended(code=code, sent=sent.decode(errors="surrogateescape").replace("\r\n", "\n"))
