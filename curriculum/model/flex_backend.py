"""Attention backend `flex`: FlexAttention, compiled on CUDA, and its higher-order operator on other devices.

FlexAttention's public function has no backward pass on CPUs. The operator below it has one, which is
exact in float64, if torch.compile traces the operator without generating code. If the operator were
called directly, it would lose the gradients of captured tensors.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention as operator
from torch.nn.attention.flex_attention import flex_attention

from curriculum.model.dense_backends import repeat_for_heads
from curriculum.model.masks import Attend, Boundaries, block_mask
from curriculum.model.structure_tensors import StructureTensors

Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

MAX_SHAPES = 64
"""Maximum number of different micro-batch shapes in a run.

Torch's default is 8. Above the limit, torch silently uses the uncompiled form with O(T²) memory.
"""
COPIES = 64
"""Number of copies of a bias table; queries use them in turn."""
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
    structure: StructureTensors | None = None,
    queries: range | None = None,
) -> Attend:
    """Return attention with a block mask. No tensor of T² elements is stored."""
    mask = block_mask(boundaries, queries=queries)
    related = None
    if structure is not None:
        at = queries or range(structure.chunks.shape[1])
        chunks_BQ = structure.chunks[:, at.start : at.stop]
        related = chunks_BQ, structure.chunks, structure.relations.int()

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return the attention output, out_BHTK."""
        score = _score(softcap, table_HR, related)
        if q_BHTK.is_cuda:
            out: Tensor = _compiled()(
                q_BHTK, k_BGTK, v_BGTK, score_mod=score, block_mask=mask, enable_gqa=True
            )
            return out
        k_BHTK, v_BHTK = repeat_for_heads(q_BHTK, k_BGTK, v_BGTK)
        scale = 1 / math.sqrt(q_BHTK.shape[-1])
        if torch.compiler.is_compiling():
            return _apply(q_BHTK, k_BHTK, v_BHTK, score, mask.as_tuple(), scale)
        with warnings.catch_warnings():
            # Tracing reads .grad of tensors that aren't leaves, which makes torch warn.
            warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
            return _traced()(q_BHTK, k_BHTK, v_BHTK, score, mask.as_tuple(), scale)

    return attend


def _score(
    softcap: float | None, table_HR: Tensor | None, related: tuple[Tensor, Tensor, Tensor] | None
) -> Score:
    if table_HR is not None:
        assert related is not None, "a layer has relations, but its batch has no structure"
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
    """Return a score function that adds the table's bias for the chunks of q and k, before the softcap.

    Every score adds to the gradient of one of a few table entries, and GPUs serialise additions to the same
    address. Therefore, queries use COPIES copies of the table in turn, and autograd sums the gradients of the
    copies.
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
    _configure_compiler()
    return torch.compile(_apply, backend="aot_eager", fullgraph=True, dynamic=False)


@functools.cache
def _compiled() -> Callable[..., Any]:
    _configure_compiler()
    return torch.compile(flex_attention, dynamic=False)


def _configure_compiler() -> None:
    """Make torch.compile raise an error where it would silently use uncompiled code."""
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    torch._dynamo.config.recompile_limit = MAX_SHAPES
