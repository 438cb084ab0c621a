"""Attention backends `math` and `sdpa`. They use full score matrices, whose memory grows with T²."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.model.backend_choice import MAX_DENSE_ROW, row_too_long
from curriculum.model.masks import Attend, Boundaries, document_mask
from curriculum.model.structure_tensors import StructureTensors, dense_bias, relation_of_tokens


def repeat_for_heads(q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat keys and values for the query heads: heads [0 1] for 4 query heads -> [0 0 1 1]."""
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
    """Return reference attention. It supports every option and dtype, and takes T² memory per head."""
    visible_B1TT = document_mask(boundaries, queries)
    relation_BTT = row_relations(structure, queries)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return the attention output, out_BHTK."""
        bias = bias_of(table_HR, relation_BTT)
        k_BHTK, v_BHTK = repeat_for_heads(q_BHTK, k_BGTK, v_BGTK)
        return dense(q_BHTK, k_BHTK, v_BHTK, visible_B1TT, bias=bias, softcap=softcap)

    return attend


def sdpa_attend(
    boundaries: Boundaries, structure: StructureTensors | None = None, queries: range | None = None
) -> Attend:
    """Return torch's attention with a mask of T² elements. Biases for relations take T² memory per head.

    Raises:
        JobError: for rows of more than MAX_DENSE_ROW positions.
    """
    T = boundaries.doc_ids.shape[1]
    if T > MAX_DENSE_ROW:
        raise row_too_long("sdpa", T)
    visible_B1TT = document_mask(boundaries, queries)
    relation_BTT = row_relations(structure, queries)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return the attention output, out_BHTK."""
        k_BHTK, v_BHTK = repeat_for_heads(q_BHTK, k_BGTK, v_BGTK)

        def plain() -> Tensor:
            return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, attn_mask=visible_B1TT)

        def biased() -> Tensor:
            bias = bias_of(table_HR, relation_BTT)
            return dense(q_BHTK, k_BHTK, v_BHTK, visible_B1TT, bias=bias)

        return plain() if table_HR is None else biased_or_plain(plain, biased, table_HR)

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
    """Return softmax(cap · tanh((q k + bias) / cap)) v over the positions that `visible` marks."""
    scores_BHTT = q_BHTK @ k_BHTK.mT / math.sqrt(q_BHTK.shape[-1])
    if bias is not None:
        scores_BHTT = scores_BHTT + bias.to(scores_BHTT.dtype)
    if softcap is not None:
        scores_BHTT = softcap * torch.tanh(scores_BHTT / softcap)
    return scores_BHTT.masked_fill(~visible, -math.inf).softmax(-1) @ v_BHTK


def biased_or_plain(
    plain: Callable[[], Tensor], biased: Callable[[], Tensor], table: Tensor
) -> Tensor:
    """Return `biased()`. As long as `table` is all zeros, return exactly the bits of `plain()` instead.

    A kernel without bias rounds differently from a kernel with a bias of 0. Adding a fresh table to a trained
    model must not change its output. The table always gets the gradient of `biased`.
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
    """Return relation_BQT between tokens.

    `queries` limits it to a part of the queries. None without structure.
    """
    if structure is None:
        return None
    at = queries or range(structure.chunks.shape[1])
    chunks_BQ = structure.chunks[:, at.start : at.stop]
    return relation_of_tokens(chunks_BQ, structure.chunks, structure.relations)


def bias_of(table_HR: Tensor | None, relation: Tensor | None) -> Tensor | None:
    """Return the bias of all pairs of tokens from a layer's table; None if the layer has no table."""
    if table_HR is None:
        return None
    assert relation is not None, "a layer has relations, but its batch has no structure"
    return dense_bias(table_HR, relation)
