"""Named model sizes, with a learning rate and a step size for each."""

from dataclasses import dataclass, field, replace

from schemas.errors import JobError
from schemas.job import EngramSpec, MambaSpec, ModelSpec
from schemas.mistakes import nearest_of_all


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """Size of a decoder, with training settings that fit. Tokens are counted as row positions."""

    blocks: str
    width: int
    heads: int
    kv_heads: int
    mlp_width: int
    learning_rate: float
    tokens_per_step: int
    warmup_steps: int
    micro_positions: int
    streams: int = 1
    mamba: MambaSpec = field(default_factory=MambaSpec)
    engram: EngramSpec = field(default_factory=EngramSpec)

    def attention_only(self, blocks: str) -> "Preset":
        """Return the preset with attention instead of all other mixers in `blocks`."""
        return replace(self, blocks=blocks, streams=1, mamba=MambaSpec(), engram=EngramSpec())


TINY = Preset(
    blocks="EMFMFAFMF",
    width=128,
    heads=4,
    kv_heads=2,
    mlp_width=384,
    learning_rate=3e-3,
    tokens_per_step=4096,
    warmup_steps=20,
    micro_positions=4096,
    streams=2,
    mamba=MambaSpec(state=32),
    engram=EngramSpec(slots=1024, slot_width=16),
)
SMALL = Preset(
    blocks="E" + "MFMFMFAF" * 2,
    width=512,
    heads=8,
    kv_heads=4,
    mlp_width=1408,
    learning_rate=1e-3,
    tokens_per_step=1 << 18,
    warmup_steps=200,
    micro_positions=1 << 16,
    streams=2,
    mamba=MambaSpec(state=128),
    engram=EngramSpec(slots=1 << 13),
)
MEDIUM = Preset(
    blocks="E" + "MFMFMFAF" * 4,
    width=1024,
    heads=16,
    kv_heads=4,
    mlp_width=2816,
    learning_rate=6e-4,
    tokens_per_step=1 << 19,
    warmup_steps=500,
    micro_positions=1 << 16,
    streams=2,
    mamba=MambaSpec(state=128),
    engram=EngramSpec(slots=1 << 15),
)
LARGE = Preset(
    blocks="E" + "MFMFMFAF" * 4,
    width=2048,
    heads=16,
    kv_heads=4,
    mlp_width=5632,
    learning_rate=4e-4,
    tokens_per_step=1 << 20,
    warmup_steps=1000,
    micro_positions=1 << 16,
    streams=2,
    mamba=MambaSpec(state=128),
    engram=EngramSpec(slots=1 << 16),
)
PRESETS: dict[str, Preset] = {
    "tiny": TINY,
    "60m": SMALL,
    "300m": MEDIUM,
    "1b": LARGE,
    "attention-tiny": TINY.attention_only("AF" * 4),
    "attention-60m": SMALL.attention_only("AF" * 10),
    "attention-300m": MEDIUM.attention_only("AF" * 20),
    "attention-1b": LARGE.attention_only("AF" * 20),
}
"""Presets by name. The names give the approximate number of weights with 32,768 ids.

Hybrid models begin with an Engram layer, use attention for one in three or four mixers, and mix two residual
streams.
"""


def preset(name: str) -> Preset:
    """Return the preset with the given name.

    Raises:
        JobError: for an unknown name; suggests the closest known name.
    """
    if name in PRESETS:
        return PRESETS[name]
    raise JobError(
        "model", name, cause="no preset has this name", cure=nearest_of_all(name, PRESETS)
    )


def model_spec(name: str, vocab_size: int, *, softcap: float | None = None) -> ModelSpec:
    """Return the model of the preset `name` with a vocabulary of `vocab_size` ids."""
    size = preset(name)
    return ModelSpec(
        name=name,
        vocab_size=vocab_size,
        blocks=size.blocks,
        width=size.width,
        heads=size.heads,
        kv_heads=size.kv_heads,
        mlp_width=size.mlp_width,
        softcap=softcap,
        streams=size.streams,
        mamba=size.mamba,
        engram=size.engram,
    )
