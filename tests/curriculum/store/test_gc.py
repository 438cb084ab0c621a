"""gc removes whole artefacts that nothing uses, and nothing else, whatever happens beside it or to it."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from curriculum.store import Artefact, Draft, Recipe, Store, collect, garbage

PARTS = 5
PATIENCE_S = 20.0


def recipe(number: int) -> Recipe:
    labels = (("family", "v2_simple"),)
    return Recipe(stage="documents", labels=labels, revision=1, config={"number": number})


def write(drafts: Sequence[Draft]) -> None:
    for draft in drafts:
        for part in range(PARTS):
            (draft.path / f"part-{part:05}.parquet").write_text("x" * 100)


def is_whole(artefact: Artefact) -> bool:
    return len([*artefact.path.iterdir()]) == PARTS + 1


@pytest.mark.xfail(strict=True, reason="gc removes artefacts file by file where they stand")
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
            collect(store, garbage(store))
    assert all(is_whole(each) for each in Store(tmp_path).artefacts())
    folders = [each for each in tmp_path.glob("documents/*/*") if each.is_dir()]
    assert {each.path for each in Store(tmp_path).artefacts()} == {*folders}
    collect(store, garbage(store))
    assert [each.path for each in store.artefacts()] == [made[0].path]
    left = [file for file in tmp_path.rglob("part-*") if not file.is_relative_to(made[0].path)]
    assert left == []


@pytest.mark.xfail(strict=True, reason="gc waits for the lock of each draft")
def test_gc_does_not_wait_for_a_build_that_runs(tmp_path: Path) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def slow(drafts: Sequence[Draft]) -> None:
        writing.set()
        go_on.wait(10 * PATIENCE_S)
        write(drafts)

    build = threading.Thread(target=lambda: Store(tmp_path).produce([recipe(1)], slow))
    gc = threading.Thread(target=lambda: collect(Store(tmp_path), []))
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
