"""Processes that load rows: started without interrupts, and a death is an error of the next batch alone."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader

from curriculum.workers.pool import interrupts_held
from schemas.errors import JobError


def batches_of(loader: "DataLoader[Any]", workers: int) -> Iterator[Any]:
    """The loader's batches, by `workers` processes that may die.

    Raises:
        JobError: for a worker that died, when the next batch is asked for.
    """
    if not workers:
        yield from loader
        return
    # A Ctrl-C reaches the whole group; a worker that only starts would end in a traceback.
    with _deaths_named(workers), interrupts_held():
        batches = iter(loader)
        deaths = _Deaths.held()
    while True:
        with _deaths_named(workers), deaths.raised():
            batch = next(batches, _END)
        if batch is _END:
            return
        yield batch


_END = object()


class _Deaths:
    """Torch's handler of SIGCHLD, which raises where a worker died: only while a batch is awaited.

    By itself it raises between any two instructions of the process: in a step, in the middle of a checkpoint.
    """

    def __init__(self, handler: Callable[[int, Any], object]) -> None:
        self._handler = handler
        self._awaited = self._missed = False

    @staticmethod
    def held() -> "_Deaths":
        """Hold back the handler that a loader has set, for all loaders of the process."""
        handler = signal.getsignal(signal.SIGCHLD)
        if isinstance(handler, _Deaths):
            return handler
        # In a thread torch sets none, and looks at its workers every few seconds.
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or not callable(handler):
            return _Deaths(lambda number, frame: None)
        deaths = _Deaths(handler)
        signal.signal(signal.SIGCHLD, deaths)
        return deaths

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Let it raise inside, for the deaths since the last time too."""
        try:
            self._awaited = True
            if self._missed:
                self._missed = False
                self._handler(signal.SIGCHLD, None)
            yield
        finally:
            self._awaited = False

    def __call__(self, number: int, frame: Any) -> None:
        if self._awaited:
            self._handler(number, frame)
        else:
            self._missed = True


@contextlib.contextmanager
def _deaths_named(workers: int) -> Iterator[None]:
    """Make a JobError of the errors that torch raises where a worker has died."""
    try:
        yield
    except (RuntimeError, OSError, EOFError) as failed:
        if not _is_a_death(failed):
            raise
        raise JobError(
            f"{workers} workers that load rows",
            (str(failed) or type(failed).__name__).splitlines()[0],
            cause="one of them died; often because the machine's memory, or its shared memory, is full",
            cure="Give fewer workers, 0 for none, or more memory. The same command resumes from the last "
            "checkpoint",
        ) from failed


def _is_a_death(failed: Exception) -> bool:
    """False for an error that a worker survived, which torch quotes."""
    if isinstance(failed, RuntimeError):
        return str(failed).startswith("DataLoader worker")
    # The connection to it broke while it handed a batch over.
    return not str(failed).startswith("Caught ")


def leave_signals_to_the_trainer(worker: int) -> None:
    """Ignore what reaches the whole group, a Ctrl-C or a closed terminal: the trainer ends its workers."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
