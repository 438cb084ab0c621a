"""gc at any moment of a build leaves the build what it uses."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from curriculum.stages import Built, Workers
from curriculum.stages.stage import Coordinator, Stage
from curriculum.store import Artefact, Recipe, StagingDirectory, Store, collect_garbage, garbage

pytestmark = pytest.mark.system

MakeTiny = Callable[..., Built]
GCS = """
import random, sys, time
from pathlib import Path
from curriculum.store import Store, collect_garbage, garbage
store, dice = Store(Path(sys.argv[1])), random.Random(int(sys.argv[2]))
print("ready", flush=True)
while True:
    time.sleep(dice.uniform(0, 0.2))
    print(collect_garbage(store, garbage(store)), flush=True)
"""


def recipe(number: int) -> Recipe:
    return Recipe(stage="documents", labels=(), revision=1, config={"number": number})


class WhileAllAreLeased(Stage[range, int]):
    """A stage whose tasks look whether the lease of the coordinator names those of all tasks."""

    name = "documents"

    def tasks(self, inputs: range) -> range:
        return inputs

    def title(self, task: int) -> str:
        return str(task)

    def recipes(self, task: int) -> list[Recipe]:
        return [recipe(task)]

    def run(self, task: int, drafts: Sequence[StagingDirectory]) -> None:
        root = drafts[0].path.parents[1]
        files = [file.read_text() for file in (root / "leases").glob("*.json")]
        assert any(all(recipe(each).key in text for each in range(3)) for text in files)


def test_the_lease_of_a_build_names_all_tasks_before_a_worker_begins_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    coordinator = Coordinator(store=store, workers=Workers(processes=2))
    with store.leased():
        made = coordinator.make(WhileAllAreLeased(), range(3))
    assert [each.made for each in made] == [True] * 3


def contents(artefacts: list[Artefact]) -> dict[str, str]:
    return {each.key: each.content for each in artefacts}


def test_gc_after_every_task_of_a_build_changes_nothing(
    tiny: Built, make_tiny: MakeTiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report_and_collect(*_: object) -> None:
        beside = Store(tmp_path)
        collect_garbage(beside, garbage(beside))

    monkeypatch.setattr(Coordinator, "_report", report_and_collect)
    built = make_tiny(Store(tmp_path))
    assert contents(built.artefacts()) == contents(tiny.artefacts())
    assert contents([*Store(tmp_path).artefacts()]) == contents(tiny.artefacts())


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed > 2 else []) for seed in range(20)]
)
def test_gc_at_random_moments_beside_a_build_changes_nothing(
    tiny: Built, make_tiny: MakeTiny, tmp_path: Path, seed: int
) -> None:
    """Some of what it needs is there, and nothing of it is pinned: gc and build race for it."""
    home, dice = tmp_path / "workspace", random.Random(seed)
    whole = tiny.selection.path.parents[2]
    shutil.copytree(whole, home, ignore=shutil.ignore_patterns(".locks", "leases", "rows"))
    for each in [*Store(home).artefacts()]:
        if dice.random() < 0.4:
            shutil.rmtree(each.path)
    command = [sys.executable, "-c", GCS, str(home), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gc:
        assert gc.stdout is not None
        assert gc.stderr is not None
        assert gc.stdout.readline() == b"ready\n"
        try:
            built = make_tiny(Store(home), workers=Workers(processes=1 + (seed >= 10)))
        finally:
            gc.kill()
        assert gc.stderr.read() == b""
        assert gc.stdout.read().count(b"\n") > 1
    assert contents(built.artefacts()) == contents(tiny.artefacts())
