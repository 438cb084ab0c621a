"""Stage: one kind of artefact, its tasks, their recipes and the code that runs one; Coordinator: runs stages.

A stage is a frozen dataclass in a file of its own; tokens.py is a short one to imitate. A Coordinator carries
it out: it computes recipes, looks their keys up, and has only those tasks run of which something is missing.
"""

import functools
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar, cast

from curriculum.corpus.source_errors import raise_combined
from curriculum.published_files import leaving_whole_files
from curriculum.sandbox import Sandbox
from curriculum.stages.same_versions import require_same
from curriculum.stages.shard import Shard
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from curriculum.store.store import WORKSPACE_NAME
from curriculum.workers import RayPool, WorkerPool
from curriculum.workers.pool import Pool
from schemas.errors import CorpusError, WorkerError
from schemas.progress import Progress, ProgressCallback, ignore_progress

Inputs = TypeVar("Inputs")
Task = TypeVar("Task")
Placement = Literal["workers", "coordinator", "each shard"]
"""The process that runs a stage's tasks.

workers       worker processes, of this machine or of a cluster; each shard has its own tasks
coordinator   the coordinator, one task after another, each with all workers; each shard has its own tasks
each shard    the coordinator of every shard: the first one makes it, the others find it
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage(ABC, Generic[Inputs, Task]):
    """One step from published artefacts to new ones; fields are settings of all its tasks.

    It travels to workers with each task, so that it and its tasks are picklable and small.
    """

    name: ClassVar[str]
    """The stage in lines of progress."""
    placement: ClassVar[Placement] = "workers"
    parses: ClassVar[bool] = False
    """Tasks parse text of repositories in C: where there are several workers, a confined one runs even a
    single task."""
    raises_last: ClassVar[bool] = False
    """CorpusErrors of tasks are raised, as one, when all other tasks are done."""

    def tasks(self, inputs: Inputs) -> Sequence[Task]:
        """Cut the inputs into tasks, none of which needs another; by default each input is one."""
        return cast(Sequence[Task], inputs)

    @abstractmethod
    def title(self, task: Task) -> str:
        """Name a task in lines of progress and in errors."""

    @abstractmethod
    def recipes(self, task: Task) -> Sequence[Recipe]:
        """Return the recipe of each artefact of a task, from the task and installed versions alone."""

    @abstractmethod
    def run(self, task: Task, drafts: Sequence[StagingDirectory]) -> None:
        """Fill the drafts of all artefacts of a task that are missing, in one pass over what it reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workers:
    """The processes that run tasks; their number and place change no byte."""

    processes: int = 1
    """Processes of this machine."""
    ray: str | None = None
    """The address of the Ray cluster whose workers run the tasks instead."""
    in_flight: int | None = None
    """Tasks that the cluster is given at once; by default all that are missing."""
    shard: Shard | None = None
    """The part of each stage's tasks that is run; by default all."""

    def owns(self, at: int) -> bool:
        """Return True for the index of a task that this shard runs."""
        return self.shard is None or self.shard.owns(at)


ALONE = Workers()


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment(Generic[Task]):
    """A task with the recipes that the coordinator computed for it."""

    task: Task
    recipes: tuple[Recipe, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordinator:
    """Carries out stages: computes recipes once, looks keys up, and has run only what is missing.

    With a dry store nothing runs: what isn't there is answered as planned.
    """

    store: Store
    workers: Workers = ALONE
    watch: ProgressCallback = ignore_progress
    sandbox: Sandbox | None = None
    """Sandbox of worker processes of this machine; None: they do what this process may."""
    pool: WorkerPool | None = None
    """Processes that are kept from stage to stage; None: each stage starts its own."""

    @contextmanager
    def keeping_workers(self) -> Iterator["Coordinator"]:
        """Keep the worker processes of this machine from stage to stage until the block ends."""
        with self._new_pool().keeping() as pool:
            yield replace(self, pool=pool)

    def make(self, stage: Stage[Inputs, Task], inputs: Inputs) -> tuple[Artefact, ...]:
        """Return the artefacts of all tasks, in their order; see `by_task`."""
        return tuple(each for made in self.by_task(stage, inputs) for each in made)

    def by_task(self, stage: Stage[Inputs, Task], inputs: Inputs) -> list[tuple[Artefact, ...]]:
        """Return the artefacts of each task, in the order of the tasks.

        A shard runs its own tasks. Artefacts of others are there or planned, and so is what is made of them.

        Raises:
            WorkerError: where a worker has other versions than this process, or is lost again and again.
        """
        assignments = [
            Assignment(task=task, recipes=tuple(stage.recipes(task)))
            for task in stage.tasks(inputs)
        ]
        if self.store.dry or not assignments:
            return [_planned(self.store, assignment) for assignment in assignments]
        if stage.placement == "workers":
            return self._by_workers(stage, assignments)
        return list(self._by_coordinator(stage, assignments))

    def _by_coordinator(
        self, stage: Stage[Inputs, Task], assignments: Sequence[Assignment[Task]]
    ) -> Iterator[tuple[Artefact, ...]]:
        """Run the tasks of which something is missing one after another in this process."""
        found = self._look_up(assignments)
        missing = [at for at, made in enumerate(found) if any(each.planned for each in made)]
        ours = [at for at in missing if stage.placement == "each shard" or self.workers.owns(at)]
        for at, each in enumerate(assignments):
            if at in ours:
                title, done = stage.title(each.task), ours.index(at)
                self._report(stage.name, title, done, len(ours))
                found[at] = _run(stage, self.store, each)
                self._report(stage.name, title, done + 1, len(ours))
            yield found[at]

    def _by_workers(
        self, stage: Stage[Inputs, Task], assignments: Sequence[Assignment[Task]]
    ) -> list[tuple[Artefact, ...]]:
        """Look all tasks up, and run those of ours of which something is missing."""
        found = self._look_up(assignments)
        missing = [at for at, made in enumerate(found) if any(each.planned for each in made)]
        ours = [
            at
            for at in missing
            if self.workers.owns(at) and not all(made.waits for made in found[at] if made.planned)
        ]
        if ours:
            self._report(stage.name, "", 0, len(ours))
            lacking = [
                recipe
                for at in ours
                for recipe, made in zip(assignments[at].recipes, found[at], strict=True)
                if made.planned
            ]
            done, failed = 0, dict[int, CorpusError]()

            def tell(words: str) -> None:
                self._report(stage.name, "", done, len(ours), words)

            results = self._results(stage, [assignments[at] for at in ours], lacking, tell)
            with closing(results):
                for done, (number, made) in enumerate(results, start=1):
                    at = ours[number]
                    if isinstance(made, CorpusError):
                        failed[at] = made
                    else:
                        found[at] = made
                    self._report(stage.name, stage.title(assignments[at].task), done, len(ours))
            raise_combined(failed)
        theirs = sorted({*missing} - {*ours})
        # Others may have made them meanwhile: then this shard goes on further.
        now = self._look_up([assignments[at] for at in theirs])
        for at, made in zip(theirs, now, strict=True):
            found[at] = made
        return found

    def _look_up(self, assignments: Sequence[Assignment[Task]]) -> list[tuple[Artefact, ...]]:
        """Return what is there of each task, and the rest as planned; all in this process's lease."""
        while True:
            dry = Store(self.store.root, dry=True)
            found = [_planned(dry, assignment) for assignment in assignments]
            if self.store.keep(artefact for made in found for artefact in made):
                return found

    def _results(
        self,
        stage: Stage[Inputs, Task],
        assignments: Sequence[Assignment[Task]],
        recipes: Sequence[Recipe],
        tell: Callable[[str], None],
    ) -> Generator[tuple[int, tuple[Artefact, ...] | CorpusError], None, None]:
        """Yield the number of each task with its artefacts or error, in order of completion."""
        pool = self._pool(stage, len(assignments))
        if pool is None:
            return ((at, _tried(stage, self.store, each)) for at, each in enumerate(assignments))
        # Inputs are verified once here, and not by each of the workers that read them.
        self.store.verify_inputs(recipes, threads=self.workers.processes)
        # The workspace is this command's, not that of whichever worker writes first.
        self.store.open()
        uuid = self.store.workspace().uuid
        for folder in self.sandbox.write if self.sandbox else ():
            # A worker can't enter a folder that is made later.
            Path(folder).mkdir(exist_ok=True)
        work = functools.partial(run_in_worker, stage, self.store.root, uuid)
        return pool.map(work, assignments, name=lambda each: stage.title(each.task), tell=tell)

    def _new_pool(self) -> WorkerPool:
        return WorkerPool(size=self.workers.processes, sandbox=self.sandbox)

    def _pool(self, stage: Stage[Inputs, Task], tasks: int) -> Pool | None:
        """Return the workers that run so many tasks; None where this process runs them."""
        workers = self.workers
        if workers.ray is not None:
            return RayPool(address=workers.ray, in_flight=workers.in_flight or tasks)
        is_confined = stage.parses and self.sandbox is not None
        if workers.processes == 1 or (tasks == 1 and not is_confined):
            return None
        return self.pool or self._new_pool()

    def _report(self, stage: str, item: str, done: int, total: int, note: str = "") -> None:
        self.watch(
            Progress(stage=stage, item=item, done=done, total=total, unit="tasks", note=note)
        )


def _planned(store: Store, assignment: Assignment[Task]) -> tuple[Artefact, ...]:
    """Return what a dry store has of a task, and the rest as planned."""
    return tuple(store.produce(assignment.recipes, _run_nothing))


def _run_nothing(_: Sequence[StagingDirectory]) -> None:
    raise AssertionError("a dry store makes nothing")


def _run(
    stage: Stage[Inputs, Task], store: Store, assignment: Assignment[Task]
) -> tuple[Artefact, ...]:
    """Run a task for those of its artefacts that are missing."""
    run = functools.partial(stage.run, assignment.task)
    return tuple(store.produce(assignment.recipes, run))


def _tried(
    stage: Stage[Inputs, Task], store: Store, assignment: Assignment[Task]
) -> tuple[Artefact, ...] | CorpusError:
    """Run a task; the error of a stage that raises last is returned."""
    try:
        return _run(stage, store, assignment)
    except CorpusError as failed:
        if not stage.raises_last:
            raise
        return failed


def run_in_worker(
    stage: Stage[Inputs, Task], root: Path, uuid: str, assignment: Assignment[Task]
) -> tuple[Artefact, ...] | CorpusError:
    """Run a task in a worker process, in the workspace that has this uuid.

    Raises:
        WorkerError: where the worker sees another folder under that path, or has other versions.
    """
    store = Store(root)
    if not (root / WORKSPACE_NAME).is_file() or store.workspace().uuid != uuid:
        raise WorkerError(
            f"node {platform.node()}",
            str(root),
            cause="it sees another folder there than the machine that began the build",
            cure="Keep the workspace on storage that all nodes share, under the same path",
        )
    require_same(assignment.recipes, stage.recipes(assignment.task))
    with leaving_whole_files():
        return _tried(stage, store, assignment)
