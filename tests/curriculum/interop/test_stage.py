"""Rows are taken from staged shards as they lay in them, whatever the order and however long they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.interop.row_order import DecodedShard, stage, take_rows

SCHEMA = pa.schema(
    [
        ("pack_id", pa.string()),
        ("input_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.uint8())),
        ("pieces", pa.list_(pa.struct([("doc", pa.int32())]))),
    ],
    metadata={"row_length": "4"},
)


def lines(shard: int, length: int, rows: int) -> list[dict[str, Any]]:
    """Rows of a shard that no other shard has; of their pieces there are none, one, two."""
    return [
        {
            "pack_id": f"{shard}-{row}",
            "input_ids": [1000 * shard + 10 * row + at for at in range(length)],
            "loss_mask": [(row + at) % 2 for at in range(length)],
            "pieces": [{"doc": at} for at in range(row % 3)],
        }
        for row in range(rows)
    ]


def staged(folder: Path, shards: Sequence[tuple[int, list[int]]]) -> list[DecodedShard]:
    """Shards of one length each, in batches of so many rows."""
    found = []
    for number, (length, batches) in enumerate(shards):
        table = pa.Table.from_pylist(lines(number, length, sum(batches)), schema=SCHEMA)
        starts = np.cumsum([0, *batches]).tolist()
        tables = [table.slice(start, rows) for start, rows in zip(starts, batches, strict=False)]
        found.append(stage(tables, SCHEMA, folder / f"shard-{number}"))
    return found


@given(st.data())
def test_any_rows_come_in_any_order_as_they_lay(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    one = st.tuples(st.integers(1, 5), st.lists(st.integers(1, 4), min_size=1, max_size=3))
    shards = data.draw(st.lists(one, min_size=1, max_size=3))
    there = [(shard, row) for shard, (_, sizes) in enumerate(shards) for row in range(sum(sizes))]
    wanted = data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=12))
    numbers, rows = (np.array(each, dtype=np.int64) for each in zip(*wanted, strict=True))
    folder = tmp_path_factory.mktemp("staged")
    found = take_rows(staged(folder, shards), numbers, rows, SCHEMA)
    held = [lines(number, length, sum(sizes)) for number, (length, sizes) in enumerate(shards)]
    assert found.to_pylist() == [held[shard][row] for shard, row in wanted]
    assert found.schema.equals(SCHEMA, check_metadata=True)
    assert {column.num_chunks for column in found.columns} == {1}
