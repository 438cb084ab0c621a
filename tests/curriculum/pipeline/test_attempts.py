"""Attempts at runs and their checkpoints, by the names of their folders."""

import shutil
from pathlib import Path

import pytest

from curriculum.catalog.snapshot import walk
from curriculum.pipeline.attempts import attempts_in, checkpoints, open_attempts, resumed_step
from curriculum.store import Store
from curriculum.store.attempt_state import state_of_attempt
from curriculum.train.checkpoint import newest_step
from curriculum.train.run_directory import attempt_number, attempts, last_number, read_job
from tests.flows.tiny_workspace import TinyWorkspace, job, run


def _checkpoint(attempt: Path, step: int) -> None:
    folder = attempt / "checkpoints" / f"step={step}"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")


def test_progress_begins_at_the_checkpoint_that_is_resumed(tmp_path: Path) -> None:
    assert resumed_step(tmp_path) == 0
    for step in (9, 23):
        _checkpoint(tmp_path / "attempt=1", step)
    assert resumed_step(tmp_path) == 23
    assert newest_step(tmp_path / "attempt=1/checkpoints") == 23
    (tmp_path / "attempt=1/manifest.json").write_text("{}")
    assert resumed_step(tmp_path) == 0, "a finished attempt isn't resumed"
    _checkpoint(tmp_path / "attempt=2", 5)
    assert resumed_step(tmp_path) == 5
    assert newest_step(tmp_path / "attempt=3/checkpoints") == 0


STRANGE = ("x", "", "²", "01", "-1", "1_0", "٣", "9" * 19)
"""Names that aren't attempt numbers."""


@pytest.mark.parametrize("number", STRANGE)
def test_a_folder_whose_name_has_no_number_is_neither_attempt_nor_checkpoint(
    tmp_path: Path, number: str
) -> None:
    store = Store(tmp_path)
    folder = run(
        tmp_path, job(TinyWorkspace(tmp_path).syntax, tmp_path, run_key="0" * 64), [], closed=False
    )
    shutil.copytree(folder, folder.with_name(f"attempt={number}"))
    _checkpoint(folder, 7)
    (folder / "checkpoints" / "step=7").rename(folder / "checkpoints" / f"step={number}")
    assert attempts(folder.parent) == [folder]
    assert [attempt.path for attempt in attempts_in(store)] == [folder]
    assert [attempt.path for attempt in open_attempts(store)] == [folder]
    assert [step for step, _ in checkpoints(folder)] == [1]
    assert newest_step(folder / "checkpoints") == 1
    assert state_of_attempt(tmp_path, folder, read_job(folder / "job.json")).steps == 1
    assert last_number(store, folder.parent) == 1
    assert walk(tmp_path).open_runs == (folder.relative_to(tmp_path).as_posix(),)


def test_a_folder_whose_name_has_a_number_is_one(tmp_path: Path) -> None:
    folder = run(
        tmp_path, job(TinyWorkspace(tmp_path).syntax, tmp_path, run_key="0" * 64), [], closed=False
    )
    shutil.copytree(folder, folder.with_name("attempt=20"))
    _checkpoint(folder, 70)
    assert [attempt_number(path) for path in attempts(folder.parent)] == [1, 20]
    assert [step for step, _ in checkpoints(folder)] == [1, 70]
