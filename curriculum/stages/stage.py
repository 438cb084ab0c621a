"""Stage: one kind of artefact with its tasks, recipes and code. Coordinator: runs stages.

A stage is a frozen dataclass in its own file; tokens.py is a short example. A Coordinator computes recipes,
looks up their keys, and runs only tasks with missing artefacts.
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
"""The processes that run a stage's tasks.

workers       worker processes of this machine or a cluster; each shard runs its own tasks
coordinator   the coordinator, one task at a time, each with all workers; each shard runs its own tasks
each shard    the coordinator of every shard: the first one builds the artefact, the others find it
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage(ABC, Generic[Inputs, Task]):
    """One step from published artefacts to new ones. The fields are settings that apply to all its tasks.

    Stages and tasks must be picklable and small, because each task is sent to a worker with its stage.
    """

    name: ClassVar[str]
    """Name of the stage in progress lines."""
    placement: ClassVar[Placement] = "workers"
    parses: ClassVar[bool] = False
    """True if tasks parse text of repositories with libraries in C. Such tasks run in a sandboxed worker if
    there are several workers, even if there is only one task.
    """
    raises_last: ClassVar[bool] = False
    """True to raise the CorpusErrors of all tasks together, after the other tasks are done."""

    def tasks(self, inputs: Inputs) -> Sequence[Task]:
        """Return independent tasks for the inputs; by default, each input is a task."""
        return cast(Sequence[Task], inputs)

    @abstractmethod
    def title(self, task: Task) -> str:
        """Return the title of a task for progress lines and errors."""

    @abstractmethod
    def recipes(self, task: Task) -> Sequence[Recipe]:
        """Return a recipe for each artefact of a task; it depends only on the task and installed versions."""

    @abstractmethod
    def run(self, task: Task, drafts: Sequence[StagingDirectory]) -> None:
        """Fill the drafts of a task's missing artefacts, in one pass over its input."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workers:
    """The processes that run tasks. Their number and place don't change the bytes of any artefact."""

    processes: int = 1
    """Number of processes on this machine."""
    ray: str | None = None
    """Address of a Ray cluster to run the tasks on, in place of this machine."""
    in_flight: int | None = None
    """Maximum number of tasks on the cluster at a time; by default all missing ones."""
    shard: Shard | None = None
    """Shard whose tasks to run; by default all tasks are run."""

    def owns(self, at: int) -> bool:
        """Return True if the task at an index is one of this shard's."""
        return self.shard is None or self.shard.owns(at)


ALONE = Workers()


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment(Generic[Task]):
    """A task together with the recipes that the coordinator computed for it."""

    task: Task
    recipes: tuple[Recipe, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordinator:
    """Runner of stages: it computes recipes once, looks up their keys, and runs tasks with missing artefacts.

    With a dry store nothing runs; missing artefacts are returned as planned.
    """

    store: Store
    workers: Workers = ALONE
    watch: ProgressCallback = ignore_progress
    sandbox: Sandbox | None = None
    """Sandbox of worker processes on this machine; None for no restrictions."""
    pool: WorkerPool | None = None
    """Worker processes that are kept from stage to stage; None if each stage starts its own."""

    @contextmanager
    def keeping_workers(self) -> Iterator["Coordinator"]:
        """Keep the worker processes of this machine from stage to stage until the block ends."""
        with self._new_pool().keeping() as pool:
            yield replace(self, pool=pool)

    def make(self, stage: Stage[Inputs, Task], inputs: Inputs) -> tuple[Artefact, ...]:
        """Return the artefacts of all tasks in task order, as one tuple; see `by_task`."""
        return tuple(artefact for made in self.by_task(stage, inputs) for artefact in made)

    def by_task(self, stage: Stage[Inputs, Task], inputs: Inputs) -> list[tuple[Artefact, ...]]:
        """Return the artefacts of each task, in task order.

        A shard runs its own tasks. Missing artefacts of other shards, and everything that depends on them,
        are returned as planned.

        Raises:
            WorkerError: if a worker has other versions than this process, or is lost repeatedly.
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
        """Run the tasks that have missing artefacts one at a time in this process."""
        found = self._look_up(assignments)
        missing = [
            at for at, made in enumerate(found) if any(artefact.planned for artefact in made)
        ]
        ours = [at for at in missing if stage.placement == "each shard" or self.workers.owns(at)]
        for at, assignment in enumerate(assignments):
            if at in ours:
                title, done = stage.title(assignment.task), ours.index(at)
                self._report(stage.name, title, done, len(ours))
                found[at] = _run(stage, self.store, assignment)
                self._report(stage.name, title, done + 1, len(ours))
            yield found[at]

    def _by_workers(
        self, stage: Stage[Inputs, Task], assignments: Sequence[Assignment[Task]]
    ) -> list[tuple[Artefact, ...]]:
        """Look up the artefacts of all tasks, and run those tasks of this shard that have missing ones."""
        found = self._look_up(assignments)
        missing = [
            at for at, made in enumerate(found) if any(artefact.planned for artefact in made)
        ]
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
        # Other shards may have built them in the meantime, so that this shard can continue.
        now = self._look_up([assignments[at] for at in theirs])
        for at, made in zip(theirs, now, strict=True):
            found[at] = made
        return found

    def _look_up(self, assignments: Sequence[Assignment[Task]]) -> list[tuple[Artefact, ...]]:
        """Return the artefacts of each task, existing or planned, and lease the existing ones."""
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
            return (
                (at, _tried(stage, self.store, assignment))
                for at, assignment in enumerate(assignments)
            )
        # Inputs are verified once here instead of by every worker that reads them.
        self.store.verify_inputs(recipes, threads=self.workers.processes)
        # The workspace is created by this process, not by the first worker that writes.
        self.store.open()
        uuid = self.store.workspace().uuid
        for folder in self.sandbox.write if self.sandbox else ():
            # A sandboxed worker can't access a folder that is created later.
            Path(folder).mkdir(exist_ok=True)
        work = functools.partial(run_in_worker, stage, self.store.root, uuid)
        return pool.map(
            work, assignments, name=lambda assignment: stage.title(assignment.task), tell=tell
        )

    def _new_pool(self) -> WorkerPool:
        return WorkerPool(size=self.workers.processes, sandbox=self.sandbox)

    def _pool(self, stage: Stage[Inputs, Task], tasks: int) -> Pool | None:
        """Return the workers for a number of tasks; None if this process runs them."""
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
    """Return the artefacts of a task from a dry store, existing or planned."""
    return tuple(store.produce(assignment.recipes, _run_nothing))


def _run_nothing(_: Sequence[StagingDirectory]) -> None:
    raise AssertionError("a dry store makes nothing")


def _run(
    stage: Stage[Inputs, Task], store: Store, assignment: Assignment[Task]
) -> tuple[Artefact, ...]:
    """Run a task for its missing artefacts, and return all its artefacts."""
    run = functools.partial(stage.run, assignment.task)
    return tuple(store.produce(assignment.recipes, run))


def _tried(
    stage: Stage[Inputs, Task], store: Store, assignment: Assignment[Task]
) -> tuple[Artefact, ...] | CorpusError:
    """Run a task. For a stage with `raises_last`, return a CorpusError in place of raising it."""
    try:
        return _run(stage, store, assignment)
    except CorpusError as failed:
        if not stage.raises_last:
            raise
        return failed


def run_in_worker(
    stage: Stage[Inputs, Task], root: Path, uuid: str, assignment: Assignment[Task]
) -> tuple[Artefact, ...] | CorpusError:
    """Run a task in a worker process. `root` and `uuid` are the path and the identity of the workspace.

    Raises:
        WorkerError: if the worker sees another folder at that path, or has other versions.
    """
    store = Store(root)
    if not (root / WORKSPACE_NAME).is_file() or store.workspace().uuid != uuid:
        raise WorkerError(
            f"node {platform.node()}",
            str(root),
            cause="the node sees another folder at this path than the machine that started the build",
            cure="Keep the workspace on storage that all nodes share, under the same path",
        )
    require_same(assignment.recipes, stage.recipes(assignment.task))
    with leaving_whole_files():
        return _tried(stage, store, assignment)
