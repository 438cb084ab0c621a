"""Access to the rows of a plan, and batches: the tensors that models read and trainers count.

rows        [5 6 7 8 9] of documents [5 6 7] [8 9], all predictions within a document scored
input_ids   [[5 6 7 8 9]]      doc_ids      [[0 0 0 1 1]]
target_ids  [[6 7 0 9 0]]      position_ids [[0 1 2 0 1]]
loss_mask   [[1 1 0 1 0]]      cu_seqlens   [0 3 5]
labels      [[-100 6 7 -100 9]]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum import parquet
from curriculum.model.masks import Boundaries, map_tensors
from curriculum.model.structure_tensors import RowStructure, StructureTensors
from curriculum.packing.packed_rows import RowBatch
from curriculum.packing.read import GroupCache, RowReader
from curriculum.parquet import shards_of
from schemas.errors import SchemaError
from schemas.structure import STRUCTURE_COLUMNS, STRUCTURE_TOKENS

Int32s = npt.NDArray[np.int32]
COLUMNS = ("pack_id", "input_ids", "loss_mask", "doc_ids", "valid_token_count", "attention_pairs")
"""Columns that are read from files. target_ids is computed instead, which is faster."""
EVALUATION_COLUMNS = (*COLUMNS, "document_ids")
_STRUCTURE = tuple(field.name for field in STRUCTURE_COLUMNS)
_EDGE = ("source", "target")
_LISTS = (
    ("chunk_boundaries", ("start", "end", "kind", "dep_level", "doc")),
    ("call_edges", _EDGE),
    ("type_edges", _EDGE),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Packed row for training. Its arrays have the shape [T]."""

    pack_id: str
    input_ids: Int32s
    target_ids: Int32s
    loss_mask: npt.NDArray[np.uint8]
    doc_ids: Int32s
    valid_token_count: int
    attention_pairs: int
    document_ids: tuple[str, ...]
    """Ids of the row's documents. Empty unless they were requested, which evaluation does."""
    structure: RowStructure | None = None
    """Structure of the row. None if it wasn't requested, or if the rows have no structure."""


class Shards:
    """Rows of an artefact by (shard, row). With `structure`, rows include the stored structure columns."""

    def __init__(
        self,
        folder: Path,
        columns: tuple[str, ...] = COLUMNS,
        cache: GroupCache | None = None,
        *,
        structure: bool = False,
    ) -> None:
        self.folder = folder
        self.files = shards_of(folder)
        # If any structure column is stored, all are requested, so that the reader reports missing ones.
        if (
            structure
            and self.files
            and not set(_STRUCTURE).isdisjoint(parquet.read_schema(self.files[0]).names)
        ):
            columns = (*columns, *_STRUCTURE)
        self._columns = columns
        self._cache = cache or GroupCache()
        self._reader = RowReader(self.files, columns=columns, cache=self._cache)

    def row(self, shard: int, row: int) -> Row:
        """Return row `row` of the shard data/part-<shard>. Its arrays are views into its row group's arrays.

        Raises:
            SchemaError: for a shard or a row that doesn't exist.
        """
        if shard >= len(self.files) or row >= self._reader.num_rows(shard):
            cure = "Mix again, because the plan doesn't match its rows"
            raise self._missing(f"row {row} of shard {shard}", cure)
        group, at = self._reader.place(shard, row)
        key = (RowGroup, self.files[shard], self._columns, group)
        return self._cache.get(
            key, lambda: RowGroup.from_batch(self._reader.group(shard, group))
        ).row(at)

    def place(self, number: int) -> tuple[int, int]:
        """Convert the number of a row among all shards' rows to its shard and its number in the shard.

        Raises:
            SchemaError: for a row that doesn't exist.
        """
        row = number
        for shard in range(len(self.files)):
            if row < (size := self._reader.num_rows(shard)):
                return shard, row
            row -= size
        cure = "Build the rows again, and start a new run of the phase"
        raise self._missing(f"row {number}", cure)

    def _missing(self, row: str, cure: str) -> SchemaError:
        return SchemaError(str(self.folder), row, cause="the row doesn't exist", cure=cure)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowGroup:
    """Rows of a Parquet row group as arrays [n, T]. Columns with one value per row are arrays [n]."""

    pack_ids: tuple[str, ...]
    input_ids: Int32s
    target_ids: Int32s
    loss_mask: npt.NDArray[np.uint8]
    doc_ids: Int32s
    valid_token_counts: tuple[int, ...]
    attention_pairs: tuple[int, ...]
    document_ids: tuple[tuple[str, ...], ...] | None
    """Ids of each row's documents. None unless they were requested."""
    structure: "GroupStructure | None"
    """Structure of the rows. None if it wasn't requested, or if the rows have no structure."""
    nbytes: int
    """Bytes of the stored columns and of the targets. Most arrays are views of the stored columns."""

    @staticmethod
    def from_batch(batch: RowBatch) -> "RowGroup":
        """Convert all rows of a batch to arrays. Targets and document ids that aren't stored are computed."""
        listed = batch.document_ids() if batch.has("document_ids") else None
        targets = batch.target_ids
        return RowGroup(
            pack_ids=tuple(map(str, batch.table["pack_id"].to_pylist())),
            input_ids=batch.input_ids,
            target_ids=targets,
            loss_mask=batch.loss_mask,
            doc_ids=batch.doc_ids,
            valid_token_counts=tuple(batch.scalars("valid_token_count").tolist()),
            attention_pairs=tuple(batch.scalars("attention_pairs").tolist()),
            document_ids=None if listed is None else tuple(map(tuple, listed)),
            structure=GroupStructure.from_batch(batch) if batch.has(_STRUCTURE[0]) else None,
            nbytes=batch.nbytes + targets.nbytes,
        )

    def row(self, at: int) -> Row:
        """Return the row at an index of the group."""
        return Row(
            pack_id=self.pack_ids[at],
            input_ids=self.input_ids[at],
            target_ids=self.target_ids[at],
            loss_mask=self.loss_mask[at],
            doc_ids=self.doc_ids[at],
            valid_token_count=self.valid_token_counts[at],
            attention_pairs=self.attention_pairs[at],
            document_ids=() if self.document_ids is None else self.document_ids[at],
            structure=None if self.structure is None else self.structure.row(at),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupStructure:
    """Structure of a row group: one array with values per token, and lists of chunks and edges."""

    tokens: npt.NDArray[np.uint8]
    """Codes of the tokens, [n, T, 5]. Each of the 5 columns has one value per token."""
    lists: tuple[tuple[Int32s, npt.NDArray[np.int64]], ...]
    """Chunks, call edges and type edges of all rows.

    Each is a pair of the items [items, fields], and the limits between the rows' items [n + 1].
    """

    @staticmethod
    def from_batch(batch: RowBatch) -> "GroupStructure":
        """Convert the structure of all rows of a batch."""
        lists = []
        for column, names in _LISTS:
            items = batch.items(column)
            values = np.stack([items.field(name).to_numpy() for name in names], axis=1)
            lists.append((values, batch.offsets(column)))
        return GroupStructure(
            tokens=np.stack([batch.tokens(name) for name in STRUCTURE_TOKENS], axis=2),
            lists=tuple(lists),
        )

    def row(self, at: int) -> RowStructure:
        """Return the structure of the row at an index of the group."""
        chunks, calls, types = (items[edges[at] : edges[at + 1]] for items, edges in self.lists)
        return RowStructure(
            tokens=self.tokens[at], chunks=chunks, call_edges=calls, type_edges=types
        )


IGNORED = -100
"""Label of positions that Hugging Face losses ignore."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Rows of one length. All tensors are [B, T], except cu_seqlens in the boundaries."""

    input_ids: Tensor
    target_ids: Tensor
    loss_mask: Tensor
    boundaries: Boundaries
    structure: StructureTensors | None
    """Structure of the batch. None if no row has structure, or the model doesn't read it."""
    pack_ids: tuple[str, ...]
    document_ids: tuple[tuple[str, ...], ...]
    documents: int
    valid_tokens: int
    attention_pairs: int
    """Number of token pairs that attention computes, not counting padding."""
    masked: bool = True
    """False in those steps of a study that train without document masks.

    Boundaries then join a row's documents.
    """

    @property
    def positions(self) -> int:
        """Number of positions in the batch, B·T."""
        return self.input_ids.numel()

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors under the names that other trainers expect.

        input_ids, target_ids, loss_mask, doc_ids and position_ids are [B, T]. cu_seqlens [S + 1] has the
        segment edges of the concatenated rows. Rows with structure also have structure [B, T, 5],
        structure_chunks [B, T] and structure_relations [B, C, C].
        """
        found = {
            "input_ids": self.input_ids,
            "target_ids": self.target_ids,
            "loss_mask": self.loss_mask,
            "doc_ids": self.boundaries.doc_ids,
            "position_ids": self.boundaries.position_ids,
            "cu_seqlens": self.boundaries.cu_seqlens,
        }
        if self.structure is not None:
            found["structure"] = self.structure.tokens
            found["structure_chunks"] = self.structure.chunks
            found["structure_relations"] = self.structure.relations
        return found

    def labels(self) -> Tensor:
        """Return the targets in the form that Hugging Face models expect, int64 [B, T].

        These models shift the labels themselves. Therefore, a label is at the position of the predicted
        token, and all other positions have −100: ids [5 6 7 8 9] with loss_mask [1 1 0 1 0] -> [-100 6 7 -100
        9].
        """
        is_scored = F.pad(self.loss_mask[:, :-1].bool(), (1, 0))
        return torch.where(is_scored, self.input_ids.long(), IGNORED)

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to another device."""
        return map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """Copy the batch to pinned memory, from which copies to a GPU are asynchronous.

        DataLoader calls this.
        """
        return map_tensors(self, Tensor.pin_memory)


def blank(batch: Batch) -> Batch:
    """Return a copy of the batch without targets. Its loss and gradients are exactly 0."""
    return replace(
        batch,
        loss_mask=torch.zeros_like(batch.loss_mask),
        pack_ids=(),
        document_ids=(),
        documents=0,
        valid_tokens=0,
        attention_pairs=0,
    )


def collate(rows: Sequence[Row], *, masked: bool = True, restart: bool = True) -> Batch:
    """Combine rows of one length to a batch, with checked boundaries.

    Only studies set `masked` or `restart` to False. Without `masked`, the boundaries join the documents of
    each row. Without `restart`, rotations don't restart at documents. Padding is always separate, and targets
    are always the same.
    """
    boundaries = Boundaries.from_doc_ids(torch.from_numpy(np.stack([row.doc_ids for row in rows])))
    pairs = sum(row.attention_pairs for row in rows)
    if not (masked and restart):
        # The tokens of each row become one document, and its padding a second document:
        # doc_ids [0 0 1 1 1 2 2] of 5 valid tokens -> [0 0 0 0 0 1 1].
        valid_B1 = torch.tensor([[row.valid_token_count] for row in rows])
        joined = Boundaries.from_doc_ids((torch.arange(len(rows[0].doc_ids)) >= valid_B1).int())
        counted = boundaries if restart else joined
        if not masked:
            boundaries = joined
            pairs = sum(row.valid_token_count * (row.valid_token_count + 1) // 2 for row in rows)
        if counted is not boundaries:
            boundaries = replace(boundaries, rotated_by=counted.position_ids)
    return Batch(
        input_ids=torch.from_numpy(np.stack([row.input_ids for row in rows])),
        target_ids=torch.from_numpy(np.stack([row.target_ids for row in rows])),
        loss_mask=torch.from_numpy(np.stack([row.loss_mask for row in rows])),
        boundaries=boundaries,
        structure=StructureTensors.from_rows([row.structure for row in rows]),
        pack_ids=tuple(row.pack_id for row in rows),
        document_ids=tuple(row.document_ids for row in rows),
        documents=sum(int(row.doc_ids[row.valid_token_count - 1]) + 1 for row in rows),
        valid_tokens=sum(row.valid_token_count for row in rows),
        attention_pairs=pairs,
        masked=masked,
    )


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield all tensors in a dataclass, and in the dataclasses inside it."""
    for field in fields(value):
        held = getattr(value, field.name)
        if isinstance(held, Tensor):
            yield held
        elif is_dataclass(held):
            yield from tensors_in(held)
