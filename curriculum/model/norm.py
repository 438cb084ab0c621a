"""The norm of every layer."""

from torch import Tensor, nn
from torch.nn import functional as F


class RmsNorm(nn.RMSNorm):
    """x [..., D] -> x / rms(x) · weight, in the dtype of x.

    Autocast leaves weights in float32, and torch has a fused kernel only for inputs and weights of one
    dtype.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """Norm over the last dimension, whose squares torch sums in float32 at least."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)
