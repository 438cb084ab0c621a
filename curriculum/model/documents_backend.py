"""Attention backend `documents`: it attends one document at a time and computes no pair across a boundary."""

import functools
import itertools
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from curriculum.model.dense_backends import biased_or_plain, dense, repeat_for_heads
from curriculum.model.masks import Attend, Boundaries
from curriculum.model.structure_tensors import StructureTensors, dense_bias, relation_of_tokens

QUERIES = 1024
"""Maximum number of a document's queries whose scores are in memory at once.

Backward recomputes the scores.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Related:
    """Structure of one document, from which attention derives its bias."""

    chunks: Tensor
    """Chunk of each token in the document, [L]."""
    relations: Tensor
    """Relations between all chunks of the row, [C, C]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scores:
    """Changes to a document's scores: a bias if the document has chunks, then a softcap."""

    softcap: float | None
    table: Tensor | None = None
    """Bias of each head for each relation, table_HR."""
    related: _Related | None = None


def documents_attend(
    softcap: float | None,
    boundaries: Boundaries,
    structure: StructureTensors | None = None,
    queries: range | None = None,
) -> Attend:
    """Return torch's causal attention, applied to one document at a time.

    Documents with chunks use full score matrices. With a softcap, all documents do. This is several times
    slower and takes QUERIES · length · (heads + 3) floats of memory.
    """
    pairs = Pairs.from_boundaries(boundaries, queries)
    related = _related(pairs, structure)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return the attention output, out_BHTK."""
        B, _, Q, _ = q_BHTK.shape
        k_BHTK, v_BHTK = repeat_for_heads(q_BHTK, k_BGTK, v_BGTK)
        documents = zip(
            torch.split(_end_to_end(q_BHTK), pairs.queries, dim=2),
            *(torch.split(pairs.read(x), pairs.keys, dim=2) for x in (k_BHTK, v_BHTK)),
            strict=True,
        )
        out_1HNK = torch.cat(
            [
                _of_document(q, k, v, structure_L, table_HR, softcap)
                for (q, k, v), structure_L in zip(documents, related, strict=True)
            ],
            dim=2,
        )
        if table_HR is not None and not any(related):
            # The table needs a gradient of zeros instead of None: ranks that share a table must all have one.
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
    """Attend from the queries of one document to its keys. Unmodified scores use torch's kernel."""
    document = q_1HLK, k_1HLK, v_1HLK
    without_bias = (
        functools.partial(_causal, *document)
        if softcap is None
        else functools.partial(_scored, *document, _Scores(softcap=softcap))
    )
    if related is None or table_HR is None:
        return without_bias()
    scores = _Scores(softcap=softcap, table=table_HR, related=related)
    return biased_or_plain(without_bias, functools.partial(_scored, *document, scores), table_HR)


def _causal(q_1HQK: Tensor, k_1HLK: Tensor, v_1HLK: Tensor) -> Tensor:
    """Attend from the last Q positions of a document.

    A mask is needed only if the first queries are missing.
    """
    Q, before = q_1HQK.shape[2], k_1HLK.shape[2] - q_1HQK.shape[2]
    if not before:
        return F.scaled_dot_product_attention(q_1HQK, k_1HLK, v_1HLK, is_causal=True)
    blocks = []
    for start in range(0, Q, QUERIES):
        end = min(start + QUERIES, Q)
        until = before + end
        arguments = q_1HQK[:, :, start:end], k_1HLK[:, :, :until], v_1HLK[:, :, :until]
        # Saved for backward, the masks would take Q · L elements.
        blocks.append(
            checkpoint(_masked, *arguments, use_reentrant=False, preserve_rng_state=False)
        )
    return torch.cat(blocks, dim=2)


def _masked(q_1HQK: Tensor, k_1HEK: Tensor, v_1HEK: Tensor) -> Tensor:
    """Attend from the last Q of E positions to all of them, with a causal mask."""
    Q, E = q_1HQK.shape[2], k_1HEK.shape[2]
    past_QE = torch.ones(Q, E, dtype=torch.bool, device=q_1HQK.device).tril(E - Q)
    return F.scaled_dot_product_attention(q_1HQK, k_1HEK, v_1HEK, attn_mask=past_QE)


def _scored(q_1HQK: Tensor, k_1HLK: Tensor, v_1HLK: Tensor, scores: _Scores) -> Tensor:
    """Attend from the last Q positions of a document with modified scores, QUERIES positions at a time."""
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
    """Attend from the last Q of E positions to all of them, with modified scores."""
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
    """Queries of a batch by document, and the keys that they read. Rows are concatenated.

    `queries` limits the positions: doc_ids [0 0 0 1 1], queries 2 to 5 -> queries [1 2], keys [3 2].
    """

    queries: list[int]
    """Number of queries of each document that has queries."""
    keys: list[int]
    """Number of keys of each of these documents, from the document's start to its last query."""
    firsts: list[int] | None
    """Position of the first key that is read in each row. None if all keys are read."""
    end: int
    """Position after the last query in a row."""
    rows: list[int]
    """Row of each document."""

    @staticmethod
    def from_boundaries(boundaries: Boundaries, queries: range | None = None) -> "Pairs":
        """Compute the pairs for whole rows, or only for the positions `queries` of every row."""
        T = boundaries.doc_ids.shape[1]
        at = queries or range(T)
        part = boundaries
        if queries is not None:
            part = Boundaries.from_doc_ids(boundaries.doc_ids[:, at.start : at.stop])
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
        """Return the keys that are read, concatenated to x_1HNK."""
        if self.firsts is None:
            return _end_to_end(x_BHTK)
        rows = [
            x_HTK[:, first : self.end] for x_HTK, first in zip(x_BHTK, self.firsts, strict=True)
        ]
        return torch.cat(rows, dim=1)[None]


def _end_to_end(x_BHTK: Tensor) -> Tensor:
    """Concatenate the rows to x_1HNK."""
    return x_BHTK.transpose(0, 1).flatten(1, 2)[None]


def _related(pairs: Pairs, structure: StructureTensors | None) -> list[_Related | None]:
    """Return the structure of each document, or None for a document without chunks, which needs no bias."""
    if structure is None:
        return [None] * len(pairs.queries)
    chunks_1NK = pairs.read(structure.chunks[:, None, :, None])[0, 0, :, 0]
    return [
        _Related(chunks=chunks_L, relations=structure.relations[row]) if chunks_L.any() else None
        for chunks_L, row in zip(torch.split(chunks_1NK, pairs.keys), pairs.rows, strict=True)
    ]
