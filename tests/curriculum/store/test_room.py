"""A full disk is told from every other error of the system."""

import errno
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from curriculum.store import no_room


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_said_with_what_to_do(number: int) -> None:
    full = no_room(OSError(number, os.strerror(number), "/work/part"))
    assert full is not None
    assert str(full).startswith(f"/work/part: {os.strerror(number)}; nothing more could be written")
    assert full.cure.startswith("Make room")


def test_numpy_gives_no_number_but_is_understood(tmp_path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, resource.RLIM_INFINITY))
    try:
        with pytest.raises(OSError, match="requested and") as failed:
            np.zeros(1 << 20, np.uint8).tofile(tmp_path / "part")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    full = no_room(failed.value)
    assert full is not None
    assert "No space left on device" in str(full)


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.EIO])
def test_no_other_error_is_taken_for_one(number: int) -> None:
    assert no_room(OSError(number, os.strerror(number))) is None
