"""Causal attention document by document: no pair across a boundary is ever computed."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from curriculum.model.dense import attached, dense
from curriculum.model.heads import for_each_head
from curriculum.model.inputs import Attend
from curriculum.model.masks import Boundaries
from curriculum.model.relations import dense_bias, relation_of_tokens
from curriculum.model.structure import Structure

QUERIES = 1024
"""Queries of a document with relations, whose scores are held at once; backward computes each block again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Related:
    """Structure of one document as attention reads it."""

    chunks: Tensor
    """[L]: of each token."""
    relations: Tensor
    """[C, C]: between all chunks of its row."""


def documents_attend(boundaries: Boundaries, structure: Structure | None = None) -> Attend:
    """Torch's causal attention a document; those that have chunks go by whole scores, some times slower.

    Their memory is QUERIES · length · (heads + 3) floats.
    """
    B, T = boundaries.doc_ids.shape
    related = _related(boundaries, structure)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK."""
        k_BHTK, v_BHTK = for_each_head(q_BHTK, k_BGTK, v_BGTK)
        documents = zip(*(_split(x, boundaries) for x in (q_BHTK, k_BHTK, v_BHTK)), strict=True)
        out_1HNK = torch.cat(
            [
                _causal(q, k, v)
                if each is None or table_HR is None
                else attached(
                    functools.partial(_causal, q, k, v),
                    functools.partial(_biased, q, k, v, each, table_HR),
                    table_HR,
                )
                for (q, k, v), each in zip(documents, related, strict=True)
            ],
            dim=2,
        )
        if table_HR is not None and not any(related):
            # Its gradient is zeros and not missing: ranks that share a table must all have one.
            out_1HNK = out_1HNK + 0 * table_HR.sum().to(out_1HNK.dtype)
        _, H, _, K = out_1HNK.shape
        return out_1HNK.view(H, B, T, K).transpose(0, 1)

    return attend


def _causal(q_1HLK: Tensor, k_1HLK: Tensor, v_1HLK: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q_1HLK, k_1HLK, v_1HLK, is_causal=True)


def _biased(
    q_1HLK: Tensor, k_1HLK: Tensor, v_1HLK: Tensor, related: _Related, table_HR: Tensor
) -> Tensor:
    """A document in blocks of queries, each with the keys up to its end."""
    L = len(related.chunks)
    blocks = []
    for start in range(0, L, QUERIES):
        end = min(start + QUERIES, L)
        arguments = (
            q_1HLK[:, :, start:end],
            k_1HLK[:, :, :end],
            v_1HLK[:, :, :end],
            related,
            table_HR,
        )
        blocks.append(
            _block(*arguments)
            if L <= QUERIES
            else checkpoint(_block, *arguments, use_reentrant=False, preserve_rng_state=False)
        )
    return torch.cat(blocks, dim=2)


def _block(
    q_1HQK: Tensor, k_1HEK: Tensor, v_1HEK: Tensor, related: _Related, table_HR: Tensor
) -> Tensor:
    """The last Q queries of E tokens."""
    Q, E = q_1HQK.shape[2], k_1HEK.shape[2]
    chunks_1E = related.chunks[None, :E]
    relation_1QE = relation_of_tokens(chunks_1E[:, E - Q :], chunks_1E, related.relations[None])
    past_QE = torch.ones(Q, E, dtype=torch.bool, device=q_1HQK.device).tril(E - Q)
    return dense(q_1HQK, k_1HEK, v_1HEK, past_QE, bias=dense_bias(table_HR, relation_1QE))


def _split(x_BHTK: Tensor, boundaries: Boundaries) -> tuple[Tensor, ...]:
    """One tensor [1, H, length, K] a segment, of the rows laid end to end."""
    x_1HNK = x_BHTK.transpose(0, 1).flatten(1, 2)[None]
    return torch.split(x_1HNK, list(boundaries.lengths), dim=2)


def _related(boundaries: Boundaries, structure: Structure | None) -> list[_Related | None]:
    """None for documents without chunks, whose biases are all none."""
    if structure is None:
        return [None] * len(boundaries.lengths)
    T = boundaries.doc_ids.shape[1]
    found: list[_Related | None] = []
    start = 0
    for chunks_L in torch.split(structure.chunks.flatten(), list(boundaries.lengths)):
        relations_CC = structure.relations[start // T]
        is_bare = not bool(chunks_L.any())
        found.append(None if is_bare else _Related(chunks=chunks_L, relations=relations_CC))
        start += len(chunks_L)
    return found
