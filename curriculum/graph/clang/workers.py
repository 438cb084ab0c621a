"""Units over processes that may hang or crash: a frontend reads code that was never meant to be read.

A worker that is over its time is killed, one that died is replaced; the task that it had is named, and the
others go on. Threads would share the frontend's locks, and can't be killed.
"""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, Literal, TypeVar

from curriculum.workers.spawn import WAIT_SECONDS, interrupts_held, spawned

Task = TypeVar("Task")
Result = TypeVar("Result")
_GRACE_SECONDS = 60.0
"""Beside its time, for a worker that starts and loads the frontend."""
_DEATH_SECONDS = 60.0
"""For a worker whose pipe broke: it dies by itself, and its end says how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A task without a result, and why."""

    outcome: Literal["failed", "timed out", "crashed"]
    reason: str


def each(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: int,
    limit_seconds: float,
) -> Generator[tuple[int, Result | Lost], None, None]:
    """The results of all tasks with their numbers, as they come; `work` is a module's function.

    The processes are spawned. They end when the iterator does, whatever ends it.
    """
    team = _Team(work=work, tasks=tasks, limit_seconds=limit_seconds)
    try:
        with interrupts_held():
            team.fill(min(workers, len(tasks)))
        while team.members:
            yield from team.results()
    finally:
        team.kill()


@dataclass(kw_only=True, slots=True)
class _Member:
    process: BaseProcess
    connection: Connection
    task: int
    deadline: float
    is_fresh: bool = True


@dataclass(kw_only=True, slots=True)
class _Team(Generic[Task, Result]):
    work: Callable[[Task], Result]
    tasks: Sequence[Task]
    limit_seconds: float
    given: int = 0
    """Tasks that were handed out."""
    members: list[_Member] = field(default_factory=list)

    def fill(self, size: int) -> None:
        """Start members for tasks that nobody has."""
        while len(self.members) < size and self.given < len(self.tasks):
            process, connection = spawned(_serve, self.work)
            member = _Member(process=process, connection=connection, task=-1, deadline=0.0)
            self.members.append(member)
            self._hand(member)

    def results(self) -> Iterator[tuple[int, Result | Lost]]:
        """Wait for something to happen, and tell it."""
        soonest = min(member.deadline for member in self.members)
        ready = wait(
            [member.connection for member in self.members],
            timeout=min(WAIT_SECONDS, max(0.0, soonest - time.monotonic())),
        )
        for member in tuple(self.members):
            if member.connection in ready:
                yield member.task, self._take(member)
            elif time.monotonic() >= member.deadline:
                yield member.task, self._replace(member, timed_out=True)

    def _take(self, member: _Member) -> Result | Lost:
        try:
            result: Result | Lost = member.connection.recv()
        except (EOFError, OSError):
            return self._replace(member, timed_out=False)
        member.is_fresh = False
        if self.given < len(self.tasks):
            self._hand(member)
        else:
            self.members.remove(member)
            _end(member)
        return result

    def _hand(self, member: _Member) -> None:
        member.task = self.given
        self.given += 1
        grace = _GRACE_SECONDS if member.is_fresh else 0.0
        member.deadline = time.monotonic() + self.limit_seconds + grace
        # A dead worker's pipe is broken: what it didn't take is told when its end is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            member.connection.send(self.tasks[member.task])

    def _replace(self, member: _Member, *, timed_out: bool) -> Lost:
        size = len(self.members)
        self.members.remove(member)
        if not timed_out:
            member.process.join(_DEATH_SECONDS)
        _end(member)
        with interrupts_held():
            self.fill(size)
        if timed_out:
            return Lost(outcome="timed out", reason=f"no end after {self.limit_seconds:g} s")
        return Lost(outcome="crashed", reason=_end_of(member.process.exitcode))

    def kill(self) -> None:
        """End all members at once."""
        for member in self.members:
            member.process.kill()
        for member in self.members:
            _end(member)
        self.members.clear()


def _end(member: _Member) -> None:
    """End a member that has no more to say."""
    member.process.kill()
    member.process.join()
    member.connection.close()


def _end_of(exitcode: int | None) -> str:
    assert exitcode is not None
    if exitcode < 0:
        return f"the worker was ended by {signal.Signals(-exitcode).name}"
    return f"the worker ended with code {exitcode}"


def _serve(work: Callable[[Task], Result], connection: Connection) -> None:
    """Answer tasks until the other end closes; what the frontend writes about a crash goes nowhere."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = connection.recv()
            try:
                answer: Result | Lost = work(task)
            except Exception as error:
                # One strange file must not cost the others: it is reported by name.
                answer = Lost(outcome="failed", reason=f"{type(error).__name__}: {error}")
            connection.send(answer)
