"""A command on a terminal, with all that it sends there: as a process of its own, or in this one."""

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
import typer.main

from flows import cli
from tests.flows.every_command import GROUP

PATIENCE_S = 480
LIVE = re.compile(r"\r?\x1b\[(?:\?25[lh]|1A|2K)")
"""Control sequences of a live display: hide and show the cursor, go up, clear the line."""
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


STYLE = re.compile(r"\x1b\[[\d;]*m")
DESCRIPTORS = {0: "stdin", 1: "stdout", 2: "stderr"}


def lines_on_terminal(*words: str, width: int, home: Path) -> list[str]:
    """Call the entry point of `curriculum` in this process, on a terminal of so many columns.

    What it is sent is returned line by line, without colours and what a live display draws over.

    Raises:
        AssertionError: where the command fails.
    """
    # If the command started it, it would hold the terminal to the end of the tests.
    resource_tracker.ensure_running()
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    sent = bytearray()
    reader = threading.Thread(target=_read, args=(ours, sent))
    kept = {number: os.dup(number) for number in DESCRIPTORS}
    environment = dict(os.environ)
    try:
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
            reader.start()
            for number, name in DESCRIPTORS.items():
                os.dup2(theirs, number)
                mode = "w" if number else "r"
                stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - on the stack
                patch.setattr(sys, name, stack.enter_context(stream))
            patch.setenv("CURRICULUM_HOME", str(home))
            patch.setenv("TERM", "xterm-256color")
            patch.delenv("NO_COLOR", raising=False)
            patch.delenv("COLUMNS", raising=False)
            patch.setattr(sys, "argv", ["curriculum", *words])
            patch.setattr(typer.main, "get_command", lambda _: GROUP)
            code = _code()
    finally:
        # The command sets variables for what it starts.
        os.environ.clear()
        os.environ.update(environment)
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(theirs)
        reader.join(PATIENCE_S)
        os.close(ours)
    assert not reader.is_alive(), "a process that outlives the command holds the terminal"
    text = STYLE.sub("", LIVE.sub("", sent.decode(errors="surrogateescape")))
    assert code in (0, None), text
    return text.replace("\r\n", "\n").splitlines()


def _read(terminal: int, sent: bytearray) -> None:
    """Read until all writers have closed the terminal."""
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 1 << 16):
            sent += piece


def _code() -> object:
    try:
        cli.main()
    except SystemExit as end:
        return end.code
    return 0
