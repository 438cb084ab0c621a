"""Work over processes of this machine: one that is killed is replaced, and its task is tried again.

tree-sitter and Python hold the lock that threads would share. A pool of the standard library gives up all
its tasks when one process is killed, and what is killed is most often the largest task, hours in.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from curriculum.workers.spawn import WAIT_SECONDS, interrupts_held, spawned
from schemas.errors import WorkerError

Task = TypeVar("Task")
Result = TypeVar("Result")
TRIES = 3
"""Of a task whose worker is killed. One that fails says why, and is tried once."""
_READY = None
"""What a worker says first: it takes seconds to start, and a long task would stop up its pipe."""
_END_SECONDS = 60.0
"""For a worker to end by itself: of one that was killed its end says how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A task that raised: the error, and where it was raised."""

    error: Exception
    told: str

    def raised(self) -> Exception:
        """The error as it is raised here, with a note of where it came from."""
        self.error.add_note(f"in a worker:\n{self.told}")
        return self.error


def attempt(work: Callable[[Task], Result], task: Task) -> Result | Failed:
    """What the work makes of a task, or the error that it raises."""
    try:
        return work(task)
    except Exception as error:
        return Failed(error=error, told=traceback.format_exc())


def each(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    size: int,
    name: Callable[[Task], str],
) -> Generator[tuple[int, Result], None, None]:
    """The results of all tasks with their numbers, as they come; `work` is a module's function.

    After a task that fails no more are handed out, those that run are waited for, and its error is
    raised. The processes end when the iterator does, whatever ends it, and with this one.

    Raises:
        WorkerError: for a task whose worker was killed at each try.
    """
    pool = _Pool(work=work, tasks=tasks, name=name, waiting=deque(range(len(tasks))))
    try:
        pool.start(min(size, len(tasks)))
        yield from pool.results()
        if pool.failed is not None:
            raise pool.failed
    finally:
        pool.kill()


@dataclass(kw_only=True, slots=True)
class _Member:
    process: BaseProcess
    connection: Connection
    task: int | None = None
    """None until it is ready."""


@dataclass(kw_only=True, slots=True)
class _Pool(Generic[Task, Result]):
    work: Callable[[Task], Result]
    tasks: Sequence[Task]
    name: Callable[[Task], str]
    waiting: deque[int]
    """Tasks that nobody has."""
    members: list[_Member] = field(default_factory=list)
    lost: Counter[int | None] = field(default_factory=Counter)
    """How often a task's worker was killed; under None those that never got ready."""
    failed: Exception | None = None

    def start(self, number: int) -> None:
        """Start members; each asks for a task once it is ready."""
        with interrupts_held():
            for _ in range(number):
                process, connection = spawned(_serve, self.work)
                self.members.append(_Member(process=process, connection=connection))

    def results(self) -> Iterator[tuple[int, Result]]:
        """Results until no member is left."""
        while self.members:
            ready = wait([member.connection for member in self.members], timeout=WAIT_SECONDS)
            for member in [each for each in self.members if each.connection in ready]:
                yield from self._hear(member)

    def _hear(self, member: _Member) -> Iterator[tuple[int, Result]]:
        try:
            answer: Result | Failed | None = member.connection.recv()
        except (EOFError, OSError):
            self._replace(member)
            return
        if isinstance(answer, Failed):
            self._give_up(answer.raised())
        elif member.task is not None:
            assert answer is not None
            yield member.task, answer
        self._hand(member)

    def _hand(self, member: _Member) -> None:
        """Give a member its next task, or let it go."""
        if not self.waiting:
            self._release(member)
            return
        member.task = self.waiting.popleft()
        # A dead worker's pipe is broken: what it didn't take is told when its end is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            member.connection.send(self.tasks[member.task])

    def _replace(self, member: _Member) -> None:
        """Let another process have the task of one that died."""
        self._release(member)
        code = member.process.exitcode
        if code == -signal.SIGINT:
            raise KeyboardInterrupt
        self.lost[member.task] += 1
        if self.lost[member.task] == TRIES:
            self._give_up(self._killed(member.task, _end_of(code)))
        elif member.task is not None and self.failed is None:
            self.waiting.appendleft(member.task)
        if len(self.waiting) > sum(each.task is None for each in self.members):
            self.start(1)

    def _killed(self, task: int | None, end: str) -> WorkerError:
        what = "a worker" if task is None else self.name(self.tasks[task])
        return WorkerError(
            what,
            end,
            cause=f"its process ended so {TRIES} times"
            + (" while it started" if task is None else "; often memory ran out"),
            cure="What is finished is kept. Give fewer --workers, or more memory",
        )

    def _give_up(self, error: Exception) -> None:
        """Hand out no more; the first error counts."""
        self.failed = self.failed or error
        self.waiting.clear()

    def _release(self, member: _Member) -> None:
        self.members.remove(member)
        member.connection.close()
        member.process.join(_END_SECONDS)
        member.process.kill()
        member.process.join()

    def kill(self) -> None:
        """End all members at once."""
        for member in self.members:
            member.process.kill()
        for member in tuple(self.members):
            self._release(member)


def _end_of(exitcode: int | None) -> str:
    assert exitcode is not None
    if exitcode < 0:
        return f"ended by {signal.Signals(-exitcode).name}"
    return f"ended with code {exitcode}"


def _serve(work: Callable[[Task], Result], connection: Connection) -> None:
    """Answer tasks until the other end closes."""
    _die_quietly()
    with contextlib.suppress(EOFError, OSError):
        connection.send(_READY)
        while True:
            answer = attempt(work, connection.recv())
            try:
                connection.send(answer)
            except (TypeError, AttributeError, ValueError) as unsent:
                # An error that can't be pickled is told by its words.
                told = answer.told if isinstance(answer, Failed) else repr(answer)
                connection.send(Failed(error=RuntimeError(str(unsent)), told=told))


def _die_quietly() -> None:
    """A worker ends at an interrupt, and with its parent, without a word: the parent says what there is."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A parent that is killed tells nobody, and its workers would wait for their next task for good.
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
