"""Access to a plan's rows by position or by a range of slots. Few row groups are read at a time."""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from schemas.errors import MixtureError
from schemas.mixture import PLAN_SCHEMA

Int64s = npt.NDArray[np.int64]
_NUMBERS = ("slot", "row_length", "shard", "row", "attention_pairs")
_COLUMNS = [*_NUMBERS, "rows_key", "pack_id"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRow:
    """Row at one position of a plan: the shard that it is in, and its number there."""

    slot: int
    row_length: int
    rows_key: str
    shard: int
    row: int
    pack_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedSlots:
    """Rows in a range of slots. Their positions are consecutive and begin with `start`."""

    start: int
    row_lengths: Int64s
    """Length of each row, [n]."""
    attention_pairs: Int64s
    """Number of attention pairs in each row, [n]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _PlanGroup:
    """Row group of a plan. Numbers are arrays; names are in their stored form."""

    numbers: dict[str, Int64s]
    """Array [n] of each column in `_NUMBERS`."""
    names: pa.Table


class PlanReader:
    """Reader of plan.parquet. Only a few row groups are in memory, however long the plan is."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise MixtureError(
                str(path), cause="the plan doesn't exist", cure="Mix the phase again"
            )
        self.path = path
        self._file = parquet.File(path)
        groups = [
            self._file.metadata.row_group(number)
            for number in range(self._file.metadata.num_row_groups)
        ]
        self._first_rows: Int64s = np.cumsum([0, *(group.num_rows for group in groups)])
        self._slots: Int64s = np.array(
            [_slots(path, group) for group in groups], dtype=np.int64
        ).reshape(-1, 2)
        self._group = functools.lru_cache(maxsize=4)(self._read)

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    def at(self, position: int) -> PlannedRow:
        """Return the row at a position."""
        group, index = parquet.place(self._first_rows, position)
        found = self._group(group)
        return PlannedRow(
            slot=int(found.numbers["slot"][index]),
            row_length=int(found.numbers["row_length"][index]),
            rows_key=found.names["rows_key"][index].as_py(),
            shard=int(found.numbers["shard"][index]),
            row=int(found.numbers["row"][index]),
            pack_id=found.names["pack_id"][index].as_py(),
        )

    def slots(self, first_slot: int, end_slot: int) -> PlannedSlots:
        """Return the rows of the slots from `first_slot` up to, but without, `end_slot`.

        Column statistics show which row groups have these slots, and only these are read.
        """
        start, end = self._position(first_slot), self._position(end_slot)
        first, last = (parquet.place(self._first_rows, row)[0] for row in (start, end - 1))
        groups = range(first, min(last + 1, len(self._slots)))

        def column(name: str) -> Int64s:
            pieces = [
                self._group(group).numbers[name][
                    max(start - int(self._first_rows[group]), 0) : end
                    - int(self._first_rows[group])
                ]
                for group in groups
            ]
            return np.concatenate([np.empty(0, np.int64), *pieces])

        return PlannedSlots(
            start=start,
            row_lengths=column("row_length"),
            attention_pairs=column("attention_pairs"),
        )

    def _position(self, slot: int) -> int:
        """Return the first position whose slot is `slot` or later."""
        group = int(np.searchsorted(self._slots[:, 1], slot))
        first = int(self._first_rows[group])
        if group == len(self._slots) or slot <= self._slots[group, 0]:
            return first
        return first + int(np.searchsorted(self._group(group).numbers["slot"], slot))

    def _read(self, group: int) -> _PlanGroup:
        table = self._file.read_row_group(
            group, columns=_COLUMNS, use_threads=False
        ).combine_chunks()
        return _PlanGroup(
            numbers={name: table[name].to_numpy().astype(np.int64) for name in _NUMBERS},
            names=table.select(["rows_key", "pack_id"]),
        )


def _slots(path: Path, group: pq.RowGroupMetaData) -> tuple[int, int]:
    """Return the first and last slot of a row group from its statistics. Slots increase with positions."""
    column = group.column(PLAN_SCHEMA.get_field_index("slot"))
    known = column.statistics if column.path_in_schema == "slot" else None
    first, last = (known.min, known.max) if known is not None else (None, None)
    if first is None or last is None:
        raise MixtureError(
            str(path),
            f"column {column.path_in_schema}",
            cause="the column statistics that locate a step's rows are missing",
            cure="Mix the phase again",
        )
    return int(first), int(last)
