"""Metrics that came with somebody else's run are read within a limit."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.cli.inspect.runs import _losses
from schemas.errors import CurriculumError


def test_losses_of_some_kilobytes_that_unpack_to_much_more_are_refused_by_name(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "metrics"
    folder.mkdir()
    honest = pa.table({"step": [1, 2], "loss": [2.5, 2.25]})
    pq.write_table(honest, folder / "0000000001.parquet")
    assert _losses(tmp_path) == [2.5, 2.25]
    zeros = np.zeros(16 << 20, np.int64)
    many = pa.table({"step": zeros, "loss": zeros.astype(np.float64)})
    pq.write_table(many, folder / "0000000003.parquet", compression="zstd")
    assert (folder / "0000000003.parquet").stat().st_size < many.nbytes / 100
    with pytest.raises(CurriculumError, match="0000000003"):
        _losses(tmp_path)
