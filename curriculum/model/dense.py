"""Attention by whole matrices of scores: the reference, and what biases are computed by on a CPU."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.model.heads import for_each_head
from curriculum.model.inputs import Attend
from curriculum.model.masks import Boundaries, document_mask
from curriculum.model.relations import dense_bias, relation_of_tokens
from curriculum.model.structure import Structure
from schemas.errors import JobError

LARGEST_DENSE_ROW = 8192
"""A boolean mask of 64k by 64k is 4 GB."""


def math_attend(
    softcap: float | None, boundaries: Boundaries, structure: Structure | None = None
) -> Attend:
    """Attention as it is written: every option, every dtype, T² memory a head."""
    visible_B1TT = document_mask(boundaries)
    relation_BTT = row_relations(structure)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK."""
        bias = bias_of(table_HR, relation_BTT)
        k_BHTK, v_BHTK = for_each_head(q_BHTK, k_BGTK, v_BGTK)
        return dense(q_BHTK, k_BHTK, v_BHTK, visible_B1TT, bias=bias, softcap=softcap)

    return attend


def sdpa_attend(boundaries: Boundaries, structure: Structure | None = None) -> Attend:
    """Torch's attention under a mask of T²; with relations their bias is T² a head.

    Raises:
        JobError: for rows of more than LARGEST_DENSE_ROW positions.
    """
    T = boundaries.doc_ids.shape[1]
    if T > LARGEST_DENSE_ROW:
        raise JobError(
            "backend",
            f"sdpa at row length {T}",
            cause=f"its mask grows with T²; it takes rows of at most {LARGEST_DENSE_ROW}",
            cure="Choose documents on a CPU, flex on a GPU",
        )
    visible_B1TT = document_mask(boundaries)
    relation_BTT = row_relations(structure)

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


def row_relations(structure: Structure | None) -> Tensor | None:
    """relation_BTT between all tokens of rows."""
    if structure is None:
        return None
    return relation_of_tokens(structure.chunks, structure.chunks, structure.relations)


def bias_of(table_HR: Tensor | None, relation: Tensor | None) -> Tensor | None:
    """bias_BHTT of a layer with a table."""
    if table_HR is None:
        return None
    assert relation is not None, "a layer has relations and its batch has no structure"
    return dense_bias(table_HR, relation)
