"""Floating-point operations that a model needs for the documents of a step, and the share of a peak.

Only matrix products count, two operations a multiply-add. Attention counts the pairs within documents,
not T²; padding and what is computed again in backward are no work.
"""

import functools
import re
from dataclasses import dataclass

import torch
from torch import nn

from curriculum.model.decoder import Decoder
from schemas.job import ModelSpec

FORWARD_AND_BACKWARD = 3
"""Backward takes two products for each of forward."""

_PEAKS = (
    (r"\bB200\b", 2250e12),
    (r"\b(H100|H200) NVL\b", 835e12),
    (r"\bH100 PCIe\b", 756e12),
    (r"\b(H100|H200|GH200)\b", 989e12),
    (r"\bA100\b", 312e12),
    (r"\bL40S\b", 362e12),
    (r"\bL4\b", 121e12),
)
"""Dense bfloat16 operations a second by the name that the driver gives; the first that fits counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Floating-point work of a step."""

    tokens: int
    """Valid ones."""
    attention_pairs: int
    """Σ length · (length + 1) / 2 over documents."""
    scored: int
    """Positions that the head predicts from."""


def step_flops(spec: ModelSpec, work: Work) -> int:
    """Operations of forward and backward over a step."""
    return FORWARD_AND_BACKWARD * forward_flops(spec, work)


def forward_flops(spec: ModelSpec, work: Work) -> int:
    """Operations of one forward.

    One attention layer of width 8 with 2 heads, over a document of 3 tokens: 6 pairs · 4 · 8 = 192, and
    its projections beside.
    """
    return (
        work.tokens * (_projections(spec) + _products_of_a_token(spec))
        + work.attention_pairs * 4 * spec.width * spec.blocks.count("A")
        + work.scored * 2 * spec.width * spec.vocab_size
    )


def peak_flops(device_name: str) -> float | None:
    """Dense bfloat16 operations a second of a GPU by its name; None for an unknown one or a slice of one."""
    if re.search(r"\bMIG\b", device_name):
        return None
    return next((peak for name, peak in _PEAKS if re.search(name, device_name)), None)


def peak_of(device: torch.device) -> float | None:
    """The peak of a device; None for a CPU, whose peak no name tells."""
    if device.type != "cuda":
        return None
    return peak_flops(torch.cuda.get_device_name(device))


def masked_mfu(flops: int, seconds: float, peak: float | None, *, devices: int = 1) -> float | None:
    """The share of the devices' peak that went into the model's own work; None where it isn't known."""
    return flops / seconds / (peak * devices) if peak is not None else None


@functools.cache
def _projections(spec: ModelSpec) -> int:
    """Operations of a token in the linear layers of all blocks; the head isn't among them."""
    with torch.device("meta"):
        model = Decoder(spec, "math")
    linear = [each for each in model.modules() if isinstance(each, nn.Linear)]
    return sum(2 * each.weight.numel() for each in linear if each is not model.head)


def _products_of_a_token(spec: ModelSpec) -> int:
    """Operations of a token in products that are no linear layer."""
    mixing = _mixing(spec) if spec.streams > 1 else 0
    return spec.blocks.count("M") * _state_space(spec) + len(spec.blocks) * mixing


def _state_space(spec: ModelSpec) -> int:
    """A Mamba-2 layer as if all chunks were full: C·B and its sum within the chunk, states in and out."""
    mamba = spec.mamba
    inner = mamba.expand * spec.width
    within = (mamba.chunk + 1) * (mamba.state + inner)
    return within + 4 * mamba.state * inner


def _mixing(spec: ModelSpec) -> int:
    """Around one layer: the weights of reading, writing and mixing streams; mixing is no matrix product."""
    streams = spec.streams
    stacked = streams * spec.width
    return 2 * stacked * (2 * streams + streams**2)
