import pytest
import torch
from torch.nn import functional as F

from curriculum.model.norm import RmsNorm


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_norm_keeps_the_dtype_of_its_input_whatever_its_weights_have(
    dtype: torch.dtype,
) -> None:
    norm = RmsNorm(8)
    norm.weight.data.uniform_(0.5, 2.0)
    x_TD = torch.randn(5, 8, dtype=dtype)
    out_TD = norm(x_TD)
    right_TD = F.rms_norm(x_TD.double(), (8,), norm.weight.to(dtype).double(), 1e-6)
    assert out_TD.dtype == dtype
    torch.testing.assert_close(out_TD, right_TD.to(dtype))


def test_products_under_autocast_are_normed_without_a_second_dtype() -> None:
    norm = RmsNorm(8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert norm(torch.randn(5, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert norm.weight.dtype == torch.float32
