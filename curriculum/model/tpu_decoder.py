"""The decoder in JAX, with the weights of the torch decoder. Document masks are in tpu.py.

    inputs = inputs_of(rows, spec)                  # numpy, on the host, from packed rows
    x = embed(weights, inputs)                   # from here on inside of jax.jit and jax.grad
    x = hidden(weights, x, inputs, spec, rope_base=job.rope_base)
    loss = loss_sums(x, weights["head.weight"], inputs).total

`weights` are the tensors of a checkpoint's model.safetensors, by name. Shapes as in decoder.py and
hyper_connections.py: x_BTD; q_BHTK with H heads; streams x_BTND.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from curriculum.model.tpu import RowInputs, attend, masked_conv, scan_states
from schemas.errors import JobError
from schemas.job import ModelSpec

Weights = Mapping[str, jax.Array]


def embed(weights: Weights, inputs: RowInputs[jax.Array]) -> jax.Array:
    """Embed the ids as x_BTD."""
    return weights["embedding.weight"][inputs.ids]


def hidden(
    weights: Weights,
    x_BTD: jax.Array,
    inputs: RowInputs[jax.Array],
    spec: ModelSpec,
    *,
    rope_base: float,
) -> jax.Array:
    """Return the normalised stream before the head, like Decoder.hidden. Each phase has its own `rope_base`.

    Raises:
        JobError: for a model that reads structure.
    """
    if spec.structure:
        raise JobError(
            f"model {spec.name}",
            "structure_inputs",
            cause="relations between chunks bias the scores, and Splash doesn't support a bias",
            cure="Train a model without structure on TPUs: structure_inputs: false",
        )
    rotation = rotation_of(inputs.positions, spec.width // spec.heads, rope_base, x_BTD.dtype)
    given = TpuLayerInputs(rows=inputs, rotation=rotation, spec=spec)
    x = jnp.repeat(x_BTD[:, :, None], spec.streams, axis=2) if spec.streams > 1 else x_BTD
    for number, letter in enumerate(spec.blocks):
        x = block(_below(weights, f"blocks.{number}"), x, given, LAYERS[letter])
    return rms_norm(x.mean(2) if spec.streams > 1 else x, weights["norm.weight"])


def _below(weights: Weights, name: str) -> Weights:
    """Return the weights whose names begin with a prefix, without it.

    With the prefix `blocks.0`, `blocks.0.norm.weight` becomes `norm.weight`.
    """
    return {
        key.removeprefix(f"{name}."): value
        for key, value in weights.items()
        if key.startswith(f"{name}.")
    }


Rotation = tuple[jax.Array, jax.Array]


@dataclass(frozen=True, kw_only=True, slots=True)
class TpuLayerInputs:
    """Inputs from a batch that all layers share."""

    rows: RowInputs[jax.Array]
    rotation: Rotation
    spec: ModelSpec


def rotation_of(positions_BT: jax.Array, head_width: int, base: float, dtype: Any) -> Rotation:
    """Return cos and sin for each position, [B, 1, T, head_width / 2], from a float64 table on the host."""
    exponents = np.arange(0, head_width, 2) / head_width
    angles_TK = np.arange(positions_BT.shape[1])[:, None] * base**-exponents
    cos, sin = (
        jnp.asarray(table, dtype)[positions_BT] for table in (np.cos(angles_TK), np.sin(angles_TK))
    )
    return cos[:, None], sin[:, None]


def rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Return x / rms(x) · weight. The mean square is computed in at least float32."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    normalised = wide * lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
    return normalised.astype(x.dtype) * weight


Layer = Callable[[Weights, jax.Array, TpuLayerInputs], jax.Array]


def block(weights: Weights, x: jax.Array, inputs: TpuLayerInputs, layer: Layer) -> jax.Array:
    """Apply one layer to its normalised input, and add the result to the residual stream or streams."""

    def out_of(read_BTD: jax.Array) -> jax.Array:
        return layer(_below(weights, "layer"), rms_norm(read_BTD, weights["norm.weight"]), inputs)

    if inputs.spec.streams == 1:
        return x + out_of(x)
    read_BTN, write_BTN, mix_BTMN = mixing(_below(weights, "connection"), x)
    out_BTD = out_of(jnp.einsum("btn,btnd->btd", read_BTN.astype(x.dtype), x))
    mixed_BTND = jnp.einsum("btmn,btnd->btmd", mix_BTMN.astype(x.dtype), x)
    return mixed_BTND + write_BTN[..., None].astype(x.dtype) * out_BTD[:, :, None]


def attention(weights: Weights, x_BTD: jax.Array, inputs: TpuLayerInputs) -> jax.Array:
    """Apply attention, x_BTD -> x_BTD; see decoder.Attention."""
    head_width = inputs.spec.width // inputs.spec.heads

    def heads(name: str) -> jax.Array:
        x = linear(x_BTD, weights[f"{name}.weight"])
        return x.reshape(*x.shape[:2], -1, head_width).swapaxes(1, 2)

    v_BGTK = heads("value")
    q_BHTK, k_BGTK = (
        rotate(rms_norm(heads(name), weights[f"{name}_norm.weight"]), inputs.rotation).astype(
            v_BGTK.dtype
        )
        for name in ("query", "key")
    )
    out_BHTK = attend(q_BHTK, k_BGTK, v_BGTK, inputs.rows.segments, softcap=inputs.spec.softcap)
    out_BTD = out_BHTK.swapaxes(1, 2).reshape(*x_BTD.shape[:2], -1)
    return linear(out_BTD, weights["output.weight"])


def rotate(x_BHTK: jax.Array, rotation: Rotation) -> jax.Array:
    """Rotate each pair (x[i], x[i + K/2]) by the angle of its position."""
    cos, sin = rotation
    left, right = jnp.split(x_BHTK, 2, axis=-1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def linear(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Return x · weightᵀ. The weight has the layout of torch's nn.Linear."""
    return x @ weight.T


def mamba(weights: Weights, x_BTD: jax.Array, inputs: TpuLayerInputs) -> jax.Array:
    """Apply Mamba-2, x_BTD -> x_BTD; see mamba.Mamba."""
    spec = inputs.spec
    inner, state = spec.mamba.expand * spec.width, spec.mamba.state
    projected = linear(x_BTD, weights["input.weight"])
    z_BTI, mixed_BTC, step_BTH = jnp.split(projected, [inner, 2 * (inner + state)], axis=-1)
    mixed_BTC = jax.nn.silu(
        masked_conv(mixed_BTC, weights["kernel"], inputs.rows.positions) + weights["shift"]
    )
    wide = jnp.promote_types(x_BTD.dtype, jnp.float32)
    x_BTI, b_BTE, c_BTE = jnp.split(mixed_BTC.astype(wide), [inner, inner + state], axis=-1)
    x_BTHP = x_BTI.reshape(*x_BTD.shape[:2], -1, spec.mamba.head_width)
    y_BTHP = scan_states(
        x_BTHP, step_BTH.astype(wide) + weights["step"].astype(wide),
        -jnp.exp(weights["log_rate"].astype(wide)), b_BTE, c_BTE, inputs.rows.resets,
        chunk=spec.mamba.chunk,
    )  # fmt: skip
    y_BTHP += weights["skip"].astype(wide)[:, None] * x_BTHP
    gated_BTI = y_BTHP.astype(x_BTD.dtype).reshape(z_BTI.shape) * jax.nn.silu(z_BTI)
    return linear(rms_norm(gated_BTI, weights["norm.weight"]), weights["output.weight"])


def convolution(weights: Weights, x_BTD: jax.Array, inputs: TpuLayerInputs) -> jax.Array:
    """Apply the gated convolution, x_BTD -> x_BTD; see conv.ConvMixer."""
    before, after, value = jnp.split(linear(x_BTD, weights["input.weight"]), 3, axis=-1)
    mixed_BTD = masked_conv(before * value, weights["taps_DK"], inputs.rows.positions)
    return linear(after * mixed_BTD, weights["output.weight"])


def engram(weights: Weights, x_BTD: jax.Array, inputs: TpuLayerInputs) -> jax.Array:
    """Apply the n-gram memory, x_BTD -> x_BTD; see engram.Engram. Blank n-grams read exactly 0."""
    slots_BTH = inputs.rows.slots
    rows_BTHE = weights["table.weight"][jnp.maximum(slots_BTH, 0)]
    memory_BTE = jnp.where(slots_BTH[..., None] >= 0, rows_BTHE, 0).reshape(*x_BTD.shape[:2], -1)
    key_BTD = rms_norm(linear(memory_BTE, weights["key.weight"]), weights["key_norm.weight"])
    match_BT1 = (x_BTD * key_BTD).sum(-1, keepdims=True)
    gate_BT1 = jax.nn.sigmoid(match_BT1 * x_BTD.shape[-1] ** -0.5)
    value_BTD = gate_BT1 * linear(memory_BTE, weights["value.weight"])
    normalised = rms_norm(value_BTD, weights["value_norm.weight"])
    return value_BTD + jax.nn.silu(
        masked_conv(normalised, weights["taps_DK"], inputs.rows.positions)
    )


def feed_forward(weights: Weights, x_BTD: jax.Array, inputs: TpuLayerInputs) -> jax.Array:
    """Apply SwiGLU to every token, x_BTD -> x_BTD; see decoder.MLP."""
    gate, up = (linear(x_BTD, weights[f"{name}.weight"]) for name in ("gate", "up"))
    return linear(jax.nn.silu(gate) * up, weights["output.weight"])


LAYERS: dict[str, Layer] = {
    "A": attention,
    "C": convolution,
    "E": engram,
    "F": feed_forward,
    "M": mamba,
}


ITERATIONS = 10
MIN_ENTRY = 1e-12


def mixing(weights: Weights, x_BTND: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return read_BTN, write_BTN and mix_BTMN of every token; see HyperConnection.weights."""
    B, T, N, _ = x_BTND.shape
    wide = jnp.promote_types(x_BTND.dtype, jnp.float32)
    features_BTF = x_BTND.reshape(B, T, -1).astype(wide)
    norm_BT1 = lax.rsqrt(jnp.mean(features_BTF**2, axis=-1, keepdims=True) + 1e-6)
    dynamic_BTE = linear(features_BTF, weights["dynamic_EF"].astype(wide)) * norm_BT1
    gains_E = jnp.repeat(
        weights["gains_3"], np.array([N, N, N * N]), total_repeat_length=N * (N + 2)
    )
    logits_BTE = weights["static_E"] + dynamic_BTE * gains_E
    read, write, mix = jnp.split(logits_BTE, [N, 2 * N], axis=-1)
    return (
        jax.nn.sigmoid(read),
        2 * jax.nn.sigmoid(write),
        doubly_stochastic(mix.reshape(B, T, N, N)),
    )


def doubly_stochastic(logits: jax.Array) -> jax.Array:
    """Return doubly stochastic matrices [..., N, N]; see hyper_connections.doubly_stochastic."""
    K = jnp.exp(logits - lax.stop_gradient(logits.max(-1, keepdims=True)))
    K = jnp.where(K >= MIN_ENTRY, K, MIN_ENTRY)
    columns = jnp.ones_like(K[..., :1, :])
    for _ in range(ITERATIONS):
        rows = 1 / (K * columns).sum(-1, keepdims=True)
        columns = 1 / (K * rows).sum(-2, keepdims=True)
    P = K * columns / (K * columns).sum(-1, keepdims=True)
    sums = P.sum(-2, keepdims=True)
    P = P / jnp.where(sums >= 1, sums, 1)
    lacking_rows, lacking_columns = (_lacking(P.sum(axis, keepdims=True)) for axis in (-1, -2))
    total = lacking_columns.sum(-1, keepdims=True)
    return P + lacking_rows * lacking_columns / jnp.where(total >= MIN_ENTRY, total, MIN_ENTRY)


def _lacking(sums: jax.Array) -> jax.Array:
    return jnp.where(sums <= 1, 1 - sums, 0)
