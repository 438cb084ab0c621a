"""A tokens artefact of somebody else: offsets that lead elsewhere are refused before anything is sliced."""

from pathlib import Path

import numpy as np
import pytest

from curriculum.tokens.token_store import TokenStore
from schemas.errors import SchemaError


def written(folder: Path, offsets: list[int], ids: int, cut: int = 0) -> Path:
    data = np.array(offsets, dtype="<i8").tobytes()
    (folder / "offsets.bin").write_bytes(data[: len(data) - cut])
    (folder / "tokens.bin").write_bytes(np.zeros(ids, dtype="<u2").tobytes())
    return folder


def test_offsets_that_rise_to_the_number_of_ids_are_read(tmp_path: Path) -> None:
    assert TokenStore.open(written(tmp_path, [0, 3, 3, 8], 8)).tokens(2).tolist() == [0] * 5


@pytest.mark.parametrize(
    ("offsets", "ids", "cut"),
    [
        ([0, 3, 8], 7, 0),
        ([0, 3, 8], 0, 0),
        ([0, 3, 2**62], 8, 0),
        ([0, -(2**63), 2**63 - 1, 8], 8, 0),
        ([0, 9, 8], 8, 0),
        ([1, 8], 8, 0),
        ([0, 8], 8, 3),
        ([], 8, 0),
    ],
)
def test_other_offsets_are_refused(tmp_path: Path, offsets: list[int], ids: int, cut: int) -> None:
    with pytest.raises(SchemaError, match=r"(offsets|tokens)\.bin"):
        TokenStore.open(written(tmp_path, offsets, ids, cut))
