"""Attention within documents, computed in five ways that agree.

    math, sdpa   whole matrices of scores: the reference, and torch's kernel under a dense mask
    documents    causal attention document by document: no pair across a boundary is ever computed
    flex         FlexAttention: compiled on CUDA, the higher-order operator elsewhere
    varlen       FlashAttention over rows laid end to end and cut by `cu_seqlens`

A backend takes the boundaries of a batch, and its structure where the model reads it, and returns
`attend`, which every layer calls. One that can't honour an option raises. Shapes: q_BHTK; k_BGTK, v_BGTK
with G key-value heads, H a multiple of G; table_HR with R relations.

FlexAttention's public call has no backward on CPU. The operator under it has one, exact in float64, when it
is traced by torch.compile without a code generator; called bare it would lose gradients of captured tensors.
For varlen torch may split the sums of a document by how much else is in the batch; where it takes the
option, as 2.13 does and 2.11 doesn't, it is asked not to.
"""

import functools
import inspect
import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention as operator
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

from curriculum.model.backend_choice import (
    LARGEST_DENSE_ROW,
    WITH_RELATIONS,
    WITH_SOFTCAP,
    of_whole_rows,
    too_long,
    without,
)
from curriculum.model.masks import Attend, Boundaries, block_mask, document_mask
from curriculum.model.structure import Structure, dense_bias, relation_of_tokens
from schemas.errors import JobError
from schemas.job import Backend


def for_each_head(q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values repeated so that each query head has its own: heads [0 1] of 4 -> [0 0 1 1]."""
    times = q_BHTK.shape[1] // k_BGTK.shape[1]
    if times == 1:
        return k_BGTK, v_BGTK
    return k_BGTK.repeat_interleave(times, dim=1), v_BGTK.repeat_interleave(times, dim=1)


def math_attend(
    softcap: float | None,
    boundaries: Boundaries,
    structure: Structure | None = None,
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
    boundaries: Boundaries, structure: Structure | None = None, queries: range | None = None
) -> Attend:
    """Torch's attention under a mask of T²; with relations their bias is T² a head.

    Raises:
        JobError: for rows of more than LARGEST_DENSE_ROW positions.
    """
    T = boundaries.doc_ids.shape[1]
    if T > LARGEST_DENSE_ROW:
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


def row_relations(structure: Structure | None, queries: range | None = None) -> Tensor | None:
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
    structure: Structure | None = None,
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


def _related(pairs: Pairs, structure: Structure | None) -> list[_Related | None]:
    """None for documents without chunks, whose biases are all none."""
    if structure is None:
        return [None] * len(pairs.queries)
    chunks_1NK = pairs.read(structure.chunks[:, None, :, None])[0, 0, :, 0]
    return [
        _Related(chunks=chunks_L, relations=structure.relations[row]) if chunks_L.any() else None
        for chunks_L, row in zip(torch.split(chunks_1NK, pairs.keys), pairs.rows, strict=True)
    ]


Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

SHAPES = 64
"""Distinct shapes of micro-batches before a run fails; past torch's limit of 8 the uncompiled O(T²)
form would silently take over."""
COPIES = 64
"""Copies of a table of biases."""
_OPTIONS = {
    "BACKEND": "AUTO",
    "PRESCALE_QK": False,
    "ROWS_GUARANTEED_SAFE": False,
    "BLOCKS_ARE_CONTIGUOUS": False,
    "WRITE_DQ": True,
    "OUTPUT_LOGSUMEXP": True,
    "OUTPUT_MAX": False,
}


def flex_attend(
    softcap: float | None,
    boundaries: Boundaries,
    structure: Structure | None = None,
    queries: range | None = None,
) -> Attend:
    """Attention under a block mask; nothing of T² is ever kept."""
    mask = block_mask(boundaries, queries=queries)
    related = None
    if structure is not None:
        at = queries or range(structure.chunks.shape[1])
        chunks_BQ = structure.chunks[:, at.start : at.stop]
        related = chunks_BQ, structure.chunks, structure.relations.int()

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK."""
        score = _score(softcap, table_HR, related)
        if q_BHTK.is_cuda:
            out: Tensor = _compiled()(
                q_BHTK, k_BGTK, v_BGTK, score_mod=score, block_mask=mask, enable_gqa=True
            )
            return out
        k_BHTK, v_BHTK = for_each_head(q_BHTK, k_BGTK, v_BGTK)
        scale = 1 / math.sqrt(q_BHTK.shape[-1])
        if torch.compiler.is_compiling():
            return _apply(q_BHTK, k_BHTK, v_BHTK, score, mask.as_tuple(), scale)
        with warnings.catch_warnings():
            # Tracing looks at .grad of inputs that are no leaves, and warns of its own look.
            warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
            return _traced()(q_BHTK, k_BHTK, v_BHTK, score, mask.as_tuple(), scale)

    return attend


def _score(
    softcap: float | None, table_HR: Tensor | None, related: tuple[Tensor, Tensor, Tensor] | None
) -> Score:
    if table_HR is not None:
        assert related is not None, "a layer has relations and its batch has no structure"
        return _with_bias(softcap, table_HR, *related)
    return _capped(softcap) if softcap is not None else _plain


def _plain(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return score


@functools.cache
def _capped(softcap: float) -> Score:
    def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return softcap * torch.tanh(score / softcap)

    return score_mod


def _with_bias(
    softcap: float | None,
    table_HR: Tensor,
    chunks_BQ: Tensor,
    chunks_BT: Tensor,
    relations_BCC: Tensor,
) -> Score:
    """The table's entry of what chunk q is to chunk k, inside the softcap.

    Every score adds to the gradient of one of few entries, and GPUs add to one place one after the
    other. So queries take turns at COPIES of the table, whose gradients autograd sums.
    """
    H, R = table_HR.shape
    table_HSR = table_HR[:, None].expand(H, COPIES, R).contiguous()

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        relation = relations_BCC[b, chunks_BQ[b, q], chunks_BT[b, kv]]
        biased = score + table_HSR[h, q % COPIES, relation]
        return biased if softcap is None else softcap * torch.tanh(biased / softcap)

    return score_mod


def _apply(q: Tensor, k: Tensor, v: Tensor, score: Score, mask: Any, scale: float) -> Tensor:
    out: Tensor = operator(q, k, v, score, mask, scale, _OPTIONS)[0]
    return out


@functools.cache
def _traced() -> Callable[..., Tensor]:
    _fail_rather_than_fall_back()
    return torch.compile(_apply, backend="aot_eager", fullgraph=True, dynamic=False)


@functools.cache
def _compiled() -> Callable[..., Any]:
    _fail_rather_than_fall_back()
    return torch.compile(flex_attention, dynamic=False)


def _fail_rather_than_fall_back() -> None:
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    torch._dynamo.config.recompile_limit = SHAPES


DTYPES = (torch.bfloat16, torch.float16)
CAUSAL = (-1, 0)


def varlen_attend(
    boundaries: Boundaries, structure: Structure | None = None, queries: range | None = None
) -> Attend:
    """Attention by `varlen_attn`.

    Raises:
        JobError: for tensors that aren't on a GPU, or aren't in half precision, and for a part of rows.
    """
    if queries is not None:
        raise of_whole_rows("varlen")
    longest = max(boundaries.lengths)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK."""
        assert table_HR is None, "varlen was asked for relations"
        _require_gpu(q_BHTK)
        B, _, T, _ = q_BHTK.shape
        # 2.11 has no grouped heads.
        k_BHTK, v_BHTK = for_each_head(q_BHTK, k_BGTK, v_BGTK)
        q_NHK, k_NHK, v_NHK = (x.transpose(1, 2).flatten(0, 1) for x in (q_BHTK, k_BHTK, v_BHTK))
        cuts = boundaries.cu_seqlens
        out_NHK = _in_one_split(_varlen_kernel())(
            q_NHK, k_NHK, v_NHK, cuts, cuts, longest, longest, window_size=CAUSAL
        )
        return out_NHK.view(B, T, *out_NHK.shape[1:]).transpose(1, 2)

    return attend


def _varlen_kernel() -> Callable[..., Any]:
    # Its module imports torch's compiler, which takes half a second.
    from torch.nn.attention.varlen import varlen_attn

    return varlen_attn


@functools.cache
def _in_one_split(kernel: Callable[..., Any]) -> Callable[..., Tensor]:
    if "num_splits" in inspect.signature(kernel).parameters:
        return functools.partial(kernel, num_splits=1)
    return kernel


def _require_gpu(q_BHTK: Tensor) -> None:
    if not q_BHTK.is_cuda:
        raise JobError(
            "backend",
            f"varlen on {q_BHTK.device.type}",
            cause="its kernel runs on GPUs only",
            cure="Choose documents on a CPU",
        )
    if q_BHTK.dtype not in DTYPES:
        raise JobError(
            "backend",
            f"varlen in {str(q_BHTK.dtype).removeprefix('torch.')}",
            cause="its kernel takes bfloat16 and float16",
            cure="Choose documents or flex, or train in bfloat16",
        )


class Attention(Protocol):
    """A backend, once its options are known."""

    def __call__(
        self,
        boundaries: Boundaries,
        structure: Structure | None = None,
        queries: range | None = None,
    ) -> Attend:
        """Attention within these boundaries; what it builds for them is shared by all layers.

        `queries` are the positions of the part of each row that brings queries; keys are of whole rows.
        """


def attention(
    backend: Backend, *, softcap: float | None = None, relations: bool = False
) -> Attention:
    """The attention of a backend.

    `softcap` bounds scores by cap · tanh(score / cap); `relations` says that layers bring a table of
    biases, which are added inside of it.

    Raises:
        JobError: for a softcap or relations on a backend whose kernel has none.
    """
    if softcap is not None and backend not in WITH_SOFTCAP:
        raise without(backend, f"softcap {softcap}", "a model without softcap", WITH_SOFTCAP)
    if relations and backend not in WITH_RELATIONS:
        raise without(backend, "structure", "structure_inputs: false", WITH_RELATIONS)
    match backend:
        case "math":
            return functools.partial(math_attend, softcap)
        case "flex":
            return functools.partial(flex_attend, softcap)
        case "sdpa":
            return sdpa_attend
        case "documents":
            return functools.partial(documents_attend, softcap)
        case "varlen":
            return varlen_attend
