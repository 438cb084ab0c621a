"""Stage: one kind of artefact, with its tasks, the recipes of a task and the code that runs one.

A stage is a frozen dataclass in a file of its own; tokens.py is a short one to imitate. A Coordinator carries
it out: it computes recipes, looks their keys up, and has only those tasks run of which something is missing.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeVar

from curriculum.store import Recipe, StagingDirectory

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

    @abstractmethod
    def tasks(self, inputs: Inputs) -> Sequence[Task]:
        """Cut the inputs into tasks, none of which needs another."""

    @abstractmethod
    def title(self, task: Task) -> str:
        """Name a task in lines of progress and in errors."""

    @abstractmethod
    def recipes(self, task: Task) -> Sequence[Recipe]:
        """Return the recipe of each artefact of a task, from the task and installed versions alone."""

    @abstractmethod
    def run(self, task: Task, drafts: Sequence[StagingDirectory]) -> None:
        """Fill the drafts of all artefacts of a task that are missing, in one pass over what it reads."""
