"""The mixture plan as a trainer reads it: by slot and by position, a row group at a time."""

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
_COLUMNS = ["position", "slot", "row_length", "rows_key", "shard", "row", "pack_id"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRow:
    """Where the row at one position of a plan lies."""

    row_length: int
    rows_key: str
    shard: int
    row: int
    pack_id: str


class Plan:
    """plan.parquet; memory holds a few row groups whatever the plan's length."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise MixtureError(str(path), cause="there is no plan", cure="Mix the phase again")
        self.path = path
        self._file = parquet.File(path)
        groups = [
            self._file.metadata.row_group(each)
            for each in range(self._file.metadata.num_row_groups)
        ]
        self._ends: Int64s = np.cumsum([group.num_rows for group in groups])
        self._slots: Int64s = np.array(
            [_slots(path, group) for group in groups], dtype=np.int64
        ).reshape(-1, 2)
        self._group = functools.lru_cache(maxsize=4)(self._read)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def at(self, position: int) -> PlannedRow:
        """The row at a position."""
        group = int(np.searchsorted(self._ends, position, side="right"))
        table = self._group(group)
        index = position - self._first(group)
        values = {name: table[name][index].as_py() for name in table.schema.names[2:]}
        return PlannedRow(**values)

    def lengths(self, first_slot: int, end_slot: int) -> tuple[int, Int64s]:
        """The first position of a range of slots, and the row length at each of its positions.

        Only the row groups that hold them are read, as the statistics of all say.
        """
        start, end = self._position(first_slot), self._position(end_slot)
        group_of = np.searchsorted(self._ends, [start, end - 1], side="right")
        pieces = []
        for group in range(int(group_of[0]), min(int(group_of[1]) + 1, len(self._ends))):
            first = self._first(group)
            column = self._group(group)["row_length"].to_numpy()
            pieces.append(column[max(start - first, 0) : end - first])
        return start, np.concatenate(pieces) if pieces else np.empty(0, np.int64)

    def _position(self, slot: int) -> int:
        """The first position whose slot is `slot` or later."""
        group = int(np.searchsorted(self._slots[:, 1], slot))
        if group == len(self._ends):
            return len(self)
        if slot <= self._slots[group, 0]:
            return self._first(group)
        slots = self._group(group)["slot"].to_numpy()
        return self._first(group) + int(np.searchsorted(slots, slot))

    def _first(self, group: int) -> int:
        return int(self._ends[group - 1]) if group else 0

    def _read(self, group: int) -> pa.Table:
        return self._file.read_row_group(
            group, columns=_COLUMNS, use_threads=False
        ).combine_chunks()


def _slots(path: Path, group: pq.RowGroupMetaData) -> tuple[int, int]:
    """The first and the last slot of a row group, from its statistics; slots rise with positions."""
    column = group.column(PLAN_SCHEMA.get_field_index("slot"))
    known = column.statistics if column.path_in_schema == "slot" else None
    first, last = (known.min, known.max) if known is not None else (None, None)
    if first is None or last is None:
        raise MixtureError(
            str(path),
            f"column {column.path_in_schema}",
            cause="there are no statistics of slots, by which a step is found",
            cure="Mix the phase again",
        )
    return int(first), int(last)
