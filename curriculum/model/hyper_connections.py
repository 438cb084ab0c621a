"""Several residual streams, mixed around each layer by matrices that can't grow or shrink what flows.

After "mHC: Manifold-Constrained Hyper-Connections" (arXiv 2512.24880). Shapes: x_BTND with N streams;
read_BTN, write_BTN, mix_BTNN; L tokens of a batch laid end to end. Every weight follows from its own
token: nothing here pools over T, else documents would see one another.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from schemas.job import ModelSpec

ITERATIONS = 10
FAINTEST = 1e-12
"""Smallest entry against the largest of its row, before Sinkhorn: no row or column is ever empty."""
STAYS = 0.99
"""Share of itself that a stream keeps at first."""


def spread(x_BTD: Tensor, streams: int) -> Tensor:
    """Streams x_BTND that are all the same."""
    return x_BTD[:, :, None].expand(-1, -1, streams, -1)


def gathered(x_BTND: Tensor) -> Tensor:
    """x_BTD, the mean of the streams."""
    return x_BTND.mean(2)


def token_features(x_BTND: Tensor) -> Tensor:
    """Return the input of a token's weights [B, T, N · D]: its own streams, side by side."""
    return x_BTND.flatten(2).to(torch.promote_types(x_BTND.dtype, torch.float32))


def mixed(weights_BTMN: Tensor, x_BTND: Tensor) -> Tensor:
    """Each token's streams by its own matrix, x_BTMD: [[1 0] [½ ½]] of streams a b -> [a (a + b) / 2].

    One stream after the other: as a product of batched small matrices it took a CPU ten times as long.
    """
    first, *others = range(x_BTND.shape[2])
    x_BTMD = weights_BTMN[..., first, None] * x_BTND[:, :, first, None]
    for n in others:
        x_BTMD = torch.addcmul(x_BTMD, weights_BTMN[..., n, None], x_BTND[:, :, n, None])
    return x_BTMD


def doubly_stochastic(logits_NNL: Tensor) -> Tensor:
    """Matrices ≥ 0 whose rows and columns sum to 1 within rounding, near exp(logits) by Sinkhorn.

    Rows and columns are scaled in turn, `ITERATIONS` times. What is then missing in columns is filled
    from a product of one row and one column, so the sums hold for every matrix, also where the turns
    converge slowly. [[0 0] [0 0]] -> [[½ ½] [½ ½]].
    """
    largest_N1L = logits_NNL.detach().amax(1, keepdim=True)
    K_NNL = (logits_NNL - largest_N1L).exp().clamp(min=FAINTEST)
    columns_1NL = torch.ones_like(K_NNL[:1])
    for _ in range(ITERATIONS):
        rows_N1L = (K_NNL * columns_1NL).sum(1, keepdim=True).reciprocal()
        columns_1NL = (K_NNL * rows_N1L).sum(0, keepdim=True).reciprocal()
    rows_N1L = (K_NNL * columns_1NL).sum(1, keepdim=True).reciprocal()
    P_NNL = rows_N1L * K_NNL * columns_1NL
    P_NNL = P_NNL / P_NNL.sum(0, keepdim=True).clamp(min=1)
    lacking_N1L = (1 - P_NNL.sum(1, keepdim=True)).clamp(min=0)
    lacking_1NL = (1 - P_NNL.sum(0, keepdim=True)).clamp(min=0)
    lacking_11L = lacking_1NL.sum(1, keepdim=True).clamp(min=FAINTEST)
    return P_NNL + lacking_N1L * lacking_1NL / lacking_11L


class HyperConnection(nn.Module):
    """Mix of the streams around one layer: how it reads them, writes to them and combines them, by token."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.streams = spec.streams
        self.sizes = (spec.streams, spec.streams, spec.streams**2)
        self.static_E = nn.Parameter(torch.zeros(sum(self.sizes)))
        self.gains_3 = nn.Parameter(torch.zeros(len(self.sizes)))
        self.dynamic_EF = nn.Parameter(torch.zeros(sum(self.sizes), spec.streams * spec.width))

    def start(self, generator: torch.Generator) -> None:
        """Nearly a plain residual: all streams are written to alike and keep 0.99 of themselves.

        They are read unalike, else all would learn the same.
        """
        read_N, write_N, mix_NN = self.static_E.split_with_sizes(self.sizes)
        read_N.copy_(torch.empty(read_N.shape).normal_(generator=generator))
        read_N.sub_(math.log(max(self.streams - 1, 1)))
        write_N.zero_()
        away = math.log((1 - STAYS) / STAYS / max(self.streams - 1, 1))
        mix_NN.copy_(away * (1 - torch.eye(self.streams)).flatten())
        self.gains_3.fill_(0.01)
        deviation = self.dynamic_EF.shape[1] ** -0.5
        dynamic_EF = torch.empty(self.dynamic_EF.shape).normal_(0, deviation, generator=generator)
        self.dynamic_EF.copy_(dynamic_EF)

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the layer's input x_BTD, its output's weights write_BTN1, and the mixed x_BTND."""
        with torch.autocast(x_BTND.device.type, enabled=False):
            read_BTN, write_BTN, mix_BTNN = self.weights(x_BTND)
            both_BTMN = torch.cat([read_BTN[:, :, None], mix_BTNN], dim=2).to(x_BTND.dtype)
            read_BT1D, mixed_BTND = mixed(both_BTMN, x_BTND).split_with_sizes(
                [1, self.streams], dim=2
            )
        return read_BT1D.squeeze(2), write_BTN[..., None].to(x_BTND.dtype), mixed_BTND

    def weights(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """read_BTN in (0, 1), write_BTN in (0, 2) and mix_BTNN, doubly stochastic; float32 at least.

        Normalised after the projection, which says the same and keeps no second copy of the streams.
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
