"""Exit codes of a training process: what its launcher makes of them."""

import signal
from collections.abc import Sequence

from schemas.errors import (
    CurriculumError,
    JobError,
    JobKilledError,
    JobMemoryError,
    NotFiniteError,
)
from schemas.job import Failure

FAILED = 1
NOT_FINITE = 65
KILLED = 69
"""One of several processes, or another trainer's command, was killed."""
MEMORY = 71
CANCELLED = 75
"""Asked to stop; a checkpoint stands, and the same command goes on."""

_KINDS: dict[int, type[JobError]] = {
    NOT_FINITE: NotFiniteError,
    KILLED: JobKilledError,
    MEMORY: JobMemoryError,
}
_FAILURES: dict[type[JobError], Failure] = {
    NotFiniteError: "not_finite",
    JobKilledError: "killed",
    JobMemoryError: "memory",
}


def kind_of(code: int) -> type[JobError]:
    """The error that an exit code stands for; negative codes are signals.

    >>> kind_of(71).__name__, kind_of(-9).__name__, kind_of(1).__name__
    ('JobMemoryError', 'JobKilledError', 'JobError')
    """
    return JobKilledError if code < 0 else _KINDS.get(code, JobError)


def words_of(code: int) -> str:
    """Describe the end of a process.

    >>> words_of(1), words_of(-9)
    ('exit code 1', 'signal SIGKILL')
    """
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def first_of(codes: Sequence[int]) -> int:
    """Return the most specific code of processes that failed at the same moment; others may follow from it.

    >>> first_of([1, 71]), first_of([1, -9]), first_of([-6, 1])
    (71, 69, 1)
    """
    order = (MEMORY, NOT_FINITE, -signal.SIGKILL, KILLED, FAILED)
    first = min(codes, key=lambda code: order.index(code) if code in order else len(order))
    return KILLED if first < 0 else first


def code_of(failed: CurriculumError) -> int:
    """The exit code that says which kind of error ended a process."""
    return next((code for code, kind in _KINDS.items() if isinstance(failed, kind)), FAILED)


def failure_of(kind: type[CurriculumError]) -> Failure:
    """Return the kind of an error in a report."""
    return next((name for each, name in _FAILURES.items() if issubclass(kind, each)), "other")
