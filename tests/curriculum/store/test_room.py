"""A full disk is told from every other error of the system."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.store import Recipe, Store, no_room, refusal
from schemas.errors import StoreError


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_said_with_what_to_do(number: int) -> None:
    full = no_room(OSError(number, os.strerror(number), "/data/part"))
    assert full is not None
    assert str(full).startswith(f"/data/part: {os.strerror(number)}; ")
    assert "space" in full.cure


def test_numpy_gives_no_number_but_is_understood(tmp_path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, resource.RLIM_INFINITY))
    try:
        with pytest.raises(OSError, match="requested and") as failed:
            np.zeros(1 << 20, np.uint8).tofile(tmp_path / "part")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    full = no_room(failed.value)
    assert full is not None
    assert os.strerror(errno.ENOSPC) in str(full)


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.EIO])
def test_no_other_error_is_taken_for_one(number: int) -> None:
    assert no_room(OSError(number, os.strerror(number))) is None


NAMED = {
    errno.ENOSPC: "nothing more could be written",
    errno.EDQUOT: "nothing more could be written",
    errno.EACCES: "this user has no permission for it",
    errno.EROFS: "read-only",
    errno.ENOENT: "doesn't exist",
    errno.ENAMETOOLONG: "too long for the file system",
    errno.EMFILE: "too many files open",
    errno.EIO: "the disk or its connection failed",
}


@pytest.mark.parametrize("number", NAMED)
def test_an_error_while_something_is_made_is_named_as_what_it_is(
    tmp_path: Path, number: int
) -> None:
    def fail(_: object) -> None:
        raise OSError(number, os.strerror(number), "/data/part")

    recipe = Recipe(stage="rows", labels=(), revision=1)
    with pytest.raises(StoreError) as told:
        Store(tmp_path).produce([recipe], fail)
    assert str(told.value).startswith(f"/data/part: {os.strerror(number)}; ")
    assert NAMED[number] in told.value.cause
    assert ("space" in told.value.cure) == (number in (errno.ENOSPC, errno.EDQUOT))
    assert ("disk" in str(told.value)) == (number == errno.EIO)


@pytest.mark.parametrize("error", [ConnectionRefusedError, TimeoutError, BrokenPipeError])
def test_an_error_that_is_not_of_a_file_is_left_as_it_is(
    tmp_path: Path, error: type[OSError]
) -> None:
    def fail(_: object) -> None:
        raise error(errno.ECONNREFUSED, "refused")

    with pytest.raises(OSError, match="refused") as told:
        Store(tmp_path).produce([Recipe(stage="rows", labels=(), revision=1)], fail)
    assert not isinstance(told.value, StoreError)
    assert refusal(told.value, tmp_path) is None


@pytest.mark.parametrize(
    ("write", "cause"),
    [
        (lambda folder: (folder / ("x" * 300)).touch(), "too long for the file system"),
        (lambda folder: (folder / "none" / "x").touch(), "doesn't exist"),
        (lambda folder: pq.read_table(folder / "none.parquet"), "doesn't exist"),
        (lambda folder: pq.write_table(pa.table({"a": [1]}), folder / "no/x"), "doesn't exist"),
        (lambda folder: pq.read_table(folder / ("x" * 300)), "too long for the file system"),
    ],
)
def test_what_the_system_and_pyarrow_raise_is_understood(
    tmp_path: Path, write: Callable[[Path], object], cause: str
) -> None:
    with pytest.raises(OSError, match=r"none|no/x|xxx") as failed:
        write(tmp_path)
    named = refusal(failed.value, tmp_path)
    assert named is not None
    assert cause in named.cause
    assert str(tmp_path) in str(named)
