"""Columns of a table from flat arrays: lists, and values filled up to whole rows."""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from curriculum.rows.layout import Layout
from curriculum.rows.ragged import Int64s, Values
from schemas.arrow import list_of

ArrowArray: TypeAlias = "pa.Array[Any]"


def lists(items: ArrowArray, counts: Int64s, kind: pa.DataType) -> ArrowArray:
    """Items end to end as lists of `counts` items each."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    listed: ArrowArray = pa.ListArray.from_arrays(
        pa.array(offsets, type=pa.int32()), items, type=list_of(kind)
    )
    return listed


def padded(values: Values, layout: Layout, fill: int) -> Values:
    """[d] documents end to end become [n·T], filled up row by row."""
    rows = np.full((len(layout.valid), layout.row_length), fill, dtype=values.dtype)
    ends = np.cumsum(layout.valid).tolist()
    start = 0
    for row, end in enumerate(ends):
        rows[row, : end - start] = values[start:end]
        start = end
    return rows.reshape(-1)
