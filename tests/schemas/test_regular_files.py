"""Files are read whole within a bound, in memory of their own size."""

import tracemalloc
from pathlib import Path

import pytest

from schemas import regular_files
from schemas.regular_files import IrregularFileError, linked_folders, read_inside


@pytest.mark.parametrize("most", [64 << 20, 2 << 30])
def test_a_small_file_is_read_in_memory_of_its_size_whatever_the_bound(
    tmp_path: Path, most: int
) -> None:
    (file := tmp_path / "small.json").write_bytes(b"{}" * 500)
    tracemalloc.start()
    try:
        assert regular_files.read(file, most=most) == b"{}" * 500
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, (1 << 20) + 1])
def test_a_file_is_read_whole_up_to_its_bound_and_refused_beyond(tmp_path: Path, size: int) -> None:
    (file := tmp_path / "file").write_bytes(content := b"x" * size)
    assert regular_files.read(file, most=size) == content
    if size:
        with pytest.raises(IrregularFileError):
            regular_files.read(file, most=size - 1)


def test_a_file_of_the_system_that_says_no_size_is_read_whole_or_refused() -> None:
    listed = regular_files.read("/proc/self/maps")
    assert listed.endswith(b"\n")
    assert len(listed) > 4096
    with pytest.raises(IrregularFileError):
        regular_files.read("/proc/self/maps", most=4096)


def test_a_file_that_grows_while_it_is_read_is_read_as_far_as_it_has_come(tmp_path: Path) -> None:
    (file := tmp_path / "file").write_bytes(b"x" * 9)
    with file.open("rb") as opened:
        assert regular_files._read(opened, 3, 100) == b"x" * 9
    with file.open("rb") as opened:
        assert len(regular_files._read(opened, 3, 5)) == 6, "one byte beyond the bound"


def test_links_are_followed_inside_of_a_folder_and_of_the_blobs_of_its_cache(
    tmp_path: Path,
) -> None:
    cache, outside = tmp_path / "models--theirs", tmp_path / "outside"
    snapshot, blobs = cache / "snapshots" / "0123abcd", cache / "blobs"
    (snapshot / "inner").mkdir(parents=True)
    blobs.mkdir()
    for target in (snapshot / "inner" / "own", blobs / "blob", outside):
        target.write_text(target.name)
        (snapshot / f"to_{target.name}").symlink_to(target)
    folders = linked_folders(snapshot)
    assert folders == (snapshot, blobs)
    for name in ("own", "blob"):
        assert read_inside(snapshot / f"to_{name}", folders) == name.encode()
    with pytest.raises(IrregularFileError, match=str(outside)):
        read_inside(snapshot / "to_outside", folders)
    with pytest.raises(FileNotFoundError):
        read_inside(snapshot / "nothing", folders)
    (snapshot / "to_itself").symlink_to("to_itself")
    with pytest.raises(IrregularFileError):
        read_inside(snapshot / "to_itself", folders)


@pytest.mark.parametrize("swap", ["blobs/blob", "blobs"])
def test_a_link_that_is_swapped_in_once_a_path_was_checked_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    snapshot, private = tmp_path / "snapshots" / "0123abcd", tmp_path / "private"
    for folder in (snapshot, tmp_path / "blobs", private / "blobs"):
        folder.mkdir(parents=True)
        (folder / "blob").write_text(f"{folder.name} of {folder.parent.name}")
    (snapshot / "file").symlink_to("../../blobs/blob")
    check = Path.resolve

    def raced(path: Path, *, strict: bool) -> Path:
        found = check(path, strict=strict)
        (tmp_path / swap).rename(tmp_path / "before")
        (tmp_path / swap).symlink_to(private / swap)
        return found

    folders = linked_folders(snapshot)
    monkeypatch.setattr(Path, "resolve", raced)
    with pytest.raises(OSError, match=r"link|directory"):
        read_inside(snapshot / "file", folders)
    assert (snapshot / "file").read_text() == "blobs of private", "the swap came in time"
