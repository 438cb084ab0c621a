import errno
import resource
from pathlib import Path

import polars as pl
import pytest

from curriculum.supply.sampled_documents import write_frame


def test_a_table_that_finds_no_room_is_the_systems_error(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    frame = pl.select(pl.int_range(3 << 20).shuffle(seed=1).alias("numbers"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, hard))
    try:
        with pytest.raises(OSError, match="File too large") as failed:
            write_frame(frame, tmp_path / "frame.parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failed.value.errno == errno.EFBIG
    write_frame(frame, tmp_path / "frame.parquet")
    frame.write_parquet(tmp_path / "other.parquet")
    assert pl.read_parquet(tmp_path / "frame.parquet").equals(frame)
    names = ("frame.parquet", "other.parquet")
    assert len({(tmp_path / name).read_bytes() for name in names}) == 1
