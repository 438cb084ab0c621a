"""Processes that work for this one, started where no interrupt reaches them half way.

They are spawned: a forked child would inherit the threads' locks of polars and Arrow.
"""

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

Work = TypeVar("Work")
WAIT_SECONDS = 1.0
"""The longest wait at once: an interrupt that comes a moment before a wait begins is seen when it ends."""


def spawned(
    serve: Callable[[Work, Connection], None], work: Work
) -> tuple[BaseProcess, Connection]:
    """A process that answers with `serve`, a module's function, and our end of the pipe to it.

    Inside of `interrupts_held` it starts with SIGINT blocked: `serve` lets it through, or leaves it so.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


@contextlib.contextmanager
def interrupts_held(
    *, spawns: bool = True, also: Collection[signal.Signals] = ()
) -> Iterator[None]:
    """An interrupt waits for the end: neither this process nor one that it starts is caught half way.

    So does SIGTERM, where a handler is in place for it.
    A process that is started inside has SIGINT blocked, and the signals of `also`; it lets them through when
    it is ready. A blocked signal alone would not do here: another thread takes it, and Python tells the main
    one. `spawns` says that multiprocessing starts them; who starts others needs none of its helpers.
    """
    if spawns:
        # Whoever spawns first starts the tracker too, which ends by letting SIGINT through again.
        resource_tracker.ensure_running()
    caught: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    held = [signal.SIGINT] if is_main else []
    if is_main and callable(signal.getsignal(signal.SIGTERM)):
        held.append(signal.SIGTERM)
    before = {each: signal.signal(each, lambda number, _: caught.append(number)) for each in held}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *also})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for each, handler in before.items():
            signal.signal(each, handler)
    for number in dict.fromkeys(caught):
        # The handler that was in place takes it: most often that is a KeyboardInterrupt.
        signal.raise_signal(number)
