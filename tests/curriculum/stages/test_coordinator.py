"""A coordinator computes each recipe once, looks keys up, and has run only what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from curriculum.stages import Shard, Workers
from curriculum.stages.stage import Coordinator, Placement, Stage
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.progress import Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class Letters(Stage[str, str]):
    """An artefact of each letter, and one of its capital; calls are noted."""

    name = "letters"
    asked: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)

    def tasks(self, inputs: str) -> Sequence[str]:
        return [*inputs]

    def title(self, task: str) -> str:
        return task

    def recipes(self, task: str) -> Sequence[Recipe]:
        self.asked.append(task)
        return [
            Recipe(stage="letters", labels=(), revision=1, config={"letter": each})
            for each in (task, task.upper())
        ]

    def run(self, task: str, drafts: Sequence[StagingDirectory]) -> None:
        self.ran.append(f"{task}{len(drafts)}")
        for draft in drafts:
            (draft.path / "letter.txt").write_text(str(draft.recipe.config["letter"]))


@dataclass(frozen=True, kw_only=True, slots=True)
class InEachShard(Letters):
    placement = "each shard"


@dataclass(frozen=True, kw_only=True, slots=True)
class InCoordinator(Letters):
    placement = "coordinator"


def joined_letters(made: Sequence[Artefact]) -> str:
    return "".join((each.path / "letter.txt").read_text() for each in made)


def test_artefacts_come_in_the_order_of_tasks_and_only_missing_ones_are_made(
    tmp_path: Path,
) -> None:
    first, second = Letters(), Letters()
    coordinator = Coordinator(store=Store(tmp_path))
    assert joined_letters(coordinator.make(first, "ca")) == "cCaA"
    again = coordinator.by_task(second, "abc")
    assert [joined_letters(each) for each in again] == ["aA", "bB", "cC"]
    assert [each.made for made in again for each in made] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]
    assert (first.ran, second.ran) == (["c2", "a2"], ["b2"])
    assert second.asked == ["a", "b", "c"]


def test_a_task_runs_for_those_of_its_artefacts_that_are_missing(tmp_path: Path) -> None:
    store, stage = Store(tmp_path), Letters()
    store.produce(stage.recipes("a")[:1], lambda drafts: stage.run("a", drafts))
    assert joined_letters(Coordinator(store=store).make(stage, "a")) == "aA"
    assert stage.ran == ["a1", "a1"]


def test_a_dry_store_answers_from_recipes_alone(tmp_path: Path) -> None:
    stage, store = Letters(), Store(tmp_path, dry=True)
    Coordinator(store=Store(tmp_path)).make(stage, "a")
    made = Coordinator(store=store).make(stage, "ab")
    assert [each.planned for each in made] == [False, False, True, True]
    assert stage.ran == ["a2"]
    assert [step.outcome for step in store.steps] == ["there", "there", "planned", "planned"]


@pytest.mark.parametrize(
    ("stage", "ran"), [(Letters(), "b2"), (InCoordinator(), "b2"), (InEachShard(), "a2b2c2")]
)
def test_a_shard_runs_its_own_tasks_and_all_that_each_shard_runs(
    tmp_path: Path, stage: Letters, ran: str
) -> None:
    workers = Workers(shard=Shard.parse("2/3"))
    made = Coordinator(store=Store(tmp_path), workers=workers).by_task(stage, "abc")
    assert "".join(stage.ran) == ran
    assert [not made[at][0].planned for at in range(3)] == [f"{each}2" in ran for each in "abc"]


@pytest.mark.parametrize("placement", ["workers", "coordinator", "each shard"])
def test_progress_counts_the_tasks_that_are_run_and_no_others(
    tmp_path: Path, placement: Placement
) -> None:
    stages = {"workers": Letters(), "coordinator": InCoordinator(), "each shard": InEachShard()}
    seen: list[Progress] = []
    coordinator = Coordinator(store=Store(tmp_path), watch=seen.append)
    coordinator.make(stages[placement], "ab")
    assert {each.item for each in seen if each.done} == {"a", "b"}
    assert (seen[0].done, seen[-1].done, seen[-1].total) == (0, 2, 2)
    seen.clear()
    coordinator.make(stages[placement], "ab")
    assert not seen, "all of it is there"
    coordinator.make(stages[placement], "abc")
    assert [(each.done, each.total) for each in seen if each.done] == [(1, 1)]
