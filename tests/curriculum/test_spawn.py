"""A process that is started while interrupts are held is deaf to them from its first moment."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from curriculum.spawn import interrupts_held

FIRST_TO_SPAWN = """
import signal
from curriculum.spawn import interrupts_held, spawned

def serve(work, connection):
    connection.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))

if __name__ == "__main__":
    with interrupts_held():
        members = [spawned(serve, None) for _ in range(2)]
    print([connection.recv() for _, connection in members])
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
"""A file of its own: the first process that a Python spawns starts the tracker of resources as well."""


def test_even_the_first_process_starts_with_interrupts_blocked(tmp_path: Path) -> None:
    script = tmp_path / "first_to_spawn.py"
    script.write_text(FIRST_TO_SPAWN)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[True, True]", "False"]


def test_an_interrupt_that_comes_meanwhile_is_raised_at_the_end() -> None:
    went_on = False
    with pytest.raises(KeyboardInterrupt), interrupts_held():  # noqa: PT012 - what is held is raised at its end
        os.kill(os.getpid(), signal.SIGINT)
        went_on = True
    assert went_on
