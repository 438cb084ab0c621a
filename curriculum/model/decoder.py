"""The decoder: an embedding, blocks that share the boundaries of a batch, and a head.

Attention has grouped query heads, normalised queries and keys, and positions that restart at every
document. SwiGLU treats each token separately. Shapes: ids_BT, x_BTD, logits_BTV with a vocabulary of V
ids; q_BHTK, k_BGTK, v_BGTK with H heads, G key-value heads and K = D / H; cos_B1TK.
"""

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from curriculum.model.backends import attention
from curriculum.model.context_ranks import gather_parts
from curriculum.model.conv import ConvMixer
from curriculum.model.engram import Engram
from curriculum.model.hyper_connections import HyperConnection, copy_to_streams, mean_of_streams
from curriculum.model.mamba import Mamba
from curriculum.model.masks import Boundaries, Chunks, ContextRanks, LayerInputs, Rotation, RowPart
from curriculum.model.norm import RmsNorm
from curriculum.model.structure_tensors import RelationBias, StructureEmbedding, StructureTensors
from schemas.errors import JobError
from schemas.job import Backend, ModelSpec


class Attention(nn.Module):
    """Attention within documents. It calls the function `attend` that the backend built for the batch."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.head_width = spec.width // spec.heads
        self.query = nn.Linear(spec.width, spec.heads * self.head_width, bias=False)
        self.key = nn.Linear(spec.width, spec.kv_heads * self.head_width, bias=False)
        self.value = nn.Linear(spec.width, spec.kv_heads * self.head_width, bias=False)
        self.query_norm = RmsNorm(self.head_width)
        self.key_norm = RmsNorm(self.head_width)
        self.output = nn.Linear(spec.heads * self.head_width, spec.width, bias=False)
        self.relations = RelationBias(spec.heads) if spec.structure else None

    def forward(self, x_BTD: Tensor, inputs: LayerInputs) -> Tensor:
        """Return the attention output x_BTD. `attend` limits attention to documents."""
        rotation, attend = inputs.rotation, inputs.attend
        v_BGTK = self._heads(self.value(x_BTD))
        q_BHTK = rotate(self.query_norm(self._heads(self.query(x_BTD))), rotation).to(v_BGTK.dtype)
        k_BGTK = rotate(self.key_norm(self._heads(self.key(x_BTD))), rotation).to(v_BGTK.dtype)
        if inputs.part is not None:
            # Gathered together, so that every layer needs only one collective.
            both_BGTK = gather_parts(torch.cat([k_BGTK, v_BGTK], dim=1), inputs.part)
            k_BGTK, v_BGTK = both_BGTK.chunk(2, dim=1)
        table_HR = self.relations() if self.relations is not None else None
        out_BTHK = attend(q_BHTK, k_BGTK, v_BGTK, table_HR).transpose(1, 2)
        out_BTD: Tensor = self.output(out_BTHK.flatten(2))
        return out_BTD

    def _heads(self, x_BTD: Tensor) -> Tensor:
        B, T, _ = x_BTD.shape
        return x_BTD.view(B, T, -1, self.head_width).transpose(1, 2)


def rotation_of(position_ids_BT: Tensor, head_width: int, base: float) -> tuple[Tensor, Tensor]:
    """Compute cos and sin of the angles position · base^(-2i / head_width).

    Both are [B, 1, T, head_width / 2] and are computed in float64.
    """
    exponents = torch.arange(0, head_width, 2, device=position_ids_BT.device).double() / head_width
    angles_B1TK = position_ids_BT[:, None, :, None].double() * base**-exponents
    return angles_B1TK.cos(), angles_B1TK.sin()


def rotate(x_BHTK: Tensor, rotation: Rotation) -> Tensor:
    """Apply the rotary embedding: rotate each pair (x[i], x[i + K/2]) by the angle of its position."""
    cos, sin = rotation
    left, right = x_BHTK.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


class MLP(nn.Module):
    """SwiGLU layer, x_BTD -> x_BTD, with `mlp_width` hidden features."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.gate = nn.Linear(spec.width, spec.mlp_width, bias=False)
        self.up = nn.Linear(spec.width, spec.mlp_width, bias=False)
        self.output = nn.Linear(spec.mlp_width, spec.width, bias=False)

    def forward(self, x_BTD: Tensor, inputs: LayerInputs) -> Tensor:
        """Return silu(gate · x) ⊙ (up · x), projected back to the width of the stream."""
        out_BTD: Tensor = self.output(F.silu(self.gate(x_BTD)) * self.up(x_BTD))
        return out_BTD


FAMILIES: dict[str, Callable[[ModelSpec], nn.Module]] = {
    "A": Attention,
    "C": ConvMixer,
    "E": Engram,
    "F": MLP,
    "M": Mamba,
}
"""Layer families by letter.

A layer takes a normalised x_BTD and LayerInputs, and returns the stream's update.
"""


@runtime_checkable
class OwnStart(Protocol):
    """Module that initialises its own weights instead of the usual normal distribution."""

    def start(self, generator: torch.Generator) -> None:
        """Initialise the module's own parameters, but not its submodules', using only `generator`."""


DEFAULT_ROPE_BASE = 500_000.0


class Block(nn.Module):
    """One layer with a norm before it, added to the residual stream or streams."""

    def __init__(self, letter: str, spec: ModelSpec) -> None:
        super().__init__()
        self.norm = RmsNorm(spec.width)
        self.layer = FAMILIES[letter](spec)
        self.connection = HyperConnection(spec) if spec.streams > 1 else None

    def forward(self, x: Tensor, inputs: LayerInputs) -> Tensor:
        """Return x_BTD -> x_BTD, or x_BTND -> x_BTND for several streams."""
        if self.connection is None:
            out: Tensor = x + self.layer(self.norm(x), inputs)
            return out
        read_BTD, write_BTN1, mixed_BTND = self.connection(x)
        out_BTD: Tensor = self.layer(self.norm(read_BTD), inputs)
        out_BTND: Tensor = mixed_BTND + write_BTN1 * out_BTD[:, :, None]
        return out_BTND


class Decoder(nn.Module):
    """Causal language model in which packed documents don't see each other.

    `rope_base` belongs to the phase, and `context` holds the ranks that share rows. Both are set by the
    caller and aren't weights. With a context, ids, boundaries and structure still cover whole rows, but the
    output covers only this rank's part.

    Raises:
        JobError: for sizes that don't divide each other, or a backend that doesn't support softcap or
            structure.
    """

    def __init__(self, spec: ModelSpec, backend: Backend) -> None:
        super().__init__()
        _require_divisible(spec)
        self.spec = spec
        self.rope_base = DEFAULT_ROPE_BASE
        self.context: ContextRanks | None = None
        self.attend_within = attention(backend, softcap=spec.softcap, relations=spec.structure)
        self.embedding = nn.Embedding(spec.vocab_size, spec.width)
        self.blocks = nn.ModuleList(Block(letter, spec) for letter in spec.blocks)
        self.norm = RmsNorm(spec.width)
        self.head = nn.Linear(spec.width, spec.vocab_size, bias=False)
        self.structure = StructureEmbedding(spec.width) if spec.structure else None

    def hidden(
        self,
        ids_BT: Tensor,
        boundaries: Boundaries,
        structure: StructureTensors | None = None,
        *,
        inputs: LayerInputs | None = None,
    ) -> Tensor:
        """Return the normalised stream x_BTD before the head; the loss is computed from it in chunks.

        A model that reads structure accepts None for rows without structure; any other model ignores
        structure. Pass `inputs` of `inputs_of` to build them only once.
        """
        x_BTD = self.embedding(self.part(ids_BT))
        read = self._read(ids_BT, structure)
        if self.structure is not None and read is not None:
            x_BTD = x_BTD + self.structure(self.part(read.tokens))
        if inputs is None:
            inputs = self._inputs(ids_BT, boundaries, x_BTD.dtype, read)
        x = copy_to_streams(x_BTD, self.spec.streams) if self.spec.streams > 1 else x_BTD
        for block in self.blocks:
            x = block(x, inputs)
        out_BTD: Tensor = self.norm(mean_of_streams(x) if self.spec.streams > 1 else x)
        return out_BTD

    def forward(
        self, ids_BT: Tensor, boundaries: Boundaries, structure: StructureTensors | None = None
    ) -> Tensor:
        """Return logits_BTV; position t predicts the token at t + 1."""
        logits_BTV: Tensor = self.head(self.hidden(ids_BT, boundaries, structure))
        return logits_BTV

    def part(self, x_BT: Tensor) -> Tensor:
        """Return the part of whole rows that this rank computes; without a context, the whole rows."""
        return x_BT if self.context is None else self.context.part(x_BT)

    def inputs_of(
        self, ids_BT: Tensor, boundaries: Boundaries, structure: StructureTensors | None = None
    ) -> LayerInputs:
        """Compute the masks, rotations and chunks of a batch that all layers share."""
        read = self._read(ids_BT, structure)
        return self._inputs(ids_BT, boundaries, self.embedding.weight.dtype, read)

    def _read(self, ids_BT: Tensor, structure: StructureTensors | None) -> StructureTensors | None:
        """Return the structure that the model reads: None if it reads none, blanks if the batch has none."""
        if self.structure is None:
            return None
        return structure if structure is not None else StructureTensors.none(ids_BT)

    def _inputs(
        self,
        ids_BT: Tensor,
        boundaries: Boundaries,
        dtype: torch.dtype,
        structure: StructureTensors | None = None,
    ) -> LayerInputs:
        head_width = self.spec.width // self.spec.heads
        counted_BT = (
            boundaries.position_ids if boundaries.rotated_by is None else boundaries.rotated_by
        )
        cos, sin = rotation_of(self.part(counted_BT), head_width, self.rope_base)
        part, here, queries = None, boundaries, None
        if self.context is not None:
            part = RowPart.from_boundaries(boundaries, self.context, self.spec.conv_kernel - 1)
            here, queries = Boundaries.from_doc_ids(part.doc_ids), part.positions
        return LayerInputs(
            ids=ids_BT,
            boundaries=boundaries,
            rotation=(cos.to(dtype), sin.to(dtype)),
            attend=self.attend_within(boundaries, structure)
            if queries is None
            else self.attend_within(boundaries, structure, queries),
            chunks=Chunks.from_boundaries(here, self.spec.mamba.chunk)
            if "M" in self.spec.blocks
            else None,
            part=part,
        )


def _require_divisible(spec: ModelSpec) -> None:
    if spec.width % (2 * spec.heads) or spec.heads % spec.kv_heads:
        raise JobError(
            f"model {spec.name}",
            f"width {spec.width}, heads {spec.heads}, kv_heads {spec.kv_heads}",
            cause="width must be a multiple of 2 · heads, and heads a multiple of kv_heads",
            cure="Choose other values of width, heads or kv_heads",
        )


@torch.no_grad()
def initialise(decoder: Decoder, seed: int) -> Decoder:
    """Draw all weights of `decoder` from `seed`.

    Weights are normally distributed with deviation 0.02, which is divided by √depth for output projections.
    The structure weights are drawn last. Therefore, a model with structure draws the same other weights as
    one without.
    """
    generator = torch.Generator().manual_seed(seed)
    depth = math.sqrt(len(decoder.blocks))
    attached = {
        weight
        for module in decoder.modules()
        if isinstance(module, StructureEmbedding | RelationBias)
        for weight in module.parameters()
    }
    for name, weight in decoder.named_parameters():
        if weight in attached:
            continue
        if weight.ndim < 2:
            weight.fill_(1.0)
            continue
        deviation = 0.02 / depth if name.endswith("output.weight") else 0.02
        weight.copy_(torch.empty(weight.shape).normal_(0, deviation, generator=generator))
    for module in decoder.modules():
        if isinstance(module, OwnStart):
            module.start(generator)
    return decoder
