"""Files that a command writes where its user says: replaced whole, and never what a link leads to."""

import os
from pathlib import Path

import pytest

from flows.cli.output_files import drafted
from schemas.errors import CurriculumError


def test_a_file_is_replaced_whole_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "answer.csv"
    file.write_text("old")
    with drafted(file) as draft:
        draft.write_text("ne")
        assert file.read_text() == "old"
        draft.write_text("new")
    assert file.read_text() == "new"
    assert [*tmp_path.iterdir()] == [file]


def test_a_command_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "answer.csv"
    file.write_text("old")
    with pytest.raises(KeyError), drafted(file) as draft:
        _fail_half_way(draft)
    assert file.read_text() == "old"
    assert [*tmp_path.iterdir()] == [file]


def _fail_half_way(draft: Path) -> None:
    draft.write_text("half")
    raise KeyError


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    behind, link = tmp_path / "behind", tmp_path / "answer.csv"
    link.symlink_to(behind)
    link.write_text("kept")
    assert behind.read_text() == "kept", "plain writing follows the link"
    with drafted(link) as draft:
        draft.write_text("new")
    assert (behind.read_text(), link.read_text(), link.is_symlink()) == ("kept", "new", False)


def test_a_link_as_the_draft_takes_no_place(tmp_path: Path) -> None:
    secret, file = tmp_path / "secret", tmp_path / "answer.csv"
    secret.write_text("secret")
    with drafted(file) as draft:
        draft.symlink_to(secret)
    assert [*tmp_path.iterdir()] == [secret]


def test_a_device_is_written_into_and_stays() -> None:
    reading, writing = os.pipe()
    with drafted(Path(f"/dev/fd/{writing}")) as draft:
        draft.write_text("all of it")
    os.close(writing)
    with os.fdopen(reading) as read:
        assert read.read() == "all of it"
    with drafted(Path("/dev/null")) as draft:
        draft.write_text("nothing")
    assert Path("/dev/null").is_char_device()


def test_what_is_neither_file_nor_link_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for output in (tmp_path / "pipe", tmp_path / "folder", tmp_path / "none" / "answer.csv"):
        with pytest.raises(CurriculumError) as refused, drafted(output):
            pytest.fail("it was begun")
        assert refused.value.value == output


def test_shared_memory_is_a_folder_of_files_and_no_device(tmp_path: Path) -> None:
    behind, link = tmp_path / "behind", Path("/dev/shm") / f"curriculum-{os.getpid()}.csv"
    link.symlink_to(behind)
    link.write_text("kept")
    assert behind.read_text() == "kept", "plain writing follows the link"
    try:
        with drafted(link) as draft:
            draft.write_text("new")
        assert (behind.read_text(), link.read_text(), link.is_symlink()) == ("kept", "new", False)
    finally:
        link.unlink()


def test_a_folder_that_all_users_may_write_to_takes_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CURRICULUM_TRUST", raising=False)
    tmp_path.chmod(0o777)
    with pytest.raises(CurriculumError), drafted(tmp_path / "answer.csv"):
        pytest.fail("the draft was opened")
    assert [*tmp_path.iterdir()] == []
