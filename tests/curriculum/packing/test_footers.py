"""Row groups read by a footer that is cut, and the files that stay open with whole ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.packing.read import Footers, GroupFile, require_same_groups
from schemas.errors import StoreError

Written = Any
COLUMNS = ["id", "text", "many"]


def write(path: Path, groups: int, **options: Any) -> pa.Table:
    """Row groups of three rows, and a last one of two; numbers and words of many lengths."""
    rows = 3 * groups - 1
    random = np.random.default_rng(groups)
    table = pa.table(
        {
            "id": np.cumsum(random.integers(0, 1 << 40, rows)),
            "text": ["é" * int(each) for each in random.integers(0, 90, rows)],
            "many": [random.integers(0, 9, int(each)) for each in random.integers(0, 40, rows)],
            "unread": random.normal(size=rows),
        }
    )
    pq.write_table(table, path, row_group_size=3, **options)
    return table


def require_same(file: GroupFile, table: pa.Table) -> None:
    for group in reversed(range(len(file.first_rows) - 1)):
        start, end = file.first_rows[group : group + 2].tolist()
        found = file.read(group, COLUMNS)
        assert found.equals(table.select(COLUMNS).slice(start, end - start)), group


@pytest.mark.parametrize("groups", [1, 2, 14, 15, 16, 127, 128, 300])
def test_a_cut_footer_gives_the_rows_of_a_whole_one(tmp_path: Path, groups: int) -> None:
    path = tmp_path / "file.parquet"
    table = write(path, groups, compression="zstd")
    (cut, schema), (whole, _) = Footers(max_files=0).open(path), Footers().open(path)
    assert schema.equals(table.schema)
    assert (cut._open, whole._cut) == (None, None)
    assert cut._cut is not None
    require_same(cut, table)
    require_same(whole, table)


@pytest.mark.parametrize(
    "options",
    [
        {"write_statistics": False, "store_schema": False},
        {"sorting_columns": [pq.SortingColumn(0)]},
        {"version": "1.0", "use_dictionary": False, "compression": "none"},
        {"write_page_index": True, "write_page_checksum": True},
    ],
)
def test_footers_that_others_write_are_cut_or_read_whole(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "file.parquet"
    table = write(path, 20, **options)
    require_same(Footers(max_files=0).open(path)[0], table)


def test_footers_of_rows_can_be_cut(written: Written) -> None:
    for path in written.folder.glob("data/part-*.parquet"):
        assert Footers(max_files=0).open(path)[0]._cut is not None


def test_files_stay_open_while_their_number_and_their_footers_allow_it(tmp_path: Path) -> None:
    files = [tmp_path / f"{each}.parquet" for each in range(6)]
    for file in files:
        write(file, 30)
    size = 10 * pq.read_metadata(files[0]).serialized_size
    before = len([*Path("/proc/self/fd").iterdir()])
    few, small = Footers(max_files=2), Footers(limit=3 * size + size // 2)
    found = [[footers.open(file)[0] for file in files] for footers in (few, small)]
    assert [[each._open is not None for each in listed] for listed in found] == [
        [True, True, *[False] * 4],
        [True, True, True, *[False] * 3],
    ]
    assert len([*Path("/proc/self/fd").iterdir()]) - before == 5
    assert small.num_bytes <= 3 * size + size // 2


def test_a_file_that_changed_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    write(path, 20)
    cut, _ = Footers(max_files=0).open(path)
    write(path, 40)
    with pytest.raises((StoreError, AssertionError)):
        require_same(cut, write(tmp_path / "other.parquet", 20))


@pytest.mark.parametrize("groups", [1, 15, 300])
def test_groups_of_our_footers_are_found(tmp_path: Path, groups: int) -> None:
    path = tmp_path / "part.parquet"
    write(path, groups)
    require_same_groups(path)


def test_a_column_whose_name_looks_like_row_groups_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    table = pa.table({b"\x19\x2c\x19\x1c".decode() + "ids": range(6)})
    pq.write_table(table, path, row_group_size=3, store_schema=False)
    with pytest.raises((StoreError, OSError)):
        require_same_groups(path)
