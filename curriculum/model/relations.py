"""Relations between chunks of code, and the bias that attention adds for each."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from schemas.structure import RELATION_CODES, STRUCTURE_CODES

Int32s = npt.NDArray[np.int32]


def relations(chunks: Int32s, call_edges: Int32s, type_edges: Int32s) -> npt.NDArray[np.uint8]:
    """[C + 1, C + 1]: the RELATION_CODE of chunk q to chunk k, counted from 1.

    `chunks` [C, 5] are (start, end, kind, dep_level, doc), edges (source, target). Of a preamble and
    a function f of level 1, g of level 2 that calls f, and f and g in another document without a call:

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
    """Bias of a layer's heads on the scores of each relation; zero at first, for none always."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(heads, len(RELATION_CODES) - 1))

    def forward(self) -> Tensor:
        """table_HR with a column of zeros for none, which has no gradient."""
        return F.pad(self.table, (1, 0))

    def start(self, generator: torch.Generator) -> None:
        """Zeros."""
        self.table.zero_()


def relation_of_tokens(chunks_BQ: Tensor, chunks_BK: Tensor, relations_BCC: Tensor) -> Tensor:
    """uint8 [B, Q, K]: what the chunk of token q is to that of token k."""
    rows = torch.arange(len(relations_BCC), device=relations_BCC.device)[:, None, None]
    return relations_BCC[rows, chunks_BQ[:, :, None], chunks_BK[:, None, :]]


def dense_bias(table_HR: Tensor, relation_BQK: Tensor) -> Tensor:
    """[B, H, Q, K]: the table's entry for every pair of tokens; 8 bytes a pair, 4 a pair and head."""
    (B, Q, _), (H, R) = relation_BQK.shape, table_HR.shape
    # A table a query row: what backward adds up then lies in many places, not in H · R cells.
    table_BHQR = table_HR[None, :, None].expand(B, H, Q, R)
    return table_BHQR.gather(3, relation_BQK.long()[:, None].expand(-1, H, -1, -1))
