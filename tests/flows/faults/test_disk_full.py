"""A disk that is full, while building and while training: a line and a cure, and afterwards it goes on."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from curriculum.store import Store
from flows.cli import app

pytestmark = pytest.mark.timeout(2400)

SPARE = "spare.bin"


@pytest.fixture
def on_a_small_disk(course: Any, tmp_path: Path) -> Iterator[Callable[[int], Any]]:
    """The course on a disk of its own of so many MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mounted(size: int) -> Any:
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "none", str(disk)]
        if subprocess.run(words, capture_output=True, check=False).returncode != 0:
            pytest.skip("only root may mount a small disk")
        course.folder = disk / "course"
        return course

    yield mounted
    course.end()
    subprocess.run(["umount", "--lazy", str(disk)], capture_output=True, check=False)


def fill(disk: Path, *, but_kib: int) -> None:
    """Leave so much room on a disk and no more."""
    with (disk / SPARE).open("wb", buffering=0) as file:
        block = bytes(4096)
        try:
            while True:
                file.write(block)
        except OSError:
            file.truncate(max(0, file.tell() - but_kib * 1024))


def require_a_line_and_a_cure(course: Any, log: Path) -> None:
    """The command ended in a sentence that names the place and says what to do."""
    said = log.read_text()
    assert "Traceback" not in said, said
    assert os.strerror(errno.ENOSPC) in said, said
    assert "Free some space" in said, said

    assert "error: " in said, said


def test_whoever_finds_the_disk_full_the_command_ends_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Store, "open", full)
    done = CliRunner().invoke(app, ["build", "templates.demo", "--home", str(tmp_path / "home")])
    assert done.exit_code == 2
    assert os.strerror(errno.ENOSPC) in done.stderr
    assert "Free some space" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("but_kib", [0, 60, 300, 700, 1100])
def test_a_build_on_a_full_disk_says_so_and_goes_on_when_there_is_room(
    on_a_small_disk: Any, uninterrupted: Any, tmp_path: Path, but_kib: int
) -> None:
    course = on_a_small_disk(80)
    course.log = tmp_path / "said.txt"
    assert course.diet.is_file()
    fill(tmp_path / "disk", but_kib=but_kib)
    assert course.start().wait(600) == 2, course.said.read_text()
    require_a_line_and_a_cure(course, course.log)
    course.await_quiet()
    (tmp_path / "disk" / SPARE).unlink()
    if course.home.is_dir():
        course.require_whole()
    course.finish()
    assert course.contents() == uninterrupted.contents()


@pytest.mark.slow
@pytest.mark.parametrize("but_kib", [0, 5000])
def test_a_run_whose_checkpoint_finds_no_room_ends_and_goes_on_from_the_one_before(
    on_a_small_disk: Any, uninterrupted: Any, tmp_path: Path, but_kib: int
) -> None:
    course = on_a_small_disk(80)
    course.log = tmp_path / "said.txt"
    process = course.start()
    course.await_progress(int(uninterrupted.progress() * 0.45), "trainer", process)
    fill(tmp_path / "disk", but_kib=but_kib)
    assert process.wait(600) == 2, course.said.read_text()
    require_a_line_and_a_cure(course, course.log)
    course.await_quiet()
    (tmp_path / "disk" / SPARE).unlink()
    course.require_whole()
    course.finish()
    assert course.contents() == uninterrupted.contents()
