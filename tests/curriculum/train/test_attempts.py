"""A rerun is a new attempt, whatever became of earlier ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from curriculum.pipeline.attempts import Attempt, attempts_in
from curriculum.store import Store, collect_garbage, garbage
from curriculum.train.run import train
from curriculum.train.run_directory import claim_directory, run_recipe
from schemas.job import Job


@pytest.mark.usefixtures("in_this_process")
def test_a_rerun_after_gc_is_an_attempt_of_its_own_that_trains(world: Any) -> None:
    job = world.job(steps=1)
    train(world.store, job)
    second = train(world.store, job, again=True)
    assert second.artefact is not None
    world.store.mark("runs+tester+syntax", [second.artefact])
    log = (second.directory / "train.log").read_text()
    dead = [each for each in garbage(world.store) if each.manifest.stage == "runs"]
    collect_garbage(world.store, dead)
    assert [each.path for each in world.store.artefacts("runs")] == [second.directory]
    third = train(world.store, job, again=True)
    assert third.directory.name == "attempt=3"
    assert third.report.attempt == 3
    assert (second.directory / "train.log").read_text() == log
    assert (third.directory / "train.log").is_file()


@pytest.mark.usefixtures("in_this_process")
def test_an_open_attempt_goes_on_under_its_own_number_when_earlier_ones_are_gone(
    world: Any,
) -> None:
    job = world.job(steps=1)
    folder = world.store.path_of(run_recipe(job)) / "attempt=3"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(job.model_copy(update={"attempt": 3}).model_dump_json())
    run = train(world.store, job)
    assert run.directory == folder
    assert json.loads((folder / "report.json").read_text())["attempt"] == 3


@pytest.mark.usefixtures("in_this_process")
def test_an_attempt_that_is_not_finished_replaces_no_finished_one_until_it_finishes(
    world: Any,
) -> None:
    job = world.job(steps=1)
    first = train(world.store, job)
    again = first.directory.with_name("attempt=2")
    again.mkdir()
    frozen = first.directory / "job.json"
    begun = Job.model_validate_json(frozen.read_text()).model_copy(update={"attempt": 2})
    (again / "job.json").write_text(begun.model_dump_json())
    assert train(world.store, job).directory == first.directory
    assert not (again / "manifest.json").exists()
    resumed = train(world.store, job, again=True)
    assert (resumed.directory, resumed.report.attempt) == (again, 2)
    assert train(world.store, job).directory == again


@pytest.mark.usefixtures("in_this_process")
def test_attempts_of_a_workspace_are_numbered_in_their_order_while_clocks_are_set_back(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [world.job(steps=1), world.job(steps=1, seed=7)]
    moments = iter(["2026-05-01", "2025-04-01", "2024-03-01"])
    monkeypatch.setattr("curriculum.train.run.now", lambda: next(moments))
    made = [train(world.store, jobs[0]), train(world.store, jobs[1])]
    made.append(train(world.store, jobs[0], again=True))
    assert [attempt.path for attempt in attempts_in(world.store)] == [run.directory for run in made]
    frozen = [Attempt.at(run.directory).job for run in made]
    assert [job.ordinal for job in frozen] == [1, 2, 3]
    assert len({job.run_key for job in frozen}) == 2


def test_a_process_that_trains_keeps_what_it_reads_and_its_run_without_a_launcher(
    world: Any,
) -> None:
    job = world.job(steps=1)
    directory = world.store.path_of(run_recipe(job)) / "attempt=1"
    directory.mkdir(parents=True)
    there = {each.path for each in world.store.artefacts()}
    with claim_directory(world.store, job, directory):
        collect_garbage(world.store, garbage(world.store))
        assert {each.path for each in world.store.artefacts()} == there
    collect_garbage(world.store, garbage(world.store))
    assert [*world.store.artefacts()] == []


def test_a_run_whose_attempts_are_all_gone_does_not_hide_the_same_one_elsewhere(
    world: Any,
) -> None:
    mine = world.job(steps=1)
    theirs = mine.model_copy(update={"specialist": "other"})
    first = finished_attempt(world.store, mine)
    shutil.copytree(first.parent, second := world.store.root / run_recipe(theirs).directory)
    world.store.mark("runs+tester+syntax", [world.store.load(first)])
    collect_garbage(world.store, garbage(world.store))
    assert not second.exists()
    assert world.store.path_of(run_recipe(theirs)) == first.parent


def finished_attempt(store: Store, job: Job) -> Path:
    """A finished attempt that nobody had to train."""
    directory = store.root / run_recipe(job).directory / "attempt=1"
    directory.mkdir(parents=True)
    (directory / "report.json").write_text("{}")
    return store.publish_run(directory, run_recipe(job), {}).path
