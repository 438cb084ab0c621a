"""A step of a long plan reads only its own row groups, once."""

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.train.dataloader import PlannedRows, steps_of
from curriculum.train.plan_reader import PlanReader
from schemas.errors import MixtureError
from schemas.mixture import PLAN_SCHEMA
from tests.error_fields import fields

GROUPS, GROUP = 96, 50


@pytest.fixture
def read_groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row groups that are read from now on, of any file."""
    read: list[int] = []
    whole = pq.ParquetFile.read_row_group

    def noted(self: pq.ParquetFile, number: int, *arguments: Any, **named: Any) -> Any:
        read.append(number)
        return whole(self, number, *arguments, **named)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    return read


def write_long_plan(path: Path) -> None:
    """Slots of one to three rows, in many row groups."""
    rows = GROUPS * GROUP
    lengths = np.random.default_rng(5).integers(1, 4, rows)
    slots = np.repeat(np.arange(rows), lengths)[:rows]
    columns: dict[str, Any] = {name: np.zeros(rows, np.int32) for name in PLAN_SCHEMA.names}
    names = {"rows_key": ["k"] * rows, "pack_id": [f"k-{each}" for each in range(rows)]}
    columns |= names | {"position": np.arange(rows), "slot": slots}
    columns["attention_pairs"] = 7 * np.arange(rows)
    pq.write_table(pa.table(columns, PLAN_SCHEMA), path, row_group_size=GROUP)


def test_a_look_up_reads_no_row_group_but_those_of_its_slots(
    tmp_path: Path, read_groups: list[int]
) -> None:
    write_long_plan(tmp_path / "plan.parquet")
    slots = pq.read_table(tmp_path / "plan.parquet")["slot"].to_numpy()
    read_groups.clear()
    for first in (0, 7, 1000, 1333, int(slots[-1]) - 9):
        found = PlanReader(tmp_path / "plan.parquet").slots(first, first + 10)
        mine = np.flatnonzero((slots >= first) & (slots < first + 10))
        assert (found.start, len(found.row_lengths)) == (mine[0], len(mine))
        assert np.array_equal(found.attention_pairs, 7 * mine)
        assert set(read_groups) <= set((mine // GROUP).tolist())
        assert len(read_groups) == len(set(read_groups))
        read_groups.clear()


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_step_is_looked_up_once(world: Any, monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    looked: collections.Counter[int] = collections.Counter()
    slots = PlanReader.slots

    def noted(self: PlanReader, first_slot: int, end_slot: int) -> Any:
        looked[first_slot] += 1
        return slots(self, first_slot, end_slot)

    monkeypatch.setattr(PlanReader, "slots", noted)
    job = world.job(steps=5)
    rows = PlannedRows.from_job(job, world.store.root)
    steps = list(steps_of(job, rows, first_step=1, workers=0, ranks=ranks))
    assert len(steps) == 4
    assert [*looked.values()] == [1] * 4


def test_a_plan_without_statistics_of_slots_is_refused(tmp_path: Path) -> None:
    write_long_plan(tmp_path / "whole.parquet")
    table = pq.read_table(tmp_path / "whole.parquet")
    pq.write_table(table, tmp_path / "plan.parquet", write_statistics=["position"])
    with pytest.raises(MixtureError, check=fields(value="column slot")):
        PlanReader(tmp_path / "plan.parquet")
