import doctest
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.packing import windows
from curriculum.packing.read import read_rows
from curriculum.packing.windows import window_hashes, write_windows
from curriculum.parquet import shards_of
from schemas.windows import WINDOW_TOKENS, WINDOWS_NAME, standard_error

FEW = st.lists(st.integers(0, 2), min_size=1, max_size=60)
CUTS = st.sets(st.integers(1, 59), max_size=5)
Window = tuple[int, ...]


def test_examples_in_docstrings_hold() -> None:
    done = doctest.testmod(windows)
    assert done.attempted
    assert not done.failed


def naive(ids: list[int], starts: list[int], width: int) -> list[Window]:
    """The tokens of each window, written out; -1 stands for what is before a document."""
    found = []
    for at in range(len(ids)):
        start = max(first for first in starts if first <= at)
        inside = ids[max(start, at + 1 - width) : at + 1]
        found.append((*[-1] * (width - len(inside)), *inside))
    return found


@given(FEW, CUTS, st.sampled_from([1, 2, 4, 16]))
def test_windows_share_a_hash_where_their_tokens_are_equal_and_nowhere_else(
    ids: list[int], cuts: set[int], width: int
) -> None:
    starts = [0, *sorted(cut for cut in cuts if cut < len(ids))]
    hashes = window_hashes(np.array(ids), np.array(starts, dtype=np.int64), width=width)
    written_out = naive(ids, starts, width)
    equal = [[one == other for other in written_out] for one in written_out]
    assert (hashes[:, None] == hashes).tolist() == equal


@pytest.fixture
def packed(tmp_path: Path, kit: Any) -> Path:
    """Rows of documents some of which have the same tokens."""
    copies = [
        replace(kit.encoding(90, number % 30), document_id=f"{number:032x}") for number in range(40)
    ]
    folder: Path = kit.write(tmp_path / "rows", copies).folder
    return folder


def scored_windows(folder: Path) -> dict[str, set[Window]]:
    """The windows of the scored positions of each row, by a loop over its tokens."""
    found: dict[str, set[Window]] = {}
    batches = read_rows(shards_of(folder), ["pack_id", "input_ids", "loss_mask", "doc_starts"])
    rows = [row for batch in batches for row in batch.table.to_pylist()]
    for row in rows:
        written_out = naive(row["input_ids"], row["doc_starts"], WINDOW_TOKENS)
        scored = [at for at, counts in enumerate(row["loss_mask"]) if counts]
        found[row["pack_id"]] = {written_out[at + 1] for at in scored}
    return found


def test_the_file_holds_the_different_windows_of_each_row(packed: Any) -> None:
    expected = scored_windows(packed)
    report = write_windows(packed, scored=1000)
    table = pq.read_table(packed / WINDOWS_NAME)
    lines = list(zip(table["pack_id"].to_pylist(), table["hash"].to_pylist(), strict=True))
    assert lines == sorted(set(lines))
    assert {row: sum(line[0] == row for line in lines) for row in expected} == {
        row: len(some) for row, some in expected.items()
    }
    assert report.distinct == len(set().union(*expected.values())) == len({h for _, h in lines})
    assert len(lines) > report.distinct, "some window stands in two rows"


def test_a_lower_threshold_keeps_a_part_of_the_same_hashes(
    packed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_windows(packed, scored=1000)
    whole = pq.read_table(packed / WINDOWS_NAME)
    monkeypatch.setattr(windows, "MAX_SAMPLED", 250)
    report = write_windows(packed, scored=1000)
    part = pq.read_table(packed / WINDOWS_NAME)
    below = whole.filter(np.array(whole["hash"]) < 2**62)
    assert part["pack_id"].equals(below["pack_id"])
    assert part["hash"].equals(below["hash"])
    assert set(part["halvings"].to_pylist()) == {report.halvings} == {2}
    assert 0 < len(part) < len(whole)


@pytest.mark.parametrize("seed", range(10))
def test_an_estimate_is_within_three_standard_errors(seed: int) -> None:
    ids = np.random.default_rng(seed).integers(0, 3000, 200_000)
    hashes = np.unique(window_hashes(ids, np.array([0])))
    for halvings in (1, 3, 6):
        kept = int((hashes >> np.uint64(64 - halvings) == 0).sum())
        error = standard_error(kept, halvings)
        assert 0 < abs((kept << halvings) - len(hashes)) < 3 * error
