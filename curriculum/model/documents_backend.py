"""Attention of the backend `documents`: no pair across a boundary is ever computed."""

import functools
import itertools
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from curriculum.model.dense_backends import attached, dense, for_each_head
from curriculum.model.masks import Attend, Boundaries
from curriculum.model.structure_tensors import StructureTensors, dense_bias, relation_of_tokens

QUERIES = 1024
"""Queries of a document whose scores are held at once; backward computes each block again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Related:
    """Structure of one document as attention reads it."""

    chunks: Tensor
    """[L]: of each token."""
    relations: Tensor
    """[C, C]: between all chunks of its row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scores:
    """Changes of the scores of one document: a bias where it has chunks, then a softcap."""

    softcap: float | None
    table: Tensor | None = None
    """table_HR."""
    related: _Related | None = None


def documents_attend(
    softcap: float | None,
    boundaries: Boundaries,
    structure: StructureTensors | None = None,
    queries: range | None = None,
) -> Attend:
    """Torch's causal attention a document.

    Documents that have chunks, and with a softcap all, go by whole scores, some times slower. Their memory
    is QUERIES · length · (heads + 3) floats.
    """
    pairs = Pairs.of(boundaries, queries)
    related = _related(pairs, structure)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK."""
        B, _, Q, _ = q_BHTK.shape
        k_BHTK, v_BHTK = for_each_head(q_BHTK, k_BGTK, v_BGTK)
        documents = zip(
            torch.split(_end_to_end(q_BHTK), pairs.queries, dim=2),
            *(torch.split(pairs.read(x), pairs.keys, dim=2) for x in (k_BHTK, v_BHTK)),
            strict=True,
        )
        out_1HNK = torch.cat(
            [
                _of_document(q, k, v, each, table_HR, softcap)
                for (q, k, v), each in zip(documents, related, strict=True)
            ],
            dim=2,
        )
        if table_HR is not None and not any(related):
            # Its gradient is zeros and not missing: ranks that share a table must all have one.
            out_1HNK = out_1HNK + 0 * table_HR.sum().to(out_1HNK.dtype)
        _, H, _, K = out_1HNK.shape
        return out_1HNK.view(H, B, Q, K).transpose(0, 1)

    return attend


def _of_document(
    q_1HLK: Tensor,
    k_1HLK: Tensor,
    v_1HLK: Tensor,
    related: _Related | None,
    table_HR: Tensor | None,
    softcap: float | None,
) -> Tensor:
    """Attention of one document's queries to its keys, by the kernel where nothing changes its scores."""
    document = q_1HLK, k_1HLK, v_1HLK
    without_bias = (
        functools.partial(_causal, *document)
        if softcap is None
        else functools.partial(_scored, *document, _Scores(softcap=softcap))
    )
    if related is None or table_HR is None:
        return without_bias()
    scores = _Scores(softcap=softcap, table=table_HR, related=related)
    return attached(without_bias, functools.partial(_scored, *document, scores), table_HR)


def _causal(q_1HQK: Tensor, k_1HLK: Tensor, v_1HLK: Tensor) -> Tensor:
    """The last Q queries of a document; a mask is needed only where they aren't all."""
    Q, before = q_1HQK.shape[2], k_1HLK.shape[2] - q_1HQK.shape[2]
    if not before:
        return F.scaled_dot_product_attention(q_1HQK, k_1HLK, v_1HLK, is_causal=True)
    blocks = []
    for start in range(0, Q, QUERIES):
        end = min(start + QUERIES, Q)
        until = before + end
        arguments = q_1HQK[:, :, start:end], k_1HLK[:, :, :until], v_1HLK[:, :, :until]
        # Kept for backward the masks would be Q · L.
        blocks.append(
            checkpoint(_masked, *arguments, use_reentrant=False, preserve_rng_state=False)
        )
    return torch.cat(blocks, dim=2)


def _masked(q_1HQK: Tensor, k_1HEK: Tensor, v_1HEK: Tensor) -> Tensor:
    """The last Q queries of E tokens, under a mask."""
    Q, E = q_1HQK.shape[2], k_1HEK.shape[2]
    past_QE = torch.ones(Q, E, dtype=torch.bool, device=q_1HQK.device).tril(E - Q)
    return F.scaled_dot_product_attention(q_1HQK, k_1HEK, v_1HEK, attn_mask=past_QE)


def _scored(q_1HQK: Tensor, k_1HLK: Tensor, v_1HLK: Tensor, scores: _Scores) -> Tensor:
    """The last Q queries of a document in blocks, each with the keys up to its end."""
    Q, before = q_1HQK.shape[2], k_1HLK.shape[2] - q_1HQK.shape[2]
    blocks = []
    for start in range(0, Q, QUERIES):
        end = min(start + QUERIES, Q)
        k_1HEK, v_1HEK = k_1HLK[:, :, : before + end], v_1HLK[:, :, : before + end]
        arguments = q_1HQK[:, :, start:end], k_1HEK, v_1HEK, scores
        blocks.append(
            _block(*arguments)
            if Q <= QUERIES
            else checkpoint(_block, *arguments, use_reentrant=False, preserve_rng_state=False)
        )
    return torch.cat(blocks, dim=2)


def _block(q_1HQK: Tensor, k_1HEK: Tensor, v_1HEK: Tensor, scores: _Scores) -> Tensor:
    """The last Q queries of E tokens."""
    Q, E = q_1HQK.shape[2], k_1HEK.shape[2]
    bias_1HQE = None
    if scores.related is not None and scores.table is not None:
        chunks_1E = scores.related.chunks[None, :E]
        between_1CC = scores.related.relations[None]
        relation_1QE = relation_of_tokens(chunks_1E[:, E - Q :], chunks_1E, between_1CC)
        bias_1HQE = dense_bias(scores.table, relation_1QE)
    past_QE = torch.ones(Q, E, dtype=torch.bool, device=q_1HQK.device).tril(E - Q)
    return dense(q_1HQK, k_1HEK, v_1HEK, past_QE, bias=bias_1HQE, softcap=scores.softcap)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """Documents of the queries of a batch, laid end to end, and the keys that each reads.

    doc_ids [0 0 0 1 1], queries 2 to 5 -> queries (1, 2) of keys (3, 2).
    """

    queries: list[int]
    """Queries of each document that has any."""
    keys: list[int]
    """Keys of each, from its document's start to its last query."""
    firsts: list[int] | None
    """The first key of each row that is read; None where all are."""
    end: int
    """Position in a row at which the queries end."""
    rows: list[int]
    """The row of each document."""

    @staticmethod
    def of(boundaries: Boundaries, queries: range | None = None) -> "Pairs":
        """The pairs of whole rows, or of a part of each."""
        T = boundaries.doc_ids.shape[1]
        at = queries or range(T)
        part = boundaries
        if queries is not None:
            part = Boundaries.of(boundaries.doc_ids[:, at.start : at.stop])
        lengths = [*part.lengths]
        rows = [first // len(at) for first in itertools.accumulate([0, *lengths[:-1]])]
        if queries is None:
            return Pairs(queries=lengths, keys=lengths, firsts=None, end=T, rows=rows)
        firsts = boundaries.starts[:, at.start].tolist()
        keys = [
            length if row == before else length + at.start - firsts[row]
            for length, row, before in zip(lengths, rows, [-1, *rows], strict=False)
        ]
        return Pairs(queries=lengths, keys=keys, firsts=firsts, end=at.stop, rows=rows)

    def read(self, x_BHTK: Tensor) -> Tensor:
        """x_1HNK of what is read, end to end."""
        if self.firsts is None:
            return _end_to_end(x_BHTK)
        rows = [
            x_HTK[:, first : self.end] for x_HTK, first in zip(x_BHTK, self.firsts, strict=True)
        ]
        return torch.cat(rows, dim=1)[None]


def _end_to_end(x_BHTK: Tensor) -> Tensor:
    """x_1HNK, the rows laid end to end."""
    return x_BHTK.transpose(0, 1).flatten(1, 2)[None]


def _related(pairs: Pairs, structure: StructureTensors | None) -> list[_Related | None]:
    """None for documents without chunks, whose biases are all none."""
    if structure is None:
        return [None] * len(pairs.queries)
    chunks_1NK = pairs.read(structure.chunks[:, None, :, None])[0, 0, :, 0]
    return [
        _Related(chunks=chunks_L, relations=structure.relations[row]) if chunks_L.any() else None
        for chunks_L, row in zip(torch.split(chunks_1NK, pairs.keys), pairs.rows, strict=True)
    ]
