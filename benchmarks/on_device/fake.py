"""Fake GPU tensors, which need no GPU: torch computes only their shapes, dtypes and devices."""

import ctypes
import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import flex_attention

from curriculum.model import flex_backend
from curriculum.model.backends import attention
from curriculum.model.decoder import DEFAULT_ROPE_BASE, Decoder, rotation_of
from curriculum.model.masks import Boundaries, Chunks, LayerInputs
from schemas.job import Backend, ModelSpec

CUDA = torch.device("cuda")
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_CUDA, _META = 1, 14
"""Numbers of the device types in c10/core/DeviceType.h."""


@contextmanager
def fake_gpu() -> Iterator[FakeTensorMode]:
    """Let tensors of this block be fake GPU tensors without gradients.

    Torch would generate code for flex. Here it only traces the graph.
    """
    _use_meta_guard()
    compiled = flex_backend._compiled
    try:
        flex_backend._compiled = functools.cache(_trace_flex)
        with FakeTensorMode() as mode, torch.no_grad():
            yield mode
    finally:
        flex_backend._compiled = compiled


def boundaries_on_gpu(real: Boundaries) -> Boundaries:
    """Return `real` with its tensors replaced by fake GPU tensors; `lengths` stay the same."""
    return Boundaries(
        doc_ids=_fake_like(real.doc_ids),
        position_ids=_fake_like(real.position_ids),
        starts=_fake_like(real.starts),
        cu_seqlens=_fake_like(real.cu_seqlens),
        lengths=real.lengths,
    )


def run_forward(spec: ModelSpec, backend: Backend, real: Boundaries) -> str:
    """Run a model's forward pass on fake rows; return the shape, dtype and device of its stream."""
    chunks = Chunks.from_boundaries(real, spec.mamba.chunk) if "M" in spec.blocks else None
    with fake_gpu(), CUDA:
        model = _bfloat16_decoder(spec, backend)
        boundaries = boundaries_on_gpu(real)
        cos, sin = rotation_of(boundaries.position_ids, spec.width // spec.heads, DEFAULT_ROPE_BASE)
        inputs = LayerInputs(
            ids=torch.empty(real.doc_ids.shape, dtype=torch.int64),
            boundaries=boundaries,
            rotation=(cos.bfloat16(), sin.bfloat16()),
            attend=attention(backend, softcap=spec.softcap)(boundaries),
            chunks=None
            if chunks is None
            else dataclasses.replace(
                chunks, slots=_fake_like(chunks.slots), spans=_fake_like(chunks.spans)
            ),
        )
        return describe_tensor(model.hidden(inputs.ids, boundaries, inputs=inputs))


def _bfloat16_decoder(spec: ModelSpec, backend: Backend) -> Decoder:
    """Return a decoder that is created in bfloat16, since fake weights can't be converted later."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return Decoder(spec, backend)
    finally:
        torch.set_default_dtype(before)


def describe_tensor(tensor: torch.Tensor) -> str:
    """Describe shape, dtype and device, for example `[4, 16384, 1024] bfloat16 on cuda`."""
    return f"{[*tensor.shape]} {str(tensor.dtype).removeprefix('torch.')} on {tensor.device.type}"


def _fake_like(real: torch.Tensor) -> torch.Tensor:
    return torch.empty(real.shape, dtype=real.dtype, device=CUDA)


def attention_output(
    backend: Backend, real: Boundaries, *, heads: int, kv_heads: int, width: int
) -> torch.Tensor:
    """Return the fake attention output [B, H, T, K] of a backend, in bfloat16, for boundaries on the CPU."""
    B, T = real.doc_ids.shape
    with fake_gpu():
        attend = attention(backend)(boundaries_on_gpu(real))
        q, k, v = (
            torch.empty(B, count, T, width, dtype=torch.bfloat16, device=CUDA)
            for count in (heads, kv_heads, kv_heads)
        )
        return attend(q, k, v)


def _trace_flex() -> Callable[..., Any]:
    return torch.compile(flex_attention, backend="eager", fullgraph=True, dynamic=False)


def _use_meta_guard() -> None:
    """Let a torch build for CPUs index fake GPU tensors.

    Indexing requires a device guard even if the tensors are fake, and torch builds for CPUs have none for
    CUDA. The guard of meta tensors does nothing, so it works for any device.
    """
    if torch.version.cuda is not None:
        return
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, _REGISTRY)
    guards[_CUDA] = guards[_CUDA] or guards[_META]
