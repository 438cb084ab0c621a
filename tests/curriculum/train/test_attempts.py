"""A rerun is a new attempt, whatever became of earlier ones."""

import json
from typing import Any

from curriculum.store import collect, garbage
from curriculum.train.recipe import run_recipe
from curriculum.train.run import train


def test_a_rerun_after_gc_is_an_attempt_of_its_own_that_trains(world: Any) -> None:
    job = world.job(steps=1)
    train(world.store, job)
    second = train(world.store, job, again=True)
    assert second.artefact is not None
    world.store.mark("runs-tester-syntax", [second.artefact])
    log = (second.directory / "train.log").read_text()
    dead = [each for each in garbage(world.store) if each.manifest.stage == "runs"]
    collect(world.store, dead)
    assert [each.path for each in world.store.artefacts("runs")] == [second.directory]
    third = train(world.store, job, again=True)
    assert third.directory.name == "attempt=3"
    assert third.report.attempt == 3
    assert (second.directory / "train.log").read_text() == log
    assert (third.directory / "train.log").is_file()


def test_an_open_attempt_goes_on_under_its_own_number_when_earlier_ones_are_gone(
    world: Any,
) -> None:
    job = world.job(steps=1)
    folder = world.store.place(run_recipe(job)) / "attempt=3"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(job.model_copy(update={"attempt": 3}).model_dump_json())
    run = train(world.store, job)
    assert run.directory == folder
    assert json.loads((folder / "report.json").read_text())["attempt"] == 3
