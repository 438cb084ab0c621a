"""Document masks in JAX, for TPUs: inputs from packed rows, and all operators that mix positions.

Attention uses Splash, a Pallas kernel, with documents as segments; on a CPU the kernel is interpreted.
The state-space scan has chunks of fixed size, since shapes must not depend on documents. States are set
to 0 where a document begins, and decays between documents are 0. The host hashes n-grams, since this
needs 64-bit integers, which TPUs don't have. tpu_decoder.py builds a model from these operators and the
torch model's weights.

Shapes as in decoder.py and mamba.py: x_BTD; q_BHTK, k_BGTK, v_BGTK; x_BTHP, b_BTE, with q positions of a
chunk.
"""

import math
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from curriculum.model.n_gram_tables import BLANK, Table, tables
from schemas.cures import install_command
from schemas.errors import JobError, SchemaError
from schemas.job import ModelSpec

MIN_JAX = (0, 10)


def _required(cause: str, version: str = "") -> JobError:
    return JobError(
        "curriculum.model.tpu",
        f"jax {version}" if version else "jax",
        cause=f"{cause}; TPU models need jax {'.'.join(map(str, MIN_JAX))} or later with the experimental "
        "Splash kernel, which may move between versions (tested: 0.10.2)",
        cure=f"{install_command('curriculum[jax]')}; on a TPU {install_command('jax[tpu]==0.10.2')}",
    )


try:
    import jax
except ImportError as missing:
    raise _required(f"jax can't be imported: {missing}") from missing
if jax.__version_info__ < MIN_JAX:
    raise _required("the version is too old", jax.__version__)
try:
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        BlockSizes,
        CausalMask,
        MultiHeadMask,
        SegmentIds,
        make_splash_mha_single_device,
    )
except ImportError as moved:
    raise _required(f"Splash can't be imported: {moved}", jax.__version__) from moved
from jax import lax  # noqa: E402 - after the guard
from jax import numpy as jnp  # noqa: E402

A = TypeVar("A", jax.Array, npt.NDArray[Any])


class PackedRows(Protocol):
    """Columns of packed rows, [T] or [B, T].

    Examples are a Row of the loader and a RowBatch of the reader.
    """

    @property
    def input_ids(self) -> npt.NDArray[np.int32]:
        """Token ids."""

    @property
    def target_ids(self) -> npt.NDArray[np.int32]:
        """Target token ids."""

    @property
    def loss_mask(self) -> npt.NDArray[np.uint8]:
        """1 where the prediction counts in the loss."""

    @property
    def doc_ids(self) -> npt.NDArray[np.int32]:
        """Document numbers. Padding has the number of the last document."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True, slots=True)
class RowInputs(Generic[A]):
    """Inputs of a model from packed rows, [B, T]: a pytree of numpy arrays, or JAX arrays inside a step."""

    ids: A
    targets: A
    loss_mask: A
    """True where the prediction counts in the loss."""
    segments: A
    """Document number of each position, for attention. Padding has the number of the last document."""
    positions: A
    """Positions within documents, for rotations and for the reach of convolutions."""
    resets: A
    """True where a document begins, so that states are set to 0."""
    slots: A
    """Row in each n-gram table, [B, T, tables]. BLANK if the n-gram would cross the start of a document."""


def inputs_of(rows: PackedRows, spec: ModelSpec) -> RowInputs[npt.NDArray[Any]]:
    """Build the inputs from packed rows; all document masks are derived from doc_ids here.

    Documents [5 6 7] and [8 9]:

    >>> from types import SimpleNamespace as Columns
    >>> from curriculum.model.presets import model_spec
    >>> row = Columns(input_ids=np.array([5, 6, 7, 8, 9]), target_ids=np.array([6, 7, 0, 9, 0]),
    ...               loss_mask=np.array([1, 1, 0, 1, 0]), doc_ids=np.array([0, 0, 0, 1, 1]))
    >>> found = inputs_of(row, model_spec("attention-tiny", 10))
    >>> found.segments.tolist(), found.positions.tolist()
    ([0, 0, 0, 1, 1], [0, 1, 2, 0, 1])
    >>> found.resets.tolist(), found.loss_mask.tolist()
    ([True, False, False, True, False], [True, True, False, True, False])
    >>> found.ids.tolist(), found.targets.tolist()
    ([5, 6, 7, 8, 9], [6, 7, 0, 9, 0])

    Raises:
        SchemaError: if doc_ids decrease within a row.
    """
    segments = np.asarray(rows.doc_ids, dtype=np.int32)
    if (np.diff(segments, axis=-1) < 0).any():
        raise SchemaError(
            "doc_ids",
            cause="doc_ids must not decrease within a row: documents are contiguous, and every document "
            "has its own id",
            cure="Build the rows again",
        )
    ids = np.asarray(rows.input_ids, dtype=np.int32)
    resets = np.diff(segments, axis=-1, prepend=segments[..., :1] - 1) != 0
    places = np.arange(segments.shape[-1], dtype=np.int32)
    positions = places - np.maximum.accumulate(np.where(resets, places, 0), axis=-1)
    hashes = tables(spec.engram) if "E" in spec.blocks else ()
    return RowInputs(
        ids=ids,
        targets=np.asarray(rows.target_ids, dtype=np.int32),
        loss_mask=np.asarray(rows.loss_mask, dtype=np.bool_),
        segments=segments,
        positions=positions,
        resets=resets,
        slots=n_gram_slots(ids, positions, hashes),
    )


def n_gram_slots(
    ids: npt.NDArray[np.int32], positions: npt.NDArray[np.int32], hashes: tuple[Table, ...]
) -> npt.NDArray[np.int32]:
    """Return the table rows of the n-grams that end at each token, like engram.n_gram_slots."""
    found = np.full((*ids.shape, len(hashes)), BLANK, dtype=np.int32)
    wide = ids.astype(np.int64)
    for number, table in enumerate(hashes):
        mixed = np.zeros_like(wide)
        for k, multiplier in enumerate(table.multipliers[: wide.shape[-1]]):
            mixed[..., k:] ^= wide[..., : wide.shape[-1] - k] * multiplier
        whole = positions >= len(table.multipliers) - 1
        found[..., number] = np.where(whole, mixed % table.size + table.offset, BLANK)
    return found


BLOCKS = (512, 256, 128)
"""Block sizes of Splash in positions. The first size that divides the row length is used."""


def attend(
    q_BHTK: jax.Array,
    k_BGTK: jax.Array,
    v_BGTK: jax.Array,
    segments_BT: jax.Array,
    *,
    softcap: float | None = None,
    block: int | None = None,
) -> jax.Array:
    """Compute causal attention within segments with Splash. It is compiled on TPUs and interpreted on CPUs.

    The result is out_BHTK.

    Raises:
        JobError: for float64, or a device that is neither TPU nor CPU.
        SchemaError: if no block size divides the row length.
    """
    _, H, T, K = q_BHTK.shape
    n = block or next((size for size in BLOCKS if T % size == 0), 0)
    if not n:
        raise SchemaError(
            "row_length",
            T,
            cause=f"Splash needs a multiple of {BLOCKS[-1]} tokens",
            cure="Pad the rows",
        )
    kernel = make_splash_mha_single_device(
        MultiHeadMask([CausalMask((T, T))] * H),
        block_sizes=BlockSizes(
            block_q=n, block_kv=n, block_kv_compute=n,
            block_q_dkv=n, block_kv_dkv=n, block_kv_dkv_compute=n, block_q_dq=n, block_kv_dq=n,
        ),
        attn_logits_soft_cap=softcap,
        interpret=_is_interpreted(q_BHTK),
    )  # fmt: skip

    def attend_row(q: jax.Array, k: jax.Array, v: jax.Array, segments_T: jax.Array) -> jax.Array:
        out: jax.Array = kernel(q, k, v, SegmentIds(q=segments_T, kv=segments_T))
        return out

    return jax.vmap(attend_row)(q_BHTK * K**-0.5, k_BGTK, v_BGTK, segments_BT)


def _is_interpreted(x: jax.Array) -> bool:
    device = jax.default_backend()
    if x.dtype == jnp.float64 or device not in ("tpu", "cpu"):
        raise JobError(
            "attention by Splash",
            f"{x.dtype} on {device}",
            cause="Splash supports at most float32, and only TPUs, or CPUs by interpretation",
            cure="Pass float32 or bfloat16, and run on a TPU or a CPU",
        )
    return device == "cpu"


def masked_conv(x_BTC: jax.Array, weight_CK: jax.Array, positions_BT: jax.Array) -> jax.Array:
    """Compute y_BTC[t] = Σ_k weight_CK[:, k] · x_BTC[t - k] over all k for which t - k is in t's document."""
    T = x_BTC.shape[1]
    y_BTC = x_BTC * weight_CK[:, 0]
    for k in range(1, min(weight_CK.shape[1], T)):
        shifted_BTC = jnp.pad(x_BTC[:, : T - k], ((0, 0), (k, 0), (0, 0)))
        y_BTC += jnp.where(reaches_back(positions_BT, k), shifted_BTC, 0) * weight_CK[:, k]
    return y_BTC


def reaches_back(positions_BT: jax.Array, k: int) -> jax.Array:
    """Return a mask [B, T, 1] of the positions that are at least k after the start of their document."""
    return positions_BT[..., None] >= k


def scan_states(
    x_BTHP: jax.Array,
    step_BTH: jax.Array,
    rate_H: jax.Array,
    b_BTE: jax.Array,
    c_BTE: jax.Array,
    resets_BT: jax.Array,
    *,
    chunk: int,
) -> jax.Array:
    """Compute y = h · c of Mamba's recurrence h[t] = exp(dt[t] · rate) · h[t-1] + dt[t] · x[t] ⊗ b[t].

    The result y_BTHP equals that of mamba.scan_states. h is set to 0 at every reset. Chunks are scanned one
    after the other and computed again in backward. Only the states that enter the chunks are saved.
    """
    B, T, H, P = x_BTHP.shape
    padding = -T % chunk

    def chunks(x: jax.Array, blank: float = 0) -> jax.Array:
        widths = ((0, 0), (0, padding), *(((0, 0),) * (x.ndim - 2)))
        padded = jnp.pad(x, widths, constant_values=blank)
        return jnp.moveaxis(padded.reshape(B, -1, chunk, *x.shape[2:]), 1, 0)

    dt_BTH = jax.nn.softplus(step_BTH)
    start_BHPE = jnp.zeros((B, H, P, b_BTE.shape[-1]), x_BTHP.dtype)
    parts = (x_BTHP * dt_BTH[..., None], dt_BTH * rate_H, b_BTE, c_BTE, resets_BT)
    _, y_nBqHP = lax.scan(jax.checkpoint(_walk), start_BHPE, tuple(map(chunks, parts)))
    return jnp.moveaxis(y_nBqHP, 0, 1).reshape(B, -1, H, P)[:, :T]


def _walk(entering_BHPE: jax.Array, chunk: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    """Scan one chunk; return the state that leaves it and its outputs y_BqHP."""
    u_BqHP, log_BqH, b_BqE, c_BqE, resets_Bq = chunk
    log_BHq = jnp.swapaxes(log_BqH, 1, 2)
    same_Bkq, enters_Bq = chunk_masks(resets_Bq)
    decays_BHkq = _decays_between(log_BHq, same_Bkq[:, None])
    scores_Bkq = jnp.einsum("bke,bqe->bkq", b_BqE, c_BqE)
    near_BqHP = jnp.einsum("bhkq,bkhp->bqhp", decays_BHkq * scores_Bkq[:, None], u_BqHP)

    kept_BHq = _masked_exp(jnp.cumsum(log_BHq, axis=-1), enters_Bq[:, None])
    far_BqHP = jnp.einsum("bqe,bhpe,bhq->bqhp", c_BqE, entering_BHPE, kept_BHq)
    left_BHPE = jnp.einsum("bhk,bkhp,bke->bhpe", decays_BHkq[..., -1], u_BqHP, b_BqE)
    return kept_BHq[..., -1, None, None] * entering_BHPE + left_BHPE, near_BqHP + far_BqHP


def chunk_masks(resets_Bq: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the keys k that each q sees, [B, k, q], and the q that the entering state reaches, [B, q].

    Both are masks. Resets [0 0 1] -> [[1 1 0] [0 1 0] [0 0 1]], [1 1 0].
    """
    number_Bq = jnp.cumsum(resets_Bq, axis=-1)
    past_kq = jnp.triu(jnp.ones((resets_Bq.shape[1],) * 2, dtype=bool))
    same_Bkq = number_Bq[:, :, None] == number_Bq[:, None]
    return same_Bkq & past_kq, number_Bq == 0


def _decays_between(log_BHq: jax.Array, same_B1kq: jax.Array) -> jax.Array:
    """Compute the decay from position k to position q, [B, H, k, q], like mamba.decays_between."""
    later_kq = jnp.triu(jnp.ones((log_BHq.shape[-1],) * 2, dtype=bool), 1)
    sums_BHkq = jnp.cumsum(jnp.where(later_kq, log_BHq[..., None, :], 0), axis=-1)
    return _masked_exp(sums_BHkq, same_B1kq)


def _masked_exp(x: jax.Array, mask: jax.Array) -> jax.Array:
    """Return exp(x) where the mask is True and 0 elsewhere. Gradients stay finite."""
    return jnp.where(mask, jnp.exp(jnp.where(mask, x, 0)), 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TpuLossSums:
    """Sums of the loss over scored targets, in nats.

    Divide them by the number of targets in the global batch.
    """

    total: jax.Array
    """Σ nll + z_weight · Σ z."""
    nll: jax.Array
    """Cross-entropy of each target, [B, T]; 0 where the target isn't scored."""
    z: jax.Array
    """Squared log of each softmax normaliser, [B, T], without z_weight; 0 where the target isn't scored."""


LOSS_CHUNK = 1024
"""Maximum number of positions whose logits are in memory at once. Backward computes the logits again."""


def loss_sums(
    x_BTD: jax.Array, head_VD: jax.Array, inputs: RowInputs[jax.Array], *, z_weight: float = 0.0
) -> TpuLossSums:
    """Compute cross-entropy and z-loss over the scored targets. All other positions add exactly 0."""
    B, T, D = x_BTD.shape
    n = math.gcd(B * T, LOSS_CHUNK)

    def of_chunk(chunk: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        x_cD, targets_c, mask_c = chunk
        logits_cV = x_cD @ head_VD.T
        logits_cV = logits_cV.astype(jnp.promote_types(logits_cV.dtype, jnp.float32))
        normaliser_c = jax.nn.logsumexp(logits_cV, axis=-1)
        nll_c = normaliser_c - jnp.take_along_axis(logits_cV, targets_c[:, None], axis=-1)[:, 0]
        return jnp.where(mask_c, nll_c, 0), jnp.where(mask_c, normaliser_c**2, 0)

    chunks = (
        x_BTD.reshape(-1, n, D),
        inputs.targets.reshape(-1, n),
        inputs.loss_mask.reshape(-1, n),
    )
    nll, z = (values.reshape(B, T) for values in lax.map(jax.checkpoint(of_chunk), chunks))
    return TpuLossSums(total=nll.sum() + z_weight * z.sum(), nll=nll, z=z)
