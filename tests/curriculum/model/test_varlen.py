from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.model import varlen_backend
from curriculum.model.backends import attention
from curriculum.model.masks import Boundaries
from schemas.errors import JobError
from tests.error_fields import fields

CUT = Boundaries.from_doc_ids(torch.tensor([[0] * 5 + [1] * 11, [0] * 16]))


def attended(q: Tensor, k: Tensor, v: Tensor, cuts: Tensor, longest: int) -> Tensor:
    """Compute attention segment by segment, as the kernel's documentation says."""
    assert q.shape == k.shape == v.shape, "keys and values are repeated for each head"
    assert cuts.dtype == torch.int32
    assert longest == int(cuts.diff().max())
    out = torch.empty_like(q)
    for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        mine_q, mine_k, mine_v = (x[start:end].transpose(0, 1) for x in (q, k, v))
        found = F.scaled_dot_product_attention(mine_q, mine_k, mine_v, is_causal=True)
        out[start:end] = found.transpose(0, 1)
    return out


def kernel_of_2_13(q, k, v, cu_q, cu_k, max_q, max_k, *, window_size=(-1, -1), num_splits=None):
    assert window_size == (-1, 0)
    assert num_splits == 1
    return attended(q, k, v, cu_q, max_q)


def kernel_of_2_11(q, k, v, cu_q, cu_k, max_q, max_k, *, window_size=(-1, -1)):
    assert window_size == (-1, 0)
    return attended(q, k, v, cu_q, max_q)


@pytest.mark.parametrize("kernel", [kernel_of_2_11, kernel_of_2_13])
def test_the_kernel_is_called_as_both_versions_of_torch_want_it(
    kernel: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's stand-in computes on a CPU what it is documented to."""
    monkeypatch.setattr(varlen_backend, "_varlen_kernel", lambda: kernel)
    monkeypatch.setattr(varlen_backend, "_require_gpu", lambda q: None)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, 16, 8, generator=generator) for heads in (4, 2, 2))
    found = attention("varlen")(CUT)(q, k, v)
    assert (found - attention("math")(CUT)(q, k, v)).abs().max() < 1e-6


def test_it_is_refused_on_a_cpu() -> None:
    q = torch.zeros(2, 2, 16, 8)
    with pytest.raises(JobError, check=fields(name="backend", value="varlen on cpu")):
        attention("varlen")(CUT)(q, q, q)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_refused_in_whole_precision(dtype: torch.dtype) -> None:
    class OnGpu:
        is_cuda = True

        def __init__(self) -> None:
            self.dtype = dtype

    tensor: Any = OnGpu()
    with pytest.raises(JobError, match=r"varlen in float\d\d; .*bfloat16"):
        varlen_backend._require_gpu(tensor)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_on_a_gpu_it_agrees_with_documents(dtype: torch.dtype) -> None:
    cut = CUT.to(torch.device("cuda"))
    q, k, v = (torch.randn(2, heads, 16, 64).to("cuda", dtype) for heads in (4, 2, 2))
    found, expected = (attention(each)(cut)(q, k, v) for each in ("varlen", "documents"))
    assert (found - expected).abs().max() < 2e-2
