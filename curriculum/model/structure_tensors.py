"""Code structure of a batch: its tensors, their embedding, relations between chunks, and their bias."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from schemas.errors import SchemaError
from schemas.structure import MAX_CODES, RELATION_CODES, STRUCTURE_CODES

Int32s = npt.NDArray[np.int32]


def relations(chunks: Int32s, call_edges: Int32s, type_edges: Int32s) -> npt.NDArray[np.uint8]:
    """Return the RELATION_CODE of each chunk q to each chunk k, [C + 1, C + 1]. Chunks count from 1.

    `chunks` [C, 5] are (start, end, kind, dep_level, doc); edges are (source, target). Example: one
    document with a preamble, a function f of level 1, and a function g of level 2 that calls f; a second
    document with f and g, but without the call:

        0 0 0 0 0 0
        0 5 6 7 0 0
        0 8 5 2 0 0
        0 8 1 5 0 0
        0 0 0 0 5 7
        0 0 0 0 7 5
    """
    kind, level, document = chunks[:, 2], chunks[:, 3], chunks[:, 4]
    codes = RELATION_CODES
    apart = np.abs(level[:, None] - level)
    found = np.where(apart == 1, codes["adjacent_level"], codes["none"]).astype(np.uint8)
    found[apart == 0] = codes["same_level"]
    found[:, kind == STRUCTURE_CODES["preamble"]] = codes["preamble"]
    found[type_edges[:, 1], type_edges[:, 0]] = codes["type_named_by"]
    found[type_edges[:, 0], type_edges[:, 1]] = codes["names_type"]
    found[call_edges[:, 1], call_edges[:, 0]] = codes["called_by"]
    found[call_edges[:, 0], call_edges[:, 1]] = codes["calls"]
    np.fill_diagonal(found, codes["same_chunk"])
    found[document[:, None] != document] = codes["none"]
    return np.pad(found, ((1, 0), (1, 0)))


class RelationBias(nn.Module):
    """Learned bias of each head for each relation.

    It starts at zero and stays zero for the relation `none`.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(heads, len(RELATION_CODES) - 1))

    def forward(self) -> Tensor:
        """Return table_HR. Its column for the relation `none` is always zero."""
        return F.pad(self.table, (1, 0))

    def start(self, generator: torch.Generator) -> None:
        """Set the table to zero."""
        self.table.zero_()


def relation_of_tokens(chunks_BQ: Tensor, chunks_BK: Tensor, relations_BCC: Tensor) -> Tensor:
    """For each pair of tokens q and k, return the relation of q's chunk to k's chunk, uint8 [B, Q, K]."""
    rows = torch.arange(len(relations_BCC), device=relations_BCC.device)[:, None, None]
    return relations_BCC[rows, chunks_BQ[:, :, None], chunks_BK[:, None, :]]


def dense_bias(table_HR: Tensor, relation_BQK: Tensor) -> Tensor:
    """Return the bias of all pairs of tokens, [B, H, Q, K].

    It takes 8 bytes per pair, and 4 bytes per pair and head.
    """
    (B, Q, _), (H, R) = relation_BQK.shape, table_HR.shape
    # Expand the table per query row: backward then adds into many addresses instead of H · R cells.
    table_BHQR = table_HR[None, :, None].expand(B, H, Q, R)
    return table_BHQR.gather(3, relation_BQK.long()[:, None].expand(-1, H, -1, -1))


MIN_CHUNKS = 64
"""Minimum size of the relation matrix. It is padded to a power of two, so that kernels see few shapes."""
BOTTLENECK = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class RowStructure:
    """Structure of one row of T tokens, as the columns of a packed row."""

    tokens: npt.NDArray[np.uint8]
    """Codes of each token, [T, 5], in the order of schemas.structure.STRUCTURE_TOKENS."""
    chunks: Int32s
    """Start, end, kind, dep_level and doc of each chunk, [C, 5]. Chunks are sorted and don't overlap."""
    call_edges: Int32s
    """Source and target of each call, [E, 2], as chunk numbers from 0."""
    type_edges: Int32s


@dataclass(frozen=True, kw_only=True, slots=True)
class StructureTensors:
    """Structure of a batch: the codes of tokens, and the relations between chunks. 0 means none."""

    tokens: Tensor
    """Codes of each token, uint8 [B, T, 5], in the order of schemas.structure.STRUCTURE_TOKENS."""
    chunks: Tensor
    """Chunk of each token, int32 [B, T], counted from 1 within its row."""
    relations: Tensor
    """Relation of chunk q to chunk k, uint8 [B, C, C]. Row and column 0 are `none`."""

    @staticmethod
    def from_rows(rows: Sequence[RowStructure | None]) -> "StructureTensors | None":
        """Build the structure of a batch. Rows without structure get zeros. None if no row has structure.

        Raises:
            SchemaError: for a code above the maximum of its column.
        """
        some = [row for row in rows if row is not None]
        if not some:
            return None
        T = len(some[0].tokens)
        # One more than the number of chunks, rounded up to a power of two: 63 -> 64, 64 -> 128.
        C = max(MIN_CHUNKS, 1 << max(len(row.chunks) for row in some).bit_length())
        tokens_BT5 = np.zeros((len(rows), T, len(MAX_CODES)), dtype=np.uint8)
        chunks_BT = np.zeros((len(rows), T), dtype=np.int32)
        relations_BCC = np.zeros((len(rows), C, C), dtype=np.uint8)
        for index, row in enumerate(rows):
            if row is not None:
                _require_known_codes(row.tokens)
                tokens_BT5[index] = row.tokens
                chunks_BT[index] = chunk_of_tokens(row.chunks, T)
                found = relations(row.chunks, row.call_edges, row.type_edges)
                relations_BCC[index, : len(found), : len(found)] = found
        return StructureTensors(
            tokens=torch.from_numpy(tokens_BT5),
            chunks=torch.from_numpy(chunks_BT),
            relations=torch.from_numpy(relations_BCC),
        )

    @staticmethod
    def none(ids_BT: Tensor) -> "StructureTensors":
        """Return the structure of a batch in which no row has structure: all zeros."""
        B, T = ids_BT.shape
        return StructureTensors(
            tokens=ids_BT.new_zeros(B, T, len(MAX_CODES), dtype=torch.uint8),
            chunks=ids_BT.new_zeros(B, T, dtype=torch.int32),
            relations=ids_BT.new_zeros(B, MIN_CHUNKS, MIN_CHUNKS, dtype=torch.uint8),
        )


class StructureEmbedding(nn.Module):
    """Embedding of a token's structure codes: one table for the codes of all columns, then a projection.

    The table starts at 0, so that at first it adds nothing. Code 0 has no entry and always adds nothing.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(sum(MAX_CODES.values()), BOTTLENECK))
        self.project = nn.Linear(BOTTLENECK, width, bias=False)

    def forward(self, tokens_BT5: Tensor) -> Tensor:
        """Return the embedding x_BTD."""
        # Unlike an embedding bag, this sums every token separately: other documents never change a bit of
        # the result.
        with_none = F.pad(self.table, (0, 0, 1, 0))
        x_BT5E = F.embedding(table_entries(tokens_BT5), with_none)
        out_BTD: Tensor = self.project(x_BT5E.sum(2))
        return out_BTD

    def start(self, generator: torch.Generator) -> None:
        """Set the table to zero, and draw a projection that preserves the variance of its input."""
        self.table.zero_()
        weight = self.project.weight
        drawn = torch.empty(weight.shape).normal_(0, BOTTLENECK**-0.5, generator=generator)
        weight.copy_(drawn)


def table_entries(tokens: Tensor) -> Tensor:
    """Return the number of each code's table entry, int32 [..., 5]. Code 0 has the number 0.

    Entries are numbered from 1, through all columns. [9 64 0 1 255] -> [9 73 0 138 456]: 9 ids, then 3 · 64
    levels, then 255 kinds of nodes.
    """
    sizes = torch.tensor([0, *MAX_CODES.values()], device=tokens.device)[:-1]
    codes = tokens.int()
    return torch.where(codes > 0, codes + sizes.cumsum(0), 0).int()


def chunk_of_tokens(chunks: Int32s, row_length: int) -> Int32s:
    """Return the chunk number of each token, counted from 1, or 0 outside of chunks, [T].

    chunks [0, 2) [3, 5) -> [1 1 0 2 2].
    """
    positions = np.arange(row_length)
    number = np.searchsorted(chunks[:, 0], positions, side="right")
    ends = np.append(0, chunks[:, 1])
    return np.where(positions < ends[number], number, 0).astype(np.int32)


def _require_known_codes(tokens_T5: npt.NDArray[np.uint8]) -> None:
    for (name, limit), largest in zip(MAX_CODES.items(), tokens_T5.max(axis=0), strict=True):
        if largest > limit:
            raise SchemaError(
                name,
                int(largest),
                cause=f"the largest code of this column is {limit}",
                cure="Run `curriculum check` on the rows",
            )
