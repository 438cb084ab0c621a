"""Files are read whole within a bound, in memory of their own size."""

import tracemalloc
from pathlib import Path

import pytest

from schemas import regular_files
from schemas.regular_files import IrregularFileError


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
