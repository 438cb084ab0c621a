"""A process that is started while interrupts are held is deaf to them from its first moment."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from curriculum.workers.pool import defer_signals

FIRST_TO_SPAWN = """
import signal
from curriculum.workers.pool import defer_signals, spawned

def serve(work, connection):
    connection.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))

if __name__ == "__main__":
    with defer_signals():
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


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises, also where a shell started the tests in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_comes_meanwhile_is_raised_at_the_end() -> None:
    went_on = False
    with pytest.raises(KeyboardInterrupt), defer_signals():  # noqa: PT012 - what is held is raised at its end
        signal.raise_signal(signal.SIGINT)
        went_on = True
    assert went_on


def test_a_termination_is_held_where_there_is_a_handler_for_it() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with defer_signals():
            signal.raise_signal(signal.SIGTERM)
            assert heard == []
        assert heard == [signal.SIGTERM]
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with defer_signals():
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_another_thread_takes_is_held_too() -> None:
    go, went_on = threading.Event(), False

    def take() -> None:
        go.wait()
        signal.raise_signal(signal.SIGINT)

    # Started before, it lets signals through.
    thread = threading.Thread(target=take)
    thread.start()
    with pytest.raises(KeyboardInterrupt), defer_signals():  # noqa: PT012 - what is held is raised at its end
        go.set()
        thread.join()
        went_on = True
    assert went_on


def test_an_interrupt_is_told_to_who_listens_and_ignored_where_it_is() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with defer_signals():
            signal.raise_signal(signal.SIGINT)
            assert heard == []
        assert heard == [signal.SIGINT]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with defer_signals():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
