"""Hyper-connections: several residual streams that doubly stochastic matrices mix around every layer.

After "mHC: Manifold-Constrained Hyper-Connections" (arXiv 2512.24880). Shapes: x_BTND with N streams;
read_BTN, write_BTN, mix_BTNN; L tokens of a batch, concatenated. A token's weights depend only on this
token. If they were pooled over T, documents would influence each other.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from schemas.job import ModelSpec

ITERATIONS = 10
MIN_ENTRY = 1e-12
"""Minimum matrix entry before Sinkhorn's iteration, relative to the row's largest entry.

It prevents empty rows and columns.
"""
INITIAL_SELF_WEIGHT = 0.99
"""Weight with which each stream keeps itself in the initial mixing matrix."""


def copy_to_streams(x_BTD: Tensor, streams: int) -> Tensor:
    """Copy x_BTD to `streams` equal streams x_BTND."""
    return x_BTD[:, :, None].expand(-1, -1, streams, -1)


def mean_of_streams(x_BTND: Tensor) -> Tensor:
    """Average all streams to x_BTD."""
    return x_BTND.mean(2)


def token_features(x_BTND: Tensor) -> Tensor:
    """Concatenate a token's streams to [B, T, N · D], from which its mixing weights are computed."""
    return x_BTND.flatten(2).to(torch.promote_types(x_BTND.dtype, torch.float32))


def mix_streams(weights_BTMN: Tensor, x_BTND: Tensor) -> Tensor:
    """Multiply each token's streams by the token's matrix: [[1 0] [½ ½]], streams a b -> a and (a + b) / 2.

    On a CPU, the loop over streams is ten times faster than a product of batched small matrices.
    """
    first, *others = range(x_BTND.shape[2])
    x_BTMD = weights_BTMN[..., first, None] * x_BTND[:, :, first, None]
    for n in others:
        x_BTMD = torch.addcmul(x_BTMD, weights_BTMN[..., n, None], x_BTND[:, :, n, None])
    return x_BTMD


def doubly_stochastic(logits_NNL: Tensor) -> Tensor:
    """Return matrices ≥ 0 near exp(logits) whose rows and columns sum to 1, except for rounding.

    Sinkhorn's iteration scales rows and columns in turn, `ITERATIONS` times. Then a rank-one matrix adds what
    is missing to the sums, so that they are exact even if the iteration converges slowly. [[0 0] [0 0]] ->
    [[½ ½] [½ ½]].
    """
    largest_N1L = logits_NNL.detach().amax(1, keepdim=True)
    K_NNL = (logits_NNL - largest_N1L).exp().clamp(min=MIN_ENTRY)
    columns_1NL = torch.ones_like(K_NNL[:1])
    for _ in range(ITERATIONS):
        rows_N1L = (K_NNL * columns_1NL).sum(1, keepdim=True).reciprocal()
        columns_1NL = (K_NNL * rows_N1L).sum(0, keepdim=True).reciprocal()
    rows_N1L = (K_NNL * columns_1NL).sum(1, keepdim=True).reciprocal()
    P_NNL = rows_N1L * K_NNL * columns_1NL
    P_NNL = P_NNL / P_NNL.sum(0, keepdim=True).clamp(min=1)
    lacking_N1L = (1 - P_NNL.sum(1, keepdim=True)).clamp(min=0)
    lacking_1NL = (1 - P_NNL.sum(0, keepdim=True)).clamp(min=0)
    lacking_11L = lacking_1NL.sum(1, keepdim=True).clamp(min=MIN_ENTRY)
    return P_NNL + lacking_N1L * lacking_1NL / lacking_11L


class HyperConnection(nn.Module):
    """Connection between the streams and one layer: a token's weights to read, write and mix the streams."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.streams = spec.streams
        self.sizes = (spec.streams, spec.streams, spec.streams**2)
        self.static_E = nn.Parameter(torch.zeros(sum(self.sizes)))
        self.gains_3 = nn.Parameter(torch.zeros(len(self.sizes)))
        self.dynamic_EF = nn.Parameter(torch.zeros(sum(self.sizes), spec.streams * spec.width))

    def start(self, generator: torch.Generator) -> None:
        """Initialise nearly like a plain residual connection.

        Write weights are equal, and streams keep 0.99 of themselves. Read weights are random, because
        otherwise all streams would learn the same.
        """
        read_N, write_N, mix_NN = self.static_E.split_with_sizes(self.sizes)
        read_N.copy_(torch.empty(read_N.shape).normal_(generator=generator))
        read_N.sub_(math.log(max(self.streams - 1, 1)))
        write_N.zero_()
        away = math.log((1 - INITIAL_SELF_WEIGHT) / INITIAL_SELF_WEIGHT / max(self.streams - 1, 1))
        mix_NN.copy_(away * (1 - torch.eye(self.streams)).flatten())
        self.gains_3.fill_(0.01)
        deviation = self.dynamic_EF.shape[1] ** -0.5
        dynamic_EF = torch.empty(self.dynamic_EF.shape).normal_(0, deviation, generator=generator)
        self.dynamic_EF.copy_(dynamic_EF)

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the layer's input x_BTD, its output's weights write_BTN1, and the mixed streams x_BTND."""
        with torch.autocast(x_BTND.device.type, enabled=False):
            read_BTN, write_BTN, mix_BTNN = self.weights(x_BTND)
            both_BTMN = torch.cat([read_BTN[:, :, None], mix_BTNN], dim=2).to(x_BTND.dtype)
            read_BT1D, mixed_BTND = mix_streams(both_BTMN, x_BTND).split_with_sizes(
                [1, self.streams], dim=2
            )
        return read_BT1D.squeeze(2), write_BTN[..., None].to(x_BTND.dtype), mixed_BTND

    def weights(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return read_BTN in (0, 1), write_BTN in (0, 2) and doubly stochastic mix_BTNN, in at least float32.

        The norm is applied after the projection. The result is the same, and no second copy of the streams is
        needed.
        """
        features_BTF = token_features(x_BTND)
        length_BT1 = torch.linalg.vector_norm(features_BTF, dim=-1, keepdim=True)
        norm_BT1 = (length_BT1.square() / features_BTF.shape[-1] + 1e-6).rsqrt()
        dynamic_BTE = F.linear(features_BTF, self.dynamic_EF.to(features_BTF.dtype)) * norm_BT1
        gains_E = torch.cat(
            [gain.expand(size) for gain, size in zip(self.gains_3, self.sizes, strict=True)]
        )
        logits_BTE = torch.addcmul(self.static_E, dynamic_BTE, gains_E)
        read_BTN, write_BTN, mix_BTE = logits_BTE.split_with_sizes(self.sizes, dim=-1)
        B, T, N, _ = x_BTND.shape
        mix_NNL = mix_BTE.reshape(B * T, N, N).permute(1, 2, 0).contiguous()
        mix_BTNN = doubly_stochastic(mix_NNL).permute(2, 0, 1).reshape(B, T, N, N)
        return read_BTN.sigmoid(), 2 * write_BTN.sigmoid(), mix_BTNN
