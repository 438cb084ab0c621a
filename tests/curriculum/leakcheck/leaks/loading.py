"""Leaks in what loads rows: documents that are joined, and structure columns shifted over a boundary."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from curriculum.model import masks, structure_tensors
from curriculum.model.structure_tensors import RowStructure, StructureTensors
from curriculum.packing.packed_rows import RowBatch
from curriculum.train.batch import GroupStructure, Row, RowGroup
from tests.curriculum.leakcheck.leaks.site import (
    JOINED,
    SHIFTED_STRUCTURE,
    Needs,
    Site,
    injected,
    joined,
)

Int32s = npt.NDArray[np.int32]
Masks = npt.NDArray[np.uint8]
SHORT = 4
"""Tokens of a document that is joined to the next."""
BOS = 1
"""BOS id of many tokenizers."""


@injected(
    "documents of fewer than 4 tokens are read as the start of the next",
    kind=JOINED,
    replaces=(RowGroup, "row"),
    needs=Needs(blocks="A"),
)
def _short_documents_joined(site: Site[Row], group: RowGroup, at: int) -> Row:
    """Documents shorter than 4 tokens are read as the start of the next."""
    row = site.right(group, at)
    begins = np.flatnonzero(np.diff(row.doc_ids, prepend=-1))
    lengths = np.diff(begins, append=len(row.doc_ids))
    after_short = begins[1:][lengths[:-1] < SHORT]
    if not len(after_short):
        return row
    site.ran()
    dropped_T = torch.zeros(len(row.doc_ids), dtype=torch.bool)
    dropped_T[after_short] = True
    doc_ids_1T = joined(torch.from_numpy(row.doc_ids.copy())[None], dropped_T[None])
    return replace(row, doc_ids=doc_ids_1T[0].numpy())


@injected(
    "documents begin at BOS, and what has none is joined",
    kind=JOINED,
    replaces=(RowBatch, "doc_ids"),
    needs=Needs(blocks="A"),
)
def _documents_by_bos(site: Site[Int32s], batch: RowBatch) -> Int32s:
    """A document begins where its first token is BOS, whatever the rows store."""
    site.ran()
    return np.cumsum(batch.input_ids == BOS, axis=1, dtype=np.int32)


@injected(
    "a row of a row group is given the documents of the first",
    kind=JOINED,
    replaces=(RowGroup, "row"),
    needs=Needs(blocks="A"),
)
def _documents_of_the_first_row(site: Site[Row], group: RowGroup, at: int) -> Row:
    """A row of a group is given the documents of the group's first."""
    found = site.right(group, at)
    if at == 0:
        return found
    site.ran()
    return replace(found, doc_ids=group.doc_ids[0])


@injected(
    "edges less than 4 tokens apart are dropped",
    kind=JOINED,
    replaces=(masks, "segment_edges"),
    needs=Needs(blocks="C"),
)
def _near_edges_dropped(site: Site[Tensor], doc_ids_BT: Tensor) -> Tensor:
    """Edges less than 4 tokens behind another are dropped, but at the start of a row."""
    edges = site.right(doc_ids_BT)
    T = doc_ids_BT.shape[1]
    near = (edges.diff(prepend=edges.new_tensor([-SHORT])) < SHORT) & (edges % T != 0)
    if near.any():
        site.ran()
    return edges[~near]


@injected(
    "rows of one document go on in the next row",
    kind=JOINED,
    replaces=(masks, "segment_edges"),
    needs=Needs(blocks="A"),
)
def _rows_end_to_end(site: Site[Tensor], doc_ids_BT: Tensor) -> Tensor:
    """An edge is where ids differ: a row of one document goes on in the next one's first."""
    ids_N = doc_ids_BT.flatten()
    edges = site.right(doc_ids_BT)
    kept = torch.ones_like(edges, dtype=torch.bool)
    kept[1:-1] = ids_N[edges[1:-1]] != ids_N[edges[1:-1] - 1]
    if not kept.all():
        site.ran()
    return edges[kept]


@injected(
    "the last token of a document predicts the first of the next",
    kind=JOINED,
    replaces=(RowBatch, "loss_mask"),
    needs=Needs(blocks="F"),
)
def _last_tokens_scored(site: Site[Masks], batch: RowBatch) -> Masks:
    """The last token of a document predicts the first of the next."""
    site.ran()
    padding = batch.doc_ids == batch.doc_ids[:, -1:]
    mask = site.right(batch).copy()
    mask[:, :-1] |= (np.diff(batch.doc_ids) != 0) & ~padding[:, 1:]
    return mask


@injected(
    "a batch's codes stand one token late",
    kind=SHIFTED_STRUCTURE,
    replaces=(StructureTensors, "from_rows"),
    needs=Needs(blocks="A", structure=True),
)
def _codes_of_the_token_before(
    site: Site[StructureTensors | None], rows: Any
) -> StructureTensors | None:
    found = site.right(rows)
    if found is None:
        return None
    site.ran()
    return replace(found, tokens=found.tokens.roll(1, dims=1))


@injected(
    "kinds of chunks stand one chunk late",
    kind=SHIFTED_STRUCTURE,
    replaces=(structure_tensors, "relations"),
    needs=Needs(blocks="A", structure=True),
)
def _kinds_of_the_chunk_before(site: Site[Any], chunks: Int32s, *edges: Int32s) -> Any:
    site.ran()
    return site.right(_rolled(chunks, 2), *edges)


@injected(
    "levels of chunks stand one chunk late",
    kind=SHIFTED_STRUCTURE,
    replaces=(structure_tensors, "relations"),
    needs=Needs(blocks="A", structure=True),
)
def _levels_of_the_chunk_before(site: Site[Any], chunks: Int32s, *edges: Int32s) -> Any:
    site.ran()
    return site.right(_rolled(chunks, 3), *edges)


def _rolled(chunks: Int32s, column: int) -> Int32s:
    shifted = chunks.copy()
    shifted[:, column] = np.roll(chunks[:, column], 1)
    return shifted


@injected(
    "structure columns are read one token off",
    kind=SHIFTED_STRUCTURE,
    replaces=(GroupStructure, "row"),
    needs=Needs(blocks="A", structure=True),
)
def _columns_read_one_off(site: Site[RowStructure], group: GroupStructure, at: int) -> RowStructure:
    found = site.right(group, at)
    site.ran()
    return replace(found, tokens=np.roll(found.tokens, 1, axis=0))
