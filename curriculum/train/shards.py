"""Rows of one artefact by number, for a trainer: only the columns it trains on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curriculum import parquet
from curriculum.model.structure import RowStructure
from curriculum.rows.read import GroupCache, RowBatch, RowReader
from curriculum.store.verify import read_pages
from schemas.errors import SchemaError
from schemas.structure import STRUCTURE_COLUMNS, STRUCTURE_TOKENS

Int32s = npt.NDArray[np.int32]
COLUMNS = ("pack_id", "input_ids", "loss_mask", "doc_ids", "valid_token_count", "attention_pairs")
"""target_ids is derived, which is faster than reading it."""
EVALUATION_COLUMNS = (*COLUMNS, "document_ids")
_STRUCTURE = tuple(field.name for field in STRUCTURE_COLUMNS)
_CHUNK = ("start", "end", "kind", "dep_level", "doc")
_EDGE = ("source", "target")


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
    structure: RowStructure | None = None
    """None unless asked for, and where the rows have none."""


class Shards:
    """The rows of an artefact by (shard, row).

    `structure` asks for the structure columns too, where the rows have them.
    """

    def __init__(
        self,
        folder: Path,
        columns: tuple[str, ...] = COLUMNS,
        cache: GroupCache | None = None,
        *,
        structure: bool = False,
    ) -> None:
        self.folder = folder
        self.files = sorted(folder.glob("part-*.parquet"))
        if structure and self.files and _has_structure(self.files[0]):
            columns = (*columns, *_STRUCTURE)
        self._reader = RowReader(self.files, columns=columns, cache=cache)

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
        values = read_pages(self.files[shard], ["domain"])["domain"]
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
        structure=_row_structure(batch) if batch.has(_STRUCTURE[0]) else None,
    )


def _has_structure(file: Path) -> bool:
    """Whether any of the columns is there: then all must be, and the reader says which isn't."""
    return not set(parquet.read_schema(file).names).isdisjoint(_STRUCTURE)


def _row_structure(batch: RowBatch) -> RowStructure:
    tokens = [batch.table[name][0].values.to_numpy() for name in STRUCTURE_TOKENS]
    return RowStructure(
        tokens=np.stack(tokens, axis=1),
        chunks=_fields(batch, "chunk_boundaries", _CHUNK),
        call_edges=_fields(batch, "call_edges", _EDGE),
        type_edges=_fields(batch, "type_edges", _EDGE),
    )


def _fields(batch: RowBatch, column: str, names: tuple[str, ...]) -> Int32s:
    """[n, fields] of the row's list of structs."""
    items = batch.table[column][0].values
    return np.stack([items.field(name).to_numpy() for name in names], axis=1)
