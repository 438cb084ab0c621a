"""The norm used by all layers."""

from torch import Tensor, nn
from torch.nn import functional as F


class RmsNorm(nn.RMSNorm):
    """RMS norm, x [..., D] -> x / rms(x) · weight, in the dtype of x.

    The weight is cast to the dtype of x: autocast keeps weights in float32, and torch's fused kernel needs a
    single dtype.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension; torch sums the squares in at least float32."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)
