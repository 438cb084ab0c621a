"""Outputs outside of the workspace: nobody else can replace them while they are written."""

from pathlib import Path

import pytest

from curriculum.outputs import require_own_place, whole_folder
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
