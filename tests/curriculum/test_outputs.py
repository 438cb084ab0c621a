"""Outputs outside of the workspace: nobody else can replace them while they are written."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from curriculum.outputs import claim_folder, require_new_folder, require_own_place, whole_folder
from schemas.errors import StoreError


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURRICULUM_TRUST", raising=False)


def test_a_folder_that_all_users_may_write_to_takes_no_output(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(StoreError) as refused:
        require_own_place("--out", shared / "answer.csv")
    assert refused.value.name == "--out"
    assert [*shared.iterdir()] == []


@pytest.fixture
def reached() -> Iterator[Path]:
    """A folder that other users can enter, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="curriculum-outputs-", dir="/tmp")).resolve()
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="acts as another user")
@pytest.mark.parametrize(("mode", "replaced"), [(0o777, True), (0o1777, False), (0o755, False)])
def test_another_user_replaces_a_draft_just_where_outputs_are_refused(
    reached: Path, mode: int, replaced: bool
) -> None:
    reached.chmod(mode)
    draft = reached / ".answer.csv.draft"
    draft.write_text("mine")
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            draft.unlink()
            draft.symlink_to("elsewhere")
        except OSError:
            os._exit(1)
        os._exit(0)
    assert (os.waitpid(child, 0)[1] == 0) is replaced
    assert draft.is_symlink() is replaced
    if replaced:
        with pytest.raises(StoreError):
            require_own_place("--out", reached / "answer.csv")
    else:
        require_own_place("--out", reached / "answer.csv")


def test_a_folder_that_only_its_user_may_write_to_takes_outputs(tmp_path: Path) -> None:
    require_own_place("--out", tmp_path / "answer.csv")


def test_a_folder_with_the_sticky_bit_takes_outputs(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    require_own_place("--out", shared / "answer.csv")


def test_a_shared_folder_that_the_environment_trusts_takes_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("CURRICULUM_TRUST", str(tmp_path))
    require_own_place("--out", tmp_path / "answer.csv")


def test_a_link_to_a_shared_folder_takes_no_output(tmp_path: Path) -> None:
    shared, link = tmp_path / "shared", tmp_path / "link"
    shared.mkdir()
    shared.chmod(0o777)
    link.symlink_to(shared)
    with pytest.raises(StoreError):
        require_own_place("--out", link / "answer.csv")


def test_a_shared_folder_takes_no_folder_of_an_export(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StoreError), whole_folder(tmp_path / "exported"):
        pytest.fail("the folder was opened")
    assert [*tmp_path.iterdir()] == []


def test_only_a_missing_or_empty_folder_is_new(tmp_path: Path) -> None:
    missing, empty, full, file = (tmp_path / name for name in ("missing", "empty", "full", "file"))
    empty.mkdir()
    full.mkdir()
    (full / "mine.txt").touch()
    file.touch()
    require_new_folder("--to", missing)
    require_new_folder("--to", empty)
    for path in (full, file):
        with pytest.raises(StoreError) as refused:
            require_new_folder("--bundle", path)
        assert (refused.value.name, refused.value.value) == ("--bundle", path)
    assert (full / "mine.txt").is_file()


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(KeyError), whole_folder(tmp_path / "exported") as draft:
        _fail_half_way(draft)
    assert [*tmp_path.iterdir()] == []
    with whole_folder(tmp_path / "exported") as draft:
        (draft / "file").write_text("whole")
        assert not (tmp_path / "exported").exists()
    assert [file.name for file in (tmp_path / "exported").iterdir()] == ["file"]


def _fail_half_way(draft: Path) -> None:
    (draft / "half").write_text("half")
    raise KeyError


def test_a_folder_is_claimed_in_a_shared_one_before_others_can_make_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    place = claim_folder("--bundle", shared / "bundle")
    assert place.is_dir()
    assert not place.stat().st_mode & 0o022


@pytest.mark.parametrize("entries", [(), (".locks",)])
def test_a_folder_that_others_may_write_to_is_not_filled(
    tmp_path: Path, entries: tuple[str, ...]
) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    for entry in entries:
        (folder / entry).symlink_to(tmp_path)
    assert claim_folder("--bundle", folder) == folder
    folder.chmod(0o777)
    with pytest.raises(StoreError) as refused:
        claim_folder("--bundle", folder)
    assert (refused.value.name, refused.value.value) == ("--bundle", folder)
