"""FlexAttention behind one adapter: compiled on CUDA, the higher-order operator elsewhere.

The public call has no backward on CPU. The operator under it has one, exact in float64, when it is
traced by torch.compile without a code generator; called bare it would lose gradients of captured
tensors.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention as operator
from torch.nn.attention.flex_attention import BlockMask, flex_attention

Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

SHAPES = 64
"""Distinct shapes of micro-batches before a run fails; past torch's limit of 8 the uncompiled O(T²)
form would silently take over."""
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
    mask: BlockMask, softcap: float | None
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Attention under a block mask; q_BHTK, k_BGTK, v_BGTK -> out_BHTK."""
    score = _capped(softcap) if softcap is not None else _plain

    def attend(q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor) -> Tensor:
        """Return out_BHTK."""
        if q_BHTK.is_cuda:
            out: Tensor = _compiled()(
                q_BHTK, k_BGTK, v_BGTK, score_mod=score, block_mask=mask, enable_gqa=True
            )
            return out
        times = q_BHTK.shape[1] // k_BGTK.shape[1]
        k_BHTK, v_BHTK = (x.repeat_interleave(times, dim=1) for x in (k_BGTK, v_BGTK))
        scale = 1 / math.sqrt(q_BHTK.shape[-1])
        with warnings.catch_warnings():
            # Tracing looks at .grad of inputs that are no leaves, and warns of its own look.
            warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
            return _traced()(q_BHTK, k_BHTK, v_BHTK, score, mask.as_tuple(), scale)

    return attend


def _plain(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return score


@functools.cache
def _capped(softcap: float) -> Score:
    def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return softcap * torch.tanh(score / softcap)

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
