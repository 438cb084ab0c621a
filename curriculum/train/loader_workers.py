"""Processes that load rows: started without interrupts, and a death is an error of the next batch alone."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from curriculum.stop_signals import handlers_restored
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
    # A Ctrl-C reaches the whole group; a worker that only starts would end in a traceback. The handler of
    # SIGCHLD that a loader sets would raise between any two instructions of the process: in a step, in the
    # middle of a checkpoint. Without it torch finds a dead worker within five seconds.
    with _deaths_named(workers), interrupts_held(), handlers_restored(signal.SIGCHLD):
        batches = iter(loader)
    while True:
        with _deaths_named(workers):
            batch = next(batches, _END)
        if batch is _END:
            return
        yield batch


_END = object()


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
