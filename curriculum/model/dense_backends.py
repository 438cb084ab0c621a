"""Attention of the backends `math` and `sdpa`: whole matrices of scores, T² memory."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.model.backend_choice import MAX_DENSE_ROW, too_long
from curriculum.model.masks import Attend, Boundaries, document_mask
from curriculum.model.structure_tensors import StructureTensors, dense_bias, relation_of_tokens


def for_each_head(q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values repeated so that each query head has its own: heads [0 1] of 4 -> [0 0 1 1]."""
    times = q_BHTK.shape[1] // k_BGTK.shape[1]
    if times == 1:
        return k_BGTK, v_BGTK
    return k_BGTK.repeat_interleave(times, dim=1), v_BGTK.repeat_interleave(times, dim=1)


def math_attend(
    softcap: float | None,
    boundaries: Boundaries,
    structure: StructureTensors | None = None,
    queries: range | None = None,
) -> Attend:
    """Attention as it is written: every option, every dtype, T² memory a head."""
    visible_B1TT = document_mask(boundaries, queries)
    relation_BTT = row_relations(structure, queries)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK."""
        bias = bias_of(table_HR, relation_BTT)
        k_BHTK, v_BHTK = for_each_head(q_BHTK, k_BGTK, v_BGTK)
        return dense(q_BHTK, k_BHTK, v_BHTK, visible_B1TT, bias=bias, softcap=softcap)

    return attend


def sdpa_attend(
    boundaries: Boundaries, structure: StructureTensors | None = None, queries: range | None = None
) -> Attend:
    """Torch's attention under a mask of T²; with relations their bias is T² a head.

    Raises:
        JobError: for rows of more than MAX_DENSE_ROW positions.
    """
    T = boundaries.doc_ids.shape[1]
    if T > MAX_DENSE_ROW:
        raise too_long("sdpa", T)
    visible_B1TT = document_mask(boundaries, queries)
    relation_BTT = row_relations(structure, queries)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK."""
        k_BHTK, v_BHTK = for_each_head(q_BHTK, k_BGTK, v_BGTK)

        def plain() -> Tensor:
            return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, attn_mask=visible_B1TT)

        def biased() -> Tensor:
            bias = bias_of(table_HR, relation_BTT)
            return dense(q_BHTK, k_BHTK, v_BHTK, visible_B1TT, bias=bias)

        return plain() if table_HR is None else attached(plain, biased, table_HR)

    return attend


def dense(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    visible: Tensor,
    *,
    bias: Tensor | None = None,
    softcap: float | None = None,
) -> Tensor:
    """softmax(cap · tanh((q k + bias) / cap)) v over what is visible."""
    scores_BHTT = q_BHTK @ k_BHTK.mT / math.sqrt(q_BHTK.shape[-1])
    if bias is not None:
        scores_BHTT = scores_BHTT + bias.to(scores_BHTT.dtype)
    if softcap is not None:
        scores_BHTT = softcap * torch.tanh(scores_BHTT / softcap)
    return scores_BHTT.masked_fill(~visible, -math.inf).softmax(-1) @ v_BHTK


def attached(plain: Callable[[], Tensor], biased: Callable[[], Tensor], table: Tensor) -> Tensor:
    """Compute `biased`; while the table is all zeros, the very bits of `plain`.

    A kernel without bias rounds otherwise than one with a bias of 0. So a table that is fresh on a
    trained model changes nothing, and still gets the gradient of `biased`.
    """
    if bool(table.any()):
        return biased()
    without = plain()
    if not table.requires_grad:
        return without
    other = biased()
    return without.detach() + (other - other.detach())


def row_relations(
    structure: StructureTensors | None, queries: range | None = None
) -> Tensor | None:
    """relation_BQT between tokens of rows, of all or of those of a part to all."""
    if structure is None:
        return None
    at = queries or range(structure.chunks.shape[1])
    chunks_BQ = structure.chunks[:, at.start : at.stop]
    return relation_of_tokens(chunks_BQ, structure.chunks, structure.relations)


def bias_of(table_HR: Tensor | None, relation: Tensor | None) -> Tensor | None:
    """bias_BHTT of a layer with a table."""
    if table_HR is None:
        return None
    assert relation is not None, "a layer has relations and its batch has no structure"
    return dense_bias(table_HR, relation)
