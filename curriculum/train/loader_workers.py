"""Processes that load rows. They ignore interrupts. If one dies, the next batch raises an error."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from curriculum.stop_signals import handlers_restored
from curriculum.workers.pool import defer_signals
from schemas.errors import JobError


def batches_of(loader: "DataLoader[Any]", workers: int) -> Iterator[Any]:
    """Yield the batches of a loader that has `workers` processes.

    Raises:
        JobError: at the next batch after a worker died.
    """
    if not workers:
        yield from loader
        return
    # Ctrl-C is sent to the whole process group; a starting worker would end with a traceback. The loader's
    # SIGCHLD handler would raise anywhere in the process, for example in the middle of a step or
    # checkpoint. Without the handler torch notices a dead worker within five seconds.
    with _deaths_named(workers), defer_signals(), handlers_restored(signal.SIGCHLD):
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
    """Convert the errors that torch raises for a dead worker to a JobError."""
    try:
        yield
    except (RuntimeError, OSError, EOFError) as failed:
        if not _is_a_death(failed):
            raise
        raise JobError(
            f"{workers} workers that load rows",
            (str(failed) or type(failed).__name__).splitlines()[0],
            cause="one of them died, often because the machine's memory or shared memory is full",
            cure="Use fewer workers (0 for none), or more memory. The same command resumes from the last "
            "checkpoint",
        ) from failed


def _is_a_death(failed: Exception) -> bool:
    """Return True if an error means that a worker died.

    Return False for an error inside a worker that torch only reports.
    """
    if isinstance(failed, RuntimeError):
        return str(failed).startswith("DataLoader worker")
    # The connection broke while the worker sent a batch.
    return not str(failed).startswith("Caught ")


def ignore_group_signals(worker: int) -> None:
    """Ignore signals to the whole process group, such as Ctrl-C or a closed terminal.

    The trainer ends its workers itself.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
