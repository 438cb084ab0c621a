"""A bundle from elsewhere leads no write out of its folder."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from curriculum.store import Store
from curriculum.train import bundle
from schemas.errors import JobError, StoreError

ATTEMPT = "runs/specialist-a/phase-b/0123/attempt=1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a bundle with an attempt in it."""
    monkeypatch.delenv("CURRICULUM_TRUST")
    folder = tmp_path / "bundle"
    (folder / ATTEMPT).mkdir(parents=True)
    Store(folder).open()
    return folder


def link(place: Path) -> None:
    place.symlink_to(place.parents[-1] / "nowhere")


@pytest.mark.parametrize("make", [link, os.mkfifo])
@pytest.mark.parametrize("name", [f"{ATTEMPT}/train.log", "bundle.json", "runs.json"])
def test_a_bundle_with_a_link_or_a_pipe_is_refused_before_anything_is_written(
    folder: Path, name: str, make: Callable[[Path], None]
) -> None:
    make(folder / name)
    before = sorted(folder.rglob("*"))
    with pytest.raises(StoreError) as refused:
        bundle.train_bundle(folder)
    assert refused.value.name == str(folder / name)
    assert sorted(folder.rglob("*")) == before


def test_a_log_behind_a_link_leads_a_write_out_of_a_bundle(folder: Path, tmp_path: Path) -> None:
    """The control of the test above, for a reader that opens the log plainly."""
    (folder / ATTEMPT / "train.log").symlink_to(tmp_path / ".bashrc")
    with (folder / ATTEMPT / "train.log").open("a") as log:
        log.write("line")
    assert (tmp_path / ".bashrc").read_text() == "line"


@pytest.mark.parametrize("name", ["bundle.json", "runs.json"])
def test_a_file_of_a_bundle_behind_a_link_is_read_where_the_bundle_is_not_checked(
    folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "require_own_bundle", lambda _: None)
    (tmp_path / "private").write_text("[private]")
    (folder / name).symlink_to(tmp_path / "private")
    read = bundle.train_bundle if name == "bundle.json" else bundle.read_runs
    with pytest.raises(JobError) as refused:
        read(folder)
    assert refused.value.name == str(folder / name)
    assert "Invalid" in str(refused.value) or "object" in str(refused.value)


@pytest.mark.parametrize("name", [".", ATTEMPT, "workspace.json"])
def test_a_bundle_that_others_may_write_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (folder / name).chmod(0o777)
    with pytest.raises(StoreError) as refused:
        bundle.train_bundle(folder)
    assert refused.value.name == str(folder)
    monkeypatch.setenv("CURRICULUM_TRUST", str(folder))
    with pytest.raises(JobError):
        bundle.train_bundle(folder)


@pytest.mark.parametrize("shared", [False, True])
def test_a_training_lets_others_write_only_where_the_environment_trusts_the_bundle(
    folder: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    masks = list[int]()

    def train(_: Path) -> bool:
        masks.append(os.umask(0))
        return True

    monkeypatch.setattr(bundle, "train_bundle", train)
    monkeypatch.setattr(sys, "argv", ["bundle", str(folder)])
    monkeypatch.setenv("CURRICULUM_TRUST", str(folder) if shared else "")
    before = os.umask(0)
    try:
        assert bundle.main() == 0
    finally:
        os.umask(before)
    assert masks == [0o000 if shared else 0o022]


def test_an_error_of_the_system_is_one_line_with_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "a file" / "attempts.lock"
    file.parent.write_text("")
    monkeypatch.setattr(bundle, "train_bundle", lambda _: file.write_text(""))
    monkeypatch.setattr(sys, "argv", ["bundle", str(folder)])
    assert bundle.main() == 1
    assert capsys.readouterr().err.startswith(f"StoreError: {file}")
