"""Serialized answers of worker processes, and the loop in which a worker answers tasks."""

import builtins
import contextlib
import io
import pickle
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import PosixPath
from typing import Literal, TypeVar

from pydantic import BaseModel

Task = TypeVar("Task")
Result = TypeVar("Result")
READY = None
"""First message of a worker. Workers get no task before it, because they take seconds to start."""
MAX_ANSWER_BYTES = 1 << 30
"""Maximum size of one answer in bytes."""
_OUR_PACKAGES = ("curriculum.", "schemas.")
_STANDARD_VALUES = (set, frozenset, bytearray, Counter, PosixPath)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The error of a task that gave no result."""

    outcome: Literal["failed", "timed out", "crashed"]
    reason: str
    """Reason of the failure, on one line."""
    error: Exception
    trace: str = ""
    """Output of the worker or of Ray about the failure."""

    def with_note(self) -> Exception:
        """Return the error, with the worker's output as a note if there is any."""
        if self.trace:
            self.error.add_note(f"in a worker:\n{self.trace}")
        return self.error


def attempt(work: Callable[[Task], Result], task: Task) -> Result | Failure:
    """Return the result of a task, or a Failure with the raised error."""
    try:
        return work(task)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Failure(outcome="failed", reason=reason, error=error, trace=traceback.format_exc())


def pickled(answer: Result | Failure, *, read: Callable[[bytes], object] = pickle.loads) -> bytes:
    """Return a pickled answer.

    If `read`, which the receiver will use, can't read the pickled answer, the answer becomes a Failure with
    reason and trace.
    """
    try:
        data = pickle.dumps(answer)
        if isinstance(answer, Failure):
            # Some errors with arguments of their own can be pickled, but not unpickled.
            read(data)
    except Exception as unsent:
        if not isinstance(answer, Failure):
            reason = f"{type(unsent).__name__}: {unsent}"
            failure = Failure(outcome="failed", reason=reason, error=unsent, trace=repr(answer))
        else:
            failure = answer
        return pickle.dumps(replace(failure, error=RuntimeError(str(unsent))))
    return data


def unpickled(data: bytes) -> object:
    """Return the answer of an untrusted process, if it has only values that can't run code.

    These are values of standard types, and dataclasses, models, tuples and errors of our loaded modules.

    Raises:
        pickle.UnpicklingError: for anything else.
    """
    return _ValueUnpickler(io.BytesIO(data)).load()


class _ValueUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        """Return a type by its module and name, if its values can't run code."""
        found = getattr(sys.modules.get(module), name, None)
        if isinstance(found, type) and found.__module__ == module and _is_value(found):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is not a type of plain values")


def _is_value(kind: type) -> bool:
    if kind in _STANDARD_VALUES:
        return True
    if kind.__module__ == builtins.__name__:
        return issubclass(kind, BaseException)
    return kind.__module__.startswith(_OUR_PACKAGES) and (
        is_dataclass(kind) or issubclass(kind, (BaseModel, BaseException, Enum, tuple))
    )


def answer_tasks(connection: Connection, *, read: Callable[[bytes], object] = pickle.loads) -> None:
    """Answer tasks until the other end of `connection` closes.

    The function to apply is sent along with a task only if it isn't that of the previous task.
    """
    with contextlib.suppress(EOFError, OSError):
        connection.send(READY)
        work: Callable[[object], object] | None = None
        while True:
            sent, task = connection.recv()
            work = sent or work
            assert work is not None
            connection.send_bytes(pickled(attempt(work, task), read=read))
