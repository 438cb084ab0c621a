"""Operators and decoders in JAX beside their torch twins, on equal inputs and weights: how far they differ.

For test_tpu.py, which calls these by name in a process of their own.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
import torch
from jax import numpy as jnp
from torch import Tensor

from curriculum.leakcheck.subject import doc_ids_of, spread_constant_weights
from curriculum.model import dense_backends, engram, loss, mamba, tpu, tpu_decoder
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.masks import Boundaries, Chunks
from curriculum.model.n_gram_tables import tables
from curriculum.model.presets import model_spec
from curriculum.model.tpu import RowInputs
from schemas.job import EngramSpec, MambaSpec, ModelSpec
from tests.jax_process import Apart

Array = npt.NDArray[Any]
LAYOUTS = ((1, 2, 61, 64, 1, 127), (63, 66, 62, 65), (256,), (3, 125, 100, 28))
"""Documents of rows of 256: of 1 to 256 tokens, some begin at edges of blocks and chunks, or beside."""
T = 256
H, G, K = 2, 1, 128
ROPE = 10_000.0


def share(ours: Any, theirs: Tensor | None) -> float:
    assert theirs is not None
    far = np.abs(np.asarray(ours, dtype=np.float64) - theirs.detach().double().numpy()).max()
    return float(far / max(float(theirs.detach().abs().max()), 1e-300))


def rows(seed: int = 0, vocab_size: int = 97) -> Any:
    """Columns of packed rows as the reader gives them; the last of a document isn't scored."""
    doc_ids = doc_ids_of(LAYOUTS).numpy()
    ids = np.random.default_rng(seed).integers(0, vocab_size, doc_ids.shape).astype(np.int32)
    targets = np.roll(ids, -1, axis=1)
    mask = np.pad(doc_ids[:, 1:] == doc_ids[:, :-1], ((0, 0), (0, 1))).astype(np.uint8)
    mask[2, 50:90] = 0
    return SimpleNamespace(
        input_ids=ids, target_ids=np.where(mask == 1, targets, 0), loss_mask=mask, doc_ids=doc_ids
    )


BOUNDARIES = Boundaries.from_doc_ids(doc_ids_of(LAYOUTS))


def inputs(spec: ModelSpec | None = None) -> RowInputs[Array]:
    return tpu.inputs_of(rows(), spec or model_spec("attention-tiny", 97))


def numbers(*shape: int, seed: int, dtype: str) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def compared(
    ours: Callable[..., Any], theirs: Callable[..., Tensor], given: Sequence[Array], weight: Array
) -> Apart:
    """Outputs, and gradients of Σ weight · outputs by everything given, also of one document alone."""
    leaves = [torch.from_numpy(each).requires_grad_() for each in given]
    expected = theirs(*leaves)
    (expected * torch.from_numpy(weight)).sum().backward()  # type: ignore[no-untyped-call]

    def weighted(weight: Any, *arrays: Any) -> tuple[Any, Any]:
        out = ours(*arrays)
        return (out * weight).sum(), out

    places = tuple(range(1, len(given) + 1))
    step = jax.jit(jax.value_and_grad(weighted, argnums=places, has_aux=True))
    (_, out), gradients = step(weight, *given)
    assert out.dtype == given[0].dtype
    far = max(share(one, two.grad) for one, two in zip(gradients, leaves, strict=True))
    _, one_sided = step(np.where(_witness(weight), weight, 0), *given)
    elsewhere = [
        np.where(_witness(each), 0, each) for each in map(np.asarray, one_sided) if T in each.shape
    ]
    assert len(elsewhere) >= len(given) - 1
    assert all(np.asarray(each).any() for each in one_sided)
    return Apart(
        outputs=share(out, expected),
        gradients=far,
        across=max(float(np.abs(each).max()) for each in elsewhere),
    )


def _witness(x: Array) -> npt.NDArray[np.bool_]:
    """Positions of the second document of a row, or the only one, in an array with an axis of T."""
    last = BOUNDARIES.doc_ids.numpy()[:, -1:]
    is_witness: npt.NDArray[Any] = BOUNDARIES.doc_ids.numpy() == np.minimum(last, 1)
    axis = x.shape.index(T)
    return is_witness.reshape(
        [len(LAYOUTS) if at == 0 else T if at == axis else 1 for at in range(x.ndim)]
    )


def attention(softcap: float | None, block: int) -> Apart:
    q, k, v, weight = (
        numbers(len(LAYOUTS), heads, T, K, seed=seed, dtype="float32")
        for seed, heads in enumerate((H, G, G, H))
    )
    segments = inputs().segments
    attend = dense_backends.math_attend(softcap, BOUNDARIES)
    return compared(
        lambda q, k, v: tpu.attend(q, k, v, jnp.asarray(segments), softcap=softcap, block=block),
        attend,
        (3 * q, k, v),
        weight,
    )


def scan(dtype: str, chunk: int) -> Apart:
    B, heads, P, E = len(LAYOUTS), 3, 4, 5
    x, step, rate, b, c, weight = (
        numbers(*shape, seed=seed, dtype=dtype)
        for seed, shape in enumerate(
            ((B, T, heads, P), (B, T, heads), (heads,), (B, T, E), (B, T, E), (B, T, heads, P))
        )
    )
    resets = inputs().resets

    def theirs(x: Tensor, step: Tensor, rate: Tensor, b: Tensor, c: Tensor) -> Tensor:
        x_NHP, step_NH, b_NE, c_NE = (each.flatten(0, 1) for each in (x, step, b, c))
        chunks = Chunks.from_boundaries(BOUNDARIES, chunk)
        return mamba.scan_states(x_NHP, step_NH, -rate.exp(), b_NE, c_NE, chunks).view(x.shape)

    with jax.enable_x64(dtype == "float64"):
        return compared(
            lambda x, step, rate, b, c: tpu.scan_states(
                x, step, -jnp.exp(rate), b, c, jnp.asarray(resets), chunk=chunk
            ),
            theirs,
            (x, step - 2, rate, b, c),
            weight,
        )


def decoder(blocks: str, dtype: str, streams: int = 1, softcap: float | None = None) -> Apart:
    spec = small(blocks, streams=streams, softcap=softcap)
    wide = getattr(torch, dtype)
    model = initialise(Decoder(spec, "math"), 0).to(wide)
    spread_constant_weights(model)
    model.rope_base = ROPE
    found, columns = inputs(spec), rows()
    tensors = dict(model.named_parameters())
    sums = loss.loss_sums(
        hidden := model.hidden(torch.from_numpy(found.ids), BOUNDARIES),
        model.head.weight,
        torch.from_numpy(columns.target_ids),
        torch.from_numpy(columns.loss_mask),
        z_weight=0.1,
    )
    sums.total.backward()  # type: ignore[no-untyped-call]

    def total(weights: Any, found: Any) -> tuple[Any, Any]:
        x = tpu_decoder.embed(weights, found)
        x = tpu_decoder.hidden(weights, x, found, spec, rope_base=ROPE)
        return tpu.loss_sums(x, weights["head.weight"], found, z_weight=0.1).total, x

    with jax.enable_x64(dtype == "float64"):
        weights = {name: jnp.asarray(each.detach().numpy()) for name, each in tensors.items()}
        step = jax.jit(jax.value_and_grad(total, has_aux=True))
        (value, x), gradients = step(weights, found)
        assert x.dtype == dtype
        far = {name: share(gradients[name], each.grad) for name, each in tensors.items()}
        assert set(far) == set(gradients)
        return Apart(
            outputs=max(share(x, hidden), share(value, sums.total)), gradients=max(far.values())
        )


def small(blocks: str, *, streams: int = 1, softcap: float | None = None) -> ModelSpec:
    return ModelSpec(
        name="small", vocab_size=97, blocks=blocks, width=32, heads=2, kv_heads=1, mlp_width=48,
        streams=streams, softcap=softcap,
        mamba=MambaSpec(state=16, head_width=16, expand=1, chunk=64),
        engram=EngramSpec(orders=(2, 3), heads=2, slots=53, slot_width=8),
    )  # fmt: skip


def masks() -> dict[str, bool]:
    """Inputs beside what torch derives from the same rows."""
    spec = small("E")
    found, columns = inputs(spec), rows()
    slots = engram.n_gram_slots(torch.from_numpy(found.ids), BOUNDARIES, tables(spec.engram))
    starts = (BOUNDARIES.position_ids == 0).numpy()
    return {
        "segments": np.array_equal(found.segments, BOUNDARIES.doc_ids),
        "positions": np.array_equal(found.positions, BOUNDARIES.position_ids),
        "resets": np.array_equal(found.resets, starts),
        "slots": np.array_equal(found.slots, slots),
        "loss mask": np.array_equal(found.loss_mask, columns.loss_mask == 1),
    }


def recurring() -> None:
    columns = rows()
    columns.doc_ids = columns.doc_ids.copy()
    columns.doc_ids[1, -5:] = 0
    tpu.inputs_of(columns, small("A"))


def in_float64() -> None:
    with jax.enable_x64(True):
        x = jnp.zeros((1, 1, 128, 8), jnp.float64)
        tpu.attend(x, x, x, jnp.zeros((1, 128), jnp.int32))


def uneven_row() -> None:
    x = jnp.zeros((1, 1, 200, 8), jnp.float32)
    tpu.attend(x, x, x, jnp.zeros((1, 200), jnp.int32))


def with_structure() -> None:
    spec = small("A").model_copy(update={"structure": True})
    found: Any = inputs()
    tpu_decoder.hidden({}, jnp.zeros((4, T, 32)), found, spec, rope_base=ROPE)


def imported_again(module: str, version: str) -> None:
    """Import tpu.py under another name where JAX has that version, and lacks a module."""
    patched = pytest.MonkeyPatch()
    with patched.context() as patch:
        patch.setattr(jax, "__version__", version)
        patch.setattr(jax, "__version_info__", tuple(map(int, version.split("."))))
        patch.setitem(sys.modules, module, None)
        where = importlib.util.spec_from_file_location("tpu_again", tpu.__file__)
        assert where is not None
        assert where.loader is not None
        where.loader.exec_module(importlib.util.module_from_spec(where))
