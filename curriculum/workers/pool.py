"""Map a function over tasks in worker processes of this machine.

tree-sitter and Python hold the lock that threads would share, and a thread can't be killed. The standard
library's pool gives up all tasks when one process is killed. pebble's (5.2.3) leaves workers running after
the parent's death, and fails as a whole for one error that can't be unpickled or one killed idle worker.
"""

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from curriculum.workers.map import TRIES, Backlog, Failure, Outcomes, Pool, attempt, pickled
from curriculum.workers.spawn import WAIT_SECONDS, interrupts_held, spawned
from schemas.errors import WorkerError

Task = TypeVar("Task")
Result = TypeVar("Result")
_READY = None
"""First message of a worker: it takes seconds to start, and a long task would fill its pipe."""
_START_SECONDS = 60.0
"""Added to the limit of a worker's first task, for the start and for what that task imports."""
_CURE = "What is finished is kept. Give fewer --workers, or more memory"
_END_SECONDS = 60.0
"""Time for a worker to exit by itself: the exit status of one that was killed is the reason reported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerPool(Pool):
    """Spawned processes that answer one task at a time; each has at most one task in flight.

    They end when the iterator of `map` does, whatever ends it, and with this process.
    """

    size: int
    """Processes; never more than tasks."""
    limit_seconds: float | None = None
    """Wall-clock time for one task; its worker is killed after it, and the task isn't tried again."""
    tries: int = TRIES
    """Tries of a task whose worker is killed."""
    quiet: bool = False
    """Discard what workers write to stderr, and leave no core dumps."""

    def _outcomes(
        self, work: Callable[[Task], Result], backlog: Backlog[Task]
    ) -> Outcomes[Result | Failure]:
        processes = _Processes(pool=self, work=work, backlog=backlog)
        try:
            processes.start(min(self.size, len(backlog.tasks)))
            yield from processes.outcomes()
        finally:
            processes.kill()


@dataclass(kw_only=True, slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    deadline: float | None
    task: int | None = None
    """None until it is ready."""


@dataclass(kw_only=True, slots=True)
class _Processes(Generic[Task, Result]):
    """The processes of one `map`."""

    pool: WorkerPool
    work: Callable[[Task], Result]
    backlog: Backlog[Task]
    workers: list[_Worker] = field(default_factory=list)
    killed: Counter[int | None] = field(default_factory=Counter)
    """Killed workers by task; under None those that never got ready."""

    def start(self, number: int) -> None:
        """Start workers; each asks for a task once it is ready."""
        with interrupts_held():
            for _ in range(number):
                process, connection = spawned(_serve, (self.work, self.pool.quiet))
                deadline = self._deadline(_START_SECONDS)
                worker = _Worker(process=process, connection=connection, deadline=deadline)
                self.workers.append(worker)

    def outcomes(self) -> Outcomes[Result | Failure]:
        """Yield outcomes until no worker is left."""
        while self.workers:
            deadlines = [each.deadline for each in self.workers if each.deadline is not None]
            left = min(deadlines, default=float("inf")) - time.monotonic()
            connections = [each.connection for each in self.workers]
            ready = wait(connections, timeout=min(WAIT_SECONDS, max(0.0, left)))
            for worker in tuple(self.workers):
                if worker.connection in ready:
                    yield from self._receive(worker)
                elif worker.deadline is not None and time.monotonic() >= worker.deadline:
                    yield from self._stop(worker)

    def _receive(self, worker: _Worker) -> Outcomes[Result | Failure]:
        try:
            answer: Result | Failure | None = worker.connection.recv()
        except (EOFError, OSError):
            yield from self._replace(worker)
            return
        task = worker.task
        # The next task starts before a result is handled, but not before a failure is: none may follow it.
        if isinstance(answer, Failure):
            assert task is not None
            yield task, answer
        self._assign(worker)
        if task is not None and not isinstance(answer, Failure):
            assert answer is not None
            yield task, answer

    def _assign(self, worker: _Worker) -> None:
        """Send a worker its next task, or let it end."""
        if not self.backlog.waiting:
            self._release(worker)
            return
        if worker.task is not None:
            worker.deadline = self._deadline()
        worker.task = self.backlog.waiting.popleft()
        # The pipe of a dead worker is broken: its exit is handled when its end of file is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.connection.send(self.backlog.tasks[worker.task])

    def _deadline(self, extra: float = 0.0) -> float | None:
        limit = self.pool.limit_seconds
        return None if limit is None else time.monotonic() + limit + extra

    def _stop(self, worker: _Worker) -> Outcomes[Result | Failure]:
        """Kill a worker that is over its time."""
        worker.process.kill()
        self._release(worker)
        end = f"no end after {self.pool.limit_seconds:g} s"
        error = self._error(worker, end, "its process was over its time and was killed")
        yield from self._lose(worker, Failure(outcome="timed out", reason=end, error=error))

    def _replace(self, worker: _Worker) -> Outcomes[Result | Failure]:
        """Try the task of a worker that died again, or report how its process ended."""
        self._release(worker)
        code = worker.process.exitcode
        assert code is not None
        if code == -signal.SIGINT:
            raise KeyboardInterrupt
        self.killed[worker.task] += 1
        if self.killed[worker.task] < self.pool.tries:
            if worker.task is not None:
                self.backlog.retry(worker.task)
            self._refill()
            return
        end = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        reason = f"the worker was {end}" if code < 0 else f"the worker {end}"
        when = " while it started" if worker.task is None else "; often memory ran out"
        error = self._error(worker, end, f"its process ended so {self.pool.tries} times{when}")
        yield from self._lose(worker, Failure(outcome="crashed", reason=reason, error=error))

    def _error(self, worker: _Worker, end: str, cause: str) -> WorkerError:
        backlog = self.backlog
        what = "a worker" if worker.task is None else backlog.name(backlog.tasks[worker.task])
        return WorkerError(what, end, cause=cause, cure=_CURE)

    def _lose(self, worker: _Worker, failure: Failure) -> Outcomes[Result | Failure]:
        """Fail the task of a worker that is gone; one that never got ready costs the next task."""
        if worker.task is not None:
            yield worker.task, failure
        elif self.backlog.waiting:
            yield self.backlog.waiting.popleft(), failure
        self._refill()

    def _refill(self) -> None:
        """Start a worker where more tasks wait than workers that are about to ask for one."""
        if len(self.backlog.waiting) > sum(each.task is None for each in self.workers):
            self.start(1)

    def _release(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.connection.close()
        worker.process.join(_END_SECONDS)
        worker.process.kill()
        worker.process.join()

    def kill(self) -> None:
        """End all workers at once."""
        for worker in self.workers:
            worker.process.kill()
        for worker in tuple(self.workers):
            self._release(worker)


def _serve(job: tuple[Callable[[Task], Result], bool], connection: Connection) -> None:
    """Answer tasks until the other end closes."""
    work, quiet = job
    # A worker ends at an interrupt, and with its parent, without a message: the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if quiet:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with contextlib.suppress(EOFError, OSError):
        connection.send(_READY)
        while True:
            connection.send_bytes(pickled(attempt(work, connection.recv())))


def _end_with_parent() -> None:
    # The end of a parent that is killed isn't signalled, and its workers would go on, or wait for good.
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
