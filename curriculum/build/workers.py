"""Tasks over processes: tree-sitter and Python hold the lock that threads would share."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from curriculum.store import Artefact, Store
from schemas.progress import Progress, Watch

Task = TypeVar("Task")
Make = Callable[[Store, Task], tuple[Artefact, ...]]
"""Makes, or in a dry store plans, the artefacts of one task; a module-level function."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """Where artefacts go, how many processes make them, and who is told."""

    store: Store
    workers: int
    watch: Watch

    def each(
        self, stage: str, tasks: Sequence[Task], make: "Make[Task]", name: Callable[[Task], str]
    ) -> list[tuple[Artefact, ...]]:
        """The artefacts of each task, in the order of the tasks; only what is missing is worked on."""
        if not tasks:
            return []
        if self.store.dry:
            return [make(self.store, task) for task in tasks]
        planned = [make(Store(self.store.root, dry=True), task) for task in tasks]
        missing = [at for at, made in enumerate(planned) if any(each.planned for each in made)]
        self._tell(stage, "", len(tasks) - len(missing), len(tasks))
        if self.workers == 1 or len(missing) < 2:
            for done, at in enumerate(missing, start=1):
                planned[at] = make(self.store, tasks[at])
                self._tell(stage, name(tasks[at]), len(tasks) - len(missing) + done, len(tasks))
            return planned
        self._share(stage, tasks, make, name, planned, missing)
        return planned

    def _share(
        self,
        stage: str,
        tasks: Sequence[Task],
        make: "Make[Task]",
        name: Callable[[Task], str],
        planned: list[tuple[Artefact, ...]],
        missing: list[int],
    ) -> None:
        # spawn: a forked child would inherit the threads' locks of polars and Arrow.
        context = multiprocessing.get_context("spawn")
        size = min(self.workers, len(missing))
        with ProcessPoolExecutor(size, mp_context=context, initializer=_die_quietly) as pool:
            done = len(tasks) - len(missing)
            try:
                with _interrupts_held():
                    futures: dict[Future[tuple[Artefact, ...]], int] = {
                        pool.submit(_make_in_worker, make, self.store.root, tasks[at]): at
                        for at in missing
                    }
                for future in as_completed(futures):
                    at = futures[future]
                    planned[at] = future.result()
                    done += 1
                    self._tell(stage, name(tasks[at]), done, len(tasks))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _tell(self, stage: str, item: str, done: int, total: int) -> None:
        self.watch(Progress(stage=stage, item=item, done=done, total=total, unit="tasks"))


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """An interrupt waits for the end: neither we nor a process that we start is caught half way.

    A blocked signal alone would not do: another thread takes it, and Python tells the main one.
    """
    caught: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    before = (
        signal.signal(signal.SIGINT, lambda number, _: caught.append(number)) if is_main else None
    )
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if is_main:
            signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt


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


def _make_in_worker(make: "Make[Task]", root: Path, task: Task) -> tuple[Artefact, ...]:
    return make(Store(root), task)
