"""The decoder: embedding, layers that each read the same boundaries, and a head.

Shapes: ids_BT, x_BTD, logits_BTV with V ids of the vocabulary.
"""

import math

import torch
from torch import Tensor, nn

from curriculum.model.attention import Attention, Rotation, rotation_of
from curriculum.model.backends import Attend, attention
from curriculum.model.masks import Boundaries
from curriculum.model.mlp import MLP
from schemas.errors import JobError
from schemas.job import Backend, ModelSpec

DEFAULT_ROPE_BASE = 500_000.0


class Layer(nn.Module):
    """Attention, then an MLP, each on normalised input and added to the stream."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(spec.width, eps=1e-6)
        self.attention = Attention(spec)
        self.mlp_norm = nn.RMSNorm(spec.width, eps=1e-6)
        self.mlp = MLP(spec)

    def forward(self, x_BTD: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        """x_BTD -> x_BTD."""
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD), rotation, attend)
        out_BTD: Tensor = x_BTD + self.mlp(self.mlp_norm(x_BTD))
        return out_BTD


class Decoder(nn.Module):
    """A causal language model whose documents don't see one another.

    `rope_base` is the phase's, set by whoever runs the model; it isn't a weight.

    Raises:
        JobError: for sizes that don't divide, or a backend that can't honour the softcap.
    """

    def __init__(self, spec: ModelSpec, backend: Backend) -> None:
        super().__init__()
        _require_divisible(spec)
        self.spec = spec
        self.rope_base = DEFAULT_ROPE_BASE
        self.attend_within = attention(backend, softcap=spec.softcap)
        self.embedding = nn.Embedding(spec.vocab_size, spec.width)
        self.layers = nn.ModuleList(Layer(spec) for _ in range(spec.layers))
        self.norm = nn.RMSNorm(spec.width, eps=1e-6)
        self.head = nn.Linear(spec.width, spec.vocab_size, bias=False)

    def hidden(self, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
        """The normalised stream x_BTD in front of the head, from which the loss is taken in chunks."""
        x_BTD = self.embedding(ids_BT)
        attend = self.attend_within(boundaries)
        head_width = self.spec.width // self.spec.heads
        cos, sin = rotation_of(boundaries.position_ids, head_width, self.rope_base)
        rotation = cos.to(x_BTD.dtype), sin.to(x_BTD.dtype)
        for layer in self.layers:
            x_BTD = layer(x_BTD, rotation, attend)
        out_BTD: Tensor = self.norm(x_BTD)
        return out_BTD

    def forward(self, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
        """logits_BTV; position t predicts the token at t + 1."""
        logits_BTV: Tensor = self.head(self.hidden(ids_BT, boundaries))
        return logits_BTV


def _require_divisible(spec: ModelSpec) -> None:
    if spec.width % (2 * spec.heads) or spec.heads % spec.kv_heads:
        raise JobError(
            f"model {spec.name}",
            f"width {spec.width}, heads {spec.heads}, kv_heads {spec.kv_heads}",
            cause="heads split the width evenly in pairs, and key-value heads split the heads",
            cure="Choose a width that is a multiple of 2 · heads, and heads of kv_heads",
        )


@torch.no_grad()
def initialise(decoder: Decoder, seed: int) -> Decoder:
    """Fresh weights from `seed` alone: normal, 0.02; what adds to the stream smaller by its depth."""
    generator = torch.Generator().manual_seed(seed)
    depth = math.sqrt(2 * len(decoder.layers))
    for name, weight in decoder.named_parameters():
        if weight.ndim < 2:
            weight.fill_(1.0)
            continue
        deviation = 0.02 / depth if name.endswith("output.weight") else 0.02
        weight.copy_(torch.empty(weight.shape).normal_(0, deviation, generator=generator))
    return decoder
