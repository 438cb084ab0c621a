"""Inputs of every layer beside the stream, built once a batch."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from curriculum.model.chunks import Chunks
from curriculum.model.masks import Boundaries

Rotation = tuple[Tensor, Tensor]
"""Cos and sin [B, 1, T, head_width / 2]."""


class Attend(Protocol):
    """Attention within the documents of one batch."""

    def __call__(
        self, q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, table_HR: Tensor | None = None
    ) -> Tensor:
        """Return out_BHTK; `table_HR` biases scores by what chunk q is to chunk k."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerInputs:
    """Ids and boundaries of a batch, and what follows from them for all layers of one family."""

    ids: Tensor
    """[B, T]"""
    boundaries: Boundaries
    rotation: Rotation
    attend: Attend
    chunks: Chunks | None = None
    """Chunks, where a pattern has an M."""
