"""Attention backend `varlen`: FlashAttention over concatenated rows with `cu_seqlens`.

Depending on the rest of the batch, torch may compute a document's sums in several parts, which changes the
rounding. torch 2.13 has an option that prevents this, and it is set. torch 2.11 doesn't have it.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from curriculum.model.backend_choice import row_part_unsupported
from curriculum.model.dense_backends import repeat_for_heads
from curriculum.model.masks import Attend, Boundaries
from curriculum.model.structure_tensors import StructureTensors
from schemas.errors import JobError

DTYPES = (torch.bfloat16, torch.float16)
CAUSAL = (-1, 0)


def varlen_attend(
    boundaries: Boundaries, structure: StructureTensors | None = None, queries: range | None = None
) -> Attend:
    """Return attention by torch's `varlen_attn`.

    Raises:
        JobError: for tensors that aren't on a GPU or not in half precision, and for parts of rows.
    """
    if queries is not None:
        raise row_part_unsupported("varlen")
    longest = max(boundaries.lengths)

    def attend(
        q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return the attention output, out_BHTK."""
        assert table_HR is None, "the backend varlen doesn't support relations"
        _require_gpu(q_BHTK)
        B, _, T, _ = q_BHTK.shape
        # torch 2.11 doesn't support grouped heads here.
        k_BHTK, v_BHTK = repeat_for_heads(q_BHTK, k_BGTK, v_BGTK)
        q_NHK, k_NHK, v_NHK = (x.transpose(1, 2).flatten(0, 1) for x in (q_BHTK, k_BHTK, v_BHTK))
        cuts = boundaries.cu_seqlens
        out_NHK = _in_one_split(_varlen_kernel())(
            q_NHK, k_NHK, v_NHK, cuts, cuts, longest, longest, window_size=CAUSAL
        )
        return out_NHK.view(B, T, *out_NHK.shape[1:]).transpose(1, 2)

    return attend


def _varlen_kernel() -> Callable[..., Any]:
    # Imported late, because the module imports torch's compiler, which takes half a second.
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
            cause="the kernel runs only on GPUs",
            cure="On a CPU, choose the backend documents",
        )
    if q_BHTK.dtype not in DTYPES:
        raise JobError(
            "backend",
            f"varlen in {str(q_BHTK.dtype).removeprefix('torch.')}",
            cause="the kernel supports only bfloat16 and float16",
            cure="Choose documents or flex, or train in bfloat16",
        )
