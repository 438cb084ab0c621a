"""One map over tasks with its rule after a failure: the part that processes and Ray share."""

import pickle
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar, overload

Task = TypeVar("Task")
Result = TypeVar("Result")
Work = Callable[[Task], Result]
Name = Callable[[Task], str]
Report = Literal["report"]
Outcomes = Generator[tuple[int, Result], None, None]
"""Numbers of tasks with what became of them, in order of completion."""
TRIES = 3
"""Default tries of a task whose worker is lost; one that raises is tried once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A task without a result, and why."""

    outcome: Literal["failed", "timed out", "crashed"]
    reason: str
    """One line."""
    error: Exception
    trace: str = ""
    """Output of the worker or of Ray about it."""

    def with_note(self) -> Exception:
        """Return the error with a note of where it came from."""
        if self.trace:
            self.error.add_note(f"in a worker:\n{self.trace}")
        return self.error


@dataclass(kw_only=True, slots=True)
class Backlog(Generic[Task]):
    """Tasks of one map, and the numbers of those that wait for a worker."""

    tasks: Sequence[Task]
    name: Callable[[Task], str]
    waiting: deque[int]
    is_closed: bool = False

    def retry(self, number: int) -> None:
        """Put a task back to the front, unless no more tasks are to start."""
        if not self.is_closed:
            self.waiting.appendleft(number)

    def close(self) -> None:
        """Start no more tasks."""
        self.is_closed = True
        self.waiting.clear()


class Pool(ABC):
    """Workers that answer tasks; a subclass says where they run."""

    @overload
    def map(
        self, work: Work[Task, Result], tasks: Sequence[Task], *, name: Name[Task] = str
    ) -> Outcomes[Result]: ...

    @overload
    def map(
        self, work: Work[Task, Result], tasks: Sequence[Task], *, name: Name[Task] = str, on_failure: Report
    ) -> Outcomes[Result | Failure]: ...  # fmt: skip

    def map(
        self,
        work: Work[Task, Result],
        tasks: Sequence[Task],
        *,
        name: Name[Task] = str,
        on_failure: Literal["raise"] | Report = "raise",
    ) -> Outcomes[Result | Failure]:
        """Yield the number and the result of each task in order of completion.

        `work` is a module-level function. With "report" a failed task yields its Failure. With "raise" no
        more tasks start after it, those that run are finished, and the first error is raised.

        Raises:
            WorkerError: for a task whose worker was lost at each try, or was over its time.
        """
        backlog = Backlog[Task](tasks=tasks, name=name, waiting=deque(range(len(tasks))))
        failed: Exception | None = None
        with closing(self._outcomes(work, backlog)) as outcomes:
            for number, outcome in outcomes:
                if isinstance(outcome, Failure) and on_failure == "raise":
                    failed = failed or outcome.with_note()
                    backlog.close()
                else:
                    yield number, outcome
            if failed is not None:
                raise failed

    @abstractmethod
    def _outcomes(
        self, work: Callable[[Task], Result], backlog: Backlog[Task]
    ) -> Outcomes[Result | Failure]:
        """Yield each task's outcome until none waits or runs; closing it ends the workers."""


def attempt(work: Callable[[Task], Result], task: Task) -> Result | Failure:
    """Return the result of a task, or a Failure with the error that it raised."""
    try:
        return work(task)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Failure(outcome="failed", reason=reason, error=error, trace=traceback.format_exc())


def pickled(answer: Result | Failure) -> bytes:
    """Pickle an answer; one that can't cross becomes a Failure with the reason and trace of it."""
    try:
        data = pickle.dumps(answer)
        if isinstance(answer, Failure):
            # An error with arguments of its own may fail only where it is read.
            pickle.loads(data)
    except Exception as unsent:
        if not isinstance(answer, Failure):
            reason = f"{type(unsent).__name__}: {unsent}"
            failure = Failure(outcome="failed", reason=reason, error=unsent, trace=repr(answer))
        else:
            failure = answer
        return pickle.dumps(replace(failure, error=RuntimeError(str(unsent))))
    return data
