"""Map a function over tasks in worker processes of this machine.

Threads don't suffice: tree-sitter and Python hold a lock that threads would share, and a thread can't be
killed. Existing pools don't suffice either. The standard library's pool gives up all tasks when one process
is killed. pebble (5.2.3) leaves workers running after the parent's death, and fails as a whole if an error
can't be unpickled or an idle worker is killed. Workers are spawned, because a forked child would inherit
the thread locks of polars and Arrow.
"""

import contextlib
import multiprocessing
import os
import pickle
import resource
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, Literal, Protocol, TypeVar, overload

from curriculum.sandbox import Sandbox
from curriculum.stop_signals import terminating_signals
from curriculum.workers.answers import MAX_ANSWER_BYTES, Failure, answer_tasks, unpickled
from curriculum.workers.sandboxed_worker import start_sandboxed
from curriculum.workers.stopped_processes import LOOK_SECONDS, StoppedProcesses, stopped_words
from schemas.errors import WorkerError
from schemas.progress import ignore_message

Task = TypeVar("Task")
Result = TypeVar("Result")
Work = Callable[[Task], Result]
Name = Callable[[Task], str]
Tell = Callable[[str], None]
Report = Literal["report"]
Outcomes = Generator[tuple[int, Result], None, None]
"""Pairs of a task's number and its outcome, in order of completion."""
TRIES = 3
"""Default maximum number of attempts at a task. A task is attempted again if its worker is lost, but not
if it raises an error.
"""


@dataclass(kw_only=True, slots=True)
class Backlog(Generic[Task]):
    """The tasks of one `map`, and the numbers of the tasks that wait for a worker."""

    tasks: Sequence[Task]
    name: Callable[[Task], str]
    waiting: deque[int]
    tell: Callable[[str], None]
    is_closed: bool = False

    def retry(self, number: int) -> None:
        """Put a task at the front of the waiting tasks, unless the backlog is closed."""
        if not self.is_closed:
            self.waiting.appendleft(number)

    def close(self) -> None:
        """Start no more tasks."""
        self.is_closed = True
        self.waiting.clear()


class Pool(ABC):
    """Workers that answer tasks; subclasses define where they run."""

    @overload
    def map(
        self, work: Work[Task, Result], tasks: Sequence[Task], *, name: Name[Task] = str,
        tell: Tell = ignore_message,
    ) -> Outcomes[Result]: ...  # fmt: skip

    @overload
    def map(
        self, work: Work[Task, Result], tasks: Sequence[Task], *, name: Name[Task] = str,
        tell: Tell = ignore_message, on_failure: Report,
    ) -> Outcomes[Result | Failure]: ...  # fmt: skip

    def map(
        self,
        work: Work[Task, Result],
        tasks: Sequence[Task],
        *,
        name: Name[Task] = str,
        tell: Tell = ignore_message,
        on_failure: Literal["raise"] | Report = "raise",
    ) -> Outcomes[Result | Failure]:
        """Yield the number and the result of each task in order of completion.

        `work` is a module-level function. With on_failure="report", a failed task yields its Failure. With
        "raise", no more tasks start after a failure; once the running tasks are finished, the first error is
        raised. `tell` receives a sentence about each worker of this machine that a signal stopped.

        Raises:
            WorkerError: if the worker of a task was lost in every attempt, or exceeded its time.
        """
        waiting = deque(range(len(tasks)))
        backlog = Backlog[Task](tasks=tasks, name=name, waiting=waiting, tell=tell)
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
        """Yield the outcome of each task; closing the generator ends the workers."""


Setup = TypeVar("Setup")
WAIT_SECONDS = 1.0
"""Maximum duration of a single wait in seconds.

It is short because an interrupt that arrives just before a wait is only noticed after it.
"""


def spawned(
    serve: Callable[[Setup, Connection], None], work: Setup
) -> tuple[BaseProcess, Connection]:
    """Start a process that runs `serve(work, connection)`; return it and our end of the connection.

    `serve` is a module-level function. Within `defer_signals`, the process starts with SIGINT blocked, and
    `serve` decides whether to unblock it.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


@contextlib.contextmanager
def defer_signals(*, spawns: bool = True, also: Collection[signal.Signals] = ()) -> Iterator[None]:
    """Defer interrupts of this process, and of processes that it starts, until the end of the block.

    SIGTERM and SIGHUP are also deferred if they have a handler. Processes that are started in the block
    have SIGINT and the signals in `also` blocked; they unblock them when they are ready. Blocking the
    signals in this thread wouldn't be enough, because another thread would receive them, and Python would
    notify the main thread. With `spawns`, the helper processes of multiprocessing are started first; blocks
    that start other kinds of processes don't need them.
    """
    if spawns:
        # The first spawn also starts the resource tracker, whose start would unblock SIGINT.
        resource_tracker.ensure_running()
    caught: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    held = [signal.SIGINT] if is_main else []
    if is_main:
        held += [number for number in terminating_signals() if callable(signal.getsignal(number))]
    before = {
        number: signal.signal(number, lambda caught_number, _: caught.append(caught_number))
        for number in held
    }
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *also})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for deferred, handler in before.items():
            signal.signal(deferred, handler)
    for number in dict.fromkeys(caught):
        # The restored handler receives it, usually raising KeyboardInterrupt.
        signal.raise_signal(number)


_START_SECONDS = 60.0
"""Additional time for a worker's first task, for startup and imports."""
_CURE = "Finished work is kept. Use fewer --workers, or more memory"
_END_SECONDS = 60.0
"""Time for a worker to exit by itself, so that its exit status shows whether a signal killed it."""
_POLL_SECONDS = 0.005


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerPool(Pool):
    """Spawned processes that each answer one task at a time.

    They end with the iterator that `map` returns, however it ends, and with this process. Within `keeping`,
    idle workers wait for the next `map` instead.
    """

    size: int
    """Maximum number of processes; there are never more processes than tasks."""
    limit_seconds: float | None = None
    """Time limit in seconds per task. A worker that exceeds it is killed, and its task isn't retried.

    Time in which a signal has stopped the worker or this process isn't counted.
    """
    tries: int = TRIES
    """Maximum number of attempts at a task whose worker is killed."""
    quiet: bool = False
    """True to discard the workers' stderr and core dumps."""
    sandbox: Sandbox | None = None
    """Sandbox that each worker enters before its first task; None for workers without restrictions.

    Sandboxed workers don't get our environment, and may only answer with plain values.
    """
    idle: "list[_Worker] | None" = field(default=None, repr=False)
    """Workers that wait for the next `map`; None if workers end with their `map`."""

    @contextlib.contextmanager
    def keeping(self) -> "Iterator[WorkerPool]":
        """Keep idle workers from one `map` to the next until the block ends.

        This saves the seconds that workers take to start and to import the modules for their tasks.
        """
        idle: list[_Worker] = []
        try:
            yield replace(self, idle=idle)
        finally:
            for worker in idle:
                _end(worker)

    def _outcomes(
        self, work: Callable[[Task], Result], backlog: Backlog[Task]
    ) -> Outcomes[Result | Failure]:
        processes = _Processes(pool=self, work=work, backlog=backlog)
        try:
            processes.begin()
            yield from processes.outcomes()
        finally:
            processes.kill()


class _Process(Protocol):
    @property
    def pid(self) -> int | None: ...
    @property
    def exitcode(self) -> int | None: ...
    def is_alive(self) -> bool: ...
    def kill(self) -> None: ...
    def join(self) -> None: ...


@dataclass(kw_only=True, slots=True)
class _Worker:
    process: _Process
    connection: Connection
    deadline: float | None
    task: int | None = None
    """Number of the current task; None until the worker is ready."""
    work: object = None
    """The function that was last sent to the worker."""


@dataclass(kw_only=True, slots=True)
class _Processes(Generic[Task, Result]):
    """The processes of one `map`."""

    pool: WorkerPool
    work: Callable[[Task], Result]
    backlog: Backlog[Task]
    workers: list[_Worker] = field(default_factory=list)
    killed: Counter[int | None] = field(default_factory=Counter)
    """Number of killed workers by task; the key None stands for workers that never got ready."""
    stopped: StoppedProcesses = field(init=False)

    def __post_init__(self) -> None:
        """Set up the reports about stopped workers."""
        self.stopped = StoppedProcesses(tell=self.backlog.tell)

    def begin(self) -> None:
        """Reuse the idle workers, and start new ones up to the number of tasks or the size of the pool."""
        number = min(self.pool.size, len(self.backlog.tasks))
        idle = self.pool.idle or []
        while idle and len(self.workers) < number:
            worker = idle.pop()
            worker.task, worker.deadline = None, self._deadline()
            if not worker.process.is_alive():
                _end(worker)
                continue
            self.workers.append(worker)
            self._assign(worker)
        self.start(number - len(self.workers))

    def start(self, number: int) -> None:
        """Start `number` workers; each asks for a task when it is ready."""
        with defer_signals(spawns=self.pool.sandbox is None):
            for _ in range(number):
                process, connection = self._started()
                deadline = self._deadline(_START_SECONDS)
                worker = _Worker(process=process, connection=connection, deadline=deadline)
                self.workers.append(worker)

    def _started(self) -> tuple[_Process, Connection]:
        if self.pool.sandbox is None:
            return spawned(_serve, self.pool.quiet)
        return start_sandboxed(self.pool.sandbox, quiet=self.pool.quiet)

    def outcomes(self) -> Outcomes[Result | Failure]:
        """Yield outcomes until no worker is left."""
        while self.workers:
            ready = self._ready()
            for worker in tuple(self.workers):
                if worker.connection in ready:
                    yield from self._receive(worker)
                elif worker.deadline is not None and time.monotonic() >= worker.deadline:
                    yield from self._stop(worker)

    def _ready(self) -> Collection[object]:
        """Return the connections with answers, after a short wait.

        Time in which a signal has stopped a worker or this process doesn't count towards the time limit.
        """
        began = time.monotonic()
        left = min(worker.deadline or float("inf") for worker in self.workers) - began
        seconds = min(WAIT_SECONDS, max(0.0, left))
        ready = wait([worker.connection for worker in self.workers], timeout=seconds)
        late = time.monotonic() - began - seconds
        watched = [(worker.process.pid, self._task_name(worker)) for worker in self.workers]
        for worker, stopped in zip(self.workers, self.stopped.look(watched), strict=True):
            if worker.deadline is not None:
                worker.deadline += max(stopped, late, 0.0)
        return ready

    def _receive(self, worker: _Worker) -> Outcomes[Result | Failure]:
        try:
            data = worker.connection.recv_bytes(MAX_ANSWER_BYTES)
        except (EOFError, OSError):
            yield from self._replace(worker)
            return
        try:
            answer = self._read(data)
        except Exception as unread:
            if self.pool.sandbox is None:
                raise
            yield from self._refuse(worker, unread)
            return
        task = worker.task
        # The next task starts before a result is handled, but not before a failure, after which none may
        # start.
        if isinstance(answer, Failure):
            assert task is not None
            yield task, answer
        self._assign(worker)
        if task is not None and not isinstance(answer, Failure):
            assert answer is not None
            yield task, answer

    def _read(self, data: bytes) -> Result | Failure | None:
        read = pickle.loads if self.pool.sandbox is None else unpickled
        answer: Result | Failure | None = read(data)  # type: ignore[assignment]
        return answer

    def _refuse(self, worker: _Worker, unread: Exception) -> Outcomes[Result | Failure]:
        """Kill a worker whose answer isn't a plain value."""
        self._remove(worker)
        error = self._error(worker, str(unread), "its process was compromised, or has a bug")
        reason = f"the worker's answer was refused: {unread}"
        yield from self._lose(worker, Failure(outcome="crashed", reason=reason, error=error))

    def _assign(self, worker: _Worker) -> None:
        """Send a worker its next task, or dismiss it."""
        if not self.backlog.waiting:
            self._dismiss(worker)
            return
        if worker.task is not None:
            worker.deadline = self._deadline()
        worker.task = self.backlog.waiting.popleft()
        # The pipe of a dead worker is broken; its exit is handled when its end of file is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sent = None if worker.work is self.work else self.work
            worker.work = self.work
            worker.connection.send((sent, self.backlog.tasks[worker.task]))

    def _deadline(self, extra: float = 0.0) -> float | None:
        limit = self.pool.limit_seconds
        return None if limit is None else time.monotonic() + limit + extra

    def _stop(self, worker: _Worker) -> Outcomes[Result | Failure]:
        """Kill a worker that exceeded its time, unless a signal has stopped it in the meantime."""
        if (pid := worker.process.pid) is not None and stopped_words(pid) is not None:
            worker.deadline = time.monotonic() + LOOK_SECONDS
            return
        self._remove(worker)
        end = f"no end after {self.pool.limit_seconds:g} s"
        error = self._error(worker, end, "its process exceeded the time limit and was killed")
        yield from self._lose(worker, Failure(outcome="timed out", reason=end, error=error))

    def _replace(self, worker: _Worker) -> Outcomes[Result | Failure]:
        """Retry the task of a dead worker, or report how its process ended."""
        self.workers.remove(worker)
        _leave(worker)
        code = worker.process.exitcode
        assert code is not None
        if code in (-signal.SIGINT, -signal.SIGHUP):
            raise KeyboardInterrupt
        self.killed[worker.task] += 1
        if self.killed[worker.task] < self.pool.tries:
            if worker.task is not None:
                self.backlog.retry(worker.task)
            self._refill()
            return
        end = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        reason = f"the worker was {end}" if code < 0 else f"the worker {end}"
        when = " during startup" if worker.task is None else "; often because memory ran out"
        error = self._error(
            worker, end, f"its process ended like this {self.pool.tries} times{when}"
        )
        yield from self._lose(worker, Failure(outcome="crashed", reason=reason, error=error))

    def _error(self, worker: _Worker, end: str, cause: str) -> WorkerError:
        return WorkerError(self._task_name(worker), end, cause=cause, cure=_CURE)

    def _task_name(self, worker: _Worker) -> str:
        backlog = self.backlog
        return "a worker" if worker.task is None else backlog.name(backlog.tasks[worker.task])

    def _lose(self, worker: _Worker, failure: Failure) -> Outcomes[Result | Failure]:
        """Yield `failure` for the task of a lost worker, or for the next task if it never got ready."""
        if worker.task is not None:
            yield worker.task, failure
        elif self.backlog.waiting:
            yield self.backlog.waiting.popleft(), failure
        self._refill()

    def _refill(self) -> None:
        """Start a worker if more tasks are waiting than workers are starting."""
        if len(self.backlog.waiting) > sum(worker.task is None for worker in self.workers):
            self.start(1)

    def _dismiss(self, worker: _Worker) -> None:
        """Keep a worker without a task for the next map, or let it end."""
        self.workers.remove(worker)
        if self.pool.idle is None:
            _leave(worker)
        else:
            self.pool.idle.append(worker)

    def _remove(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        _end(worker)

    def kill(self) -> None:
        """Kill all workers immediately."""
        for worker in self.workers:
            worker.process.kill()
        for worker in tuple(self.workers):
            self._remove(worker)


def _leave(worker: _Worker) -> None:
    """Let a worker's process end by itself, which it does when its connection closes.

    A join with a timeout would also wait for processes that the worker started, since they share its
    descriptors.
    """
    worker.connection.close()
    until = time.monotonic() + _END_SECONDS
    while worker.process.exitcode is None and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    _end(worker)


def _end(worker: _Worker) -> None:
    """Kill a worker's process if it is still running."""
    worker.connection.close()
    worker.process.kill()
    worker.process.join()


def _serve(quiet: bool, connection: Connection) -> None:
    """Run a worker: answer tasks until the other end of `connection` closes."""
    # A worker ends silently on an interrupt or with its parent; the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if quiet:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    answer_tasks(connection)


def _end_with_parent() -> None:
    # A killed parent sends no signal, and its workers would continue or wait forever.
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
