"""Fake tensors of a GPU that isn't there: shapes, dtypes and devices are computed, and nothing else."""

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
"""Numbers of device types in c10/core/DeviceType.h."""


@contextmanager
def fake_gpu() -> Iterator[FakeTensorMode]:
    """Fake tensors on a GPU, in forward passes without a gradient.

    Where torch generates code for flex, the same graph is traced and not compiled.
    """
    _guard_cuda()
    compiled = flex_backend._compiled
    try:
        flex_backend._compiled = functools.cache(_traced)
        with FakeTensorMode() as mode, torch.no_grad():
            yield mode
    finally:
        flex_backend._compiled = compiled


def boundaries_on_gpu(real: Boundaries) -> Boundaries:
    """Boundaries of the host with fake tensors in place of theirs; lengths stay."""
    return Boundaries(
        doc_ids=_like(real.doc_ids),
        position_ids=_like(real.position_ids),
        starts=_like(real.starts),
        cu_seqlens=_like(real.cu_seqlens),
        lengths=real.lengths,
    )


def built(spec: ModelSpec, backend: Backend, real: Boundaries) -> str:
    """Shape, dtype and device of the stream that a model makes of fake rows, forward."""
    chunks = Chunks.from_boundaries(real, spec.mamba.chunk) if "M" in spec.blocks else None
    with fake_gpu(), CUDA:
        model = _half(spec, backend)
        boundaries = boundaries_on_gpu(real)
        cos, sin = rotation_of(boundaries.position_ids, spec.width // spec.heads, DEFAULT_ROPE_BASE)
        inputs = LayerInputs(
            ids=torch.empty(real.doc_ids.shape, dtype=torch.int64),
            boundaries=boundaries,
            rotation=(cos.bfloat16(), sin.bfloat16()),
            attend=attention(backend, softcap=spec.softcap)(boundaries),
            chunks=None
            if chunks is None
            else dataclasses.replace(chunks, slots=_like(chunks.slots), spans=_like(chunks.spans)),
        )
        return described(model.hidden(inputs.ids, boundaries, inputs=inputs))


def _half(spec: ModelSpec, backend: Backend) -> Decoder:
    """A model in bfloat16 from the start: fake weights can't be replaced by others."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return Decoder(spec, backend)
    finally:
        torch.set_default_dtype(before)


def described(tensor: torch.Tensor) -> str:
    """Shape, dtype and device in words: [4, 16384, 1024] bfloat16 on cuda."""
    return f"{[*tensor.shape]} {str(tensor.dtype).removeprefix('torch.')} on {tensor.device.type}"


def _like(real: torch.Tensor) -> torch.Tensor:
    return torch.empty(real.shape, dtype=real.dtype, device=CUDA)


def attended(
    backend: Backend, real: Boundaries, *, heads: int, kv_heads: int, width: int
) -> torch.Tensor:
    """A backend's fake output [B, H, T, K] in bfloat16, within boundaries of the host."""
    B, T = real.doc_ids.shape
    with fake_gpu():
        attend = attention(backend)(boundaries_on_gpu(real))
        q, k, v = (
            torch.empty(B, each, T, width, dtype=torch.bfloat16, device=CUDA)
            for each in (heads, kv_heads, kv_heads)
        )
        return attend(q, k, v)


def _traced() -> Callable[..., Any]:
    return torch.compile(flex_attention, backend="eager", fullgraph=True, dynamic=False)


def _guard_cuda() -> None:
    """Let torch index fake tensors of a GPU where it was built for CPUs.

    Indexing asks for a guard of the device even if tensors are fake, and that build has none. The guard of
    meta tensors does nothing on any device.
    """
    if torch.version.cuda is not None:
        return
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, _REGISTRY)
    guards[_CUDA] = guards[_CUDA] or guards[_META]
