"""gc removes whole artefacts that nothing uses, and nothing else, whatever happens beside it or to it."""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from curriculum.store import Artefact, Recipe, StagingDirectory, Store, collect_garbage, garbage
from schemas.cures import LOST
from schemas.errors import StoreError

PARTS = 5
PATIENCE_S = 20.0
COLLECTING = """
import sys
from pathlib import Path
from curriculum.store import Store, collect_garbage, garbage
store = Store(Path(sys.argv[1]))
dead = garbage(store)
print(len(dead), flush=True)
collect_garbage(store, dead)
"""


def recipe(number: int) -> Recipe:
    labels = (("family", "v2_simple"),)
    return Recipe(stage="documents", labels=labels, revision=1, config={"number": number})


def write(drafts: Sequence[StagingDirectory]) -> None:
    for draft in drafts:
        for part in range(PARTS):
            (draft.path / f"part-{part:05}.parquet").write_text("x" * 100)


def is_whole(artefact: Artefact) -> bool:
    return len([*artefact.path.iterdir()]) == PARTS + 1


@pytest.mark.parametrize("removed", [1, 3, PARTS, PARTS + 3])
def test_an_interrupted_gc_leaves_nothing_half_removed_and_the_next_one_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    store = Store(tmp_path)
    made = store.produce([recipe(number) for number in range(3)], write)
    store.mark("build", made[:1])
    unlink, calls = os.unlink, 0

    def interrupted(*arguments: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > removed:
            raise KeyboardInterrupt
        unlink(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collect_garbage(store, garbage(store))
    assert all(is_whole(each) for each in Store(tmp_path).artefacts())
    folders = [each for each in tmp_path.glob("documents/*/*") if each.is_dir()]
    assert {each.path for each in Store(tmp_path).artefacts()} == {*folders}
    collect_garbage(store, garbage(store))
    assert [each.path for each in store.artefacts()] == [made[0].path]
    left = [file for file in tmp_path.rglob("part-*") if not file.is_relative_to(made[0].path)]
    assert left == []


def test_gc_does_not_wait_for_a_build_that_runs(tmp_path: Path) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def slow(drafts: Sequence[StagingDirectory]) -> None:
        writing.set()
        go_on.wait(10 * PATIENCE_S)
        write(drafts)

    build = threading.Thread(target=lambda: Store(tmp_path).produce([recipe(1)], slow))
    gc = threading.Thread(target=lambda: collect_garbage(Store(tmp_path), []))
    build.start()
    try:
        assert writing.wait(PATIENCE_S)
        gc.start()
        gc.join(PATIENCE_S)
        assert not gc.is_alive()
    finally:
        go_on.set()
        build.join()
        gc.join()
    assert [is_whole(each) for each in Store(tmp_path).artefacts()] == [True]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed > 2 else []) for seed in range(20)]
)
def test_gc_killed_at_any_moment_leaves_whole_artefacts_and_the_next_one_finishes(
    tmp_path: Path, seed: int
) -> None:
    store = Store(tmp_path)
    made = store.produce([recipe(number) for number in range(60)], write)
    store.mark("build", made[:5])
    command = [sys.executable, "-c", COLLECTING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as gc:
        assert gc.stdout is not None
        assert int(gc.stdout.readline()) == 55
        time.sleep(random.Random(seed).uniform(0, 0.08))
        gc.kill()
    assert all(is_whole(each) for each in store.artefacts())
    folders = {each for each in tmp_path.glob("documents/*/*") if each.is_dir()}
    assert {each.path for each in store.artefacts()} == folders
    collect_garbage(store, garbage(store))
    assert {each.path for each in store.artefacts()} == {each.path for each in made[:5]}
    assert [*(tmp_path / ".trash").glob("*")] == []


def test_a_draft_that_a_killed_build_left_is_removed_and_counted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    draft = tmp_path / ".drafts" / recipe(1).key
    draft.mkdir(parents=True)
    (draft / "part-00000.parquet").write_text("x" * 70)
    assert collect_garbage(store, []) == 70
    assert not draft.exists()


def test_what_came_into_use_after_it_was_listed_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (made,) = store.produce([recipe(1)], write)
    dead = garbage(store)
    store.mark("build", [made])
    assert collect_garbage(store, dead) == 0
    assert is_whole(made)


def test_what_vanishes_while_artefacts_are_listed_is_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = sorted(store.produce([recipe(1), recipe(2)], write), key=lambda each: each.path)
    listed = store.artefacts()
    assert next(listed).path == first.path
    second.path.rename(tmp_path / ".gone")
    assert [*listed] == []


def test_the_cure_of_a_damaged_list_loses_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kept = store.produce([recipe(1)], write)[0]
    file = store.mark("runs+templates+syntax", [kept])
    file.write_bytes(file.read_bytes().replace(b"family", b"femily", 1))
    with pytest.raises(StoreError) as found:
        garbage(store)
    lost = Path(f"{file}{LOST}")
    assert f"Rename it to {lost}" in str(found.value)
    file.rename(lost)
    for _ in range(2):
        with pytest.raises(StoreError) as refused:
            garbage(store)
        assert refused.value.name == str(lost)
        store.mark("runs+templates+syntax", [kept])
    lost.unlink()
    assert garbage(store) == []
    assert kept.path.is_dir()
