"""Rows of one artefact by number, for a trainer: only the columns it trains on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from curriculum.rows.read import RowBatch, RowReader
from schemas.errors import SchemaError

Int32s = npt.NDArray[np.int32]
COLUMNS = ("pack_id", "input_ids", "loss_mask", "doc_ids", "valid_token_count", "attention_pairs")
"""target_ids is derived, which is faster than reading it."""
EVALUATION_COLUMNS = (*COLUMNS, "document_ids")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A packed row as a trainer sees it; arrays are [T]."""

    pack_id: str
    input_ids: Int32s
    target_ids: Int32s
    loss_mask: npt.NDArray[np.uint8]
    doc_ids: Int32s
    valid_token_count: int
    attention_pairs: int
    document_ids: tuple[str, ...]
    """Empty unless asked for: evaluation reads them."""


class Shards:
    """The rows of an artefact by (shard, row)."""

    def __init__(self, folder: Path, columns: tuple[str, ...] = COLUMNS) -> None:
        self.folder = folder
        self.files = sorted(folder.glob("part-*.parquet"))
        self._reader = RowReader(self.files, columns=columns)

    def row(self, shard: int, row: int) -> Row:
        """Row `row` of file part-<shard>.

        Raises:
            SchemaError: for a shard or a row that isn't there.
        """
        if shard >= len(self.files) or row >= self._reader.num_rows(shard):
            raise SchemaError(
                str(self.folder),
                f"row {row} of shard {shard}",
                cause="there is no such row",
                cure="Mix again: the plan and its rows don't belong together",
            )
        return _row(self._reader.row(shard, row))

    def domains(self, shard: int) -> list[str]:
        """The domain of every row of a shard, in order."""
        values = pq.read_table(self.files[shard], columns=["domain"], partitioning=None)["domain"]
        return [str(value) for value in values.to_pylist()]


def _row(batch: RowBatch) -> Row:
    return Row(
        pack_id=str(batch.table["pack_id"][0]),
        input_ids=batch.input_ids[0],
        target_ids=batch.target_ids[0],
        loss_mask=batch.loss_mask[0],
        doc_ids=batch.doc_ids[0],
        valid_token_count=int(batch.integers("valid_token_count")[0]),
        attention_pairs=int(batch.integers("attention_pairs")[0]),
        document_ids=tuple(batch.document_ids()[0]) if batch.has("document_ids") else (),
    )
