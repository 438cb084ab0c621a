from typing import get_args

import pytest
import torch

from benchmarks import gpu
from benchmarks.on_device import attention
from benchmarks.on_device.fake import (
    CUDA,
    attention_output,
    boundaries_on_gpu,
    fake_gpu,
    run_forward,
)
from benchmarks.on_device.models import FAMILIES
from benchmarks.on_device.setting import GPU
from curriculum.model.masks import Boundaries
from curriculum.model.presets import model_spec
from schemas.errors import JobError
from schemas.job import Backend

LENGTHS = torch.tensor([1, 100, 27, 128])


def rows() -> Boundaries:
    one = torch.arange(len(LENGTHS)).repeat_interleave(LENGTHS)
    return Boundaries.from_doc_ids(torch.stack([one, torch.zeros_like(one)]).int())


@pytest.mark.parametrize("backend", get_args(Backend))
def test_every_backend_is_called_on_fake_tensors_of_a_gpu(backend: Backend) -> None:
    out = attention_output(backend, rows(), heads=4, kv_heads=2, width=64)
    assert tuple(out.shape) == (2, 4, 256, 64)
    assert (out.dtype, out.device.type) == (torch.bfloat16, "cuda")


def test_a_call_with_wrong_shapes_is_seen_on_fake_tensors() -> None:
    with pytest.raises(Exception, match=r"(?i)shape|size|match|divis"):
        attention_output("math", rows(), heads=3, kv_heads=2, width=64)


@pytest.mark.parametrize("backend", ["flex", "varlen"])
def test_a_whole_hybrid_is_built_on_fake_tensors(backend: Backend) -> None:
    assert run_forward(model_spec("tiny", 97), backend, rows()) == "[2, 256, 128] bfloat16 on cuda"


def test_the_measurements_on_a_gpu_have_every_backend_every_family_and_the_worst_rows() -> None:
    measurements = [*attention.probes(GPU), *gpu._sorted_measurements(GPU, [*gpu.SECTIONS])]
    measurements = measurements[: GPU.max_measurements]
    assert len(measurements) == GPU.max_measurements
    names = {measurement.line.name for measurement in measurements}
    subjects = {measurement.line.subject for measurement in measurements}
    assert subjects >= {*get_args(Backend), *FAMILIES}
    assert {measurement.section for measurement in measurements} == {*gpu.SECTIONS}
    for length in ("4,096", "16,384", "65,536"):
        assert f"masking attention-300m T {length} mean 1,000" in names
    assert "masking attention-300m T 65,536 one per row" in names


def test_boundaries_keep_their_lengths_on_a_fake_gpu() -> None:
    real = rows()
    with fake_gpu():
        fake = boundaries_on_gpu(real)
    assert fake.lengths == real.lengths
    assert fake.doc_ids.device.type == CUDA.type
    assert fake.doc_ids.shape == real.doc_ids.shape


def test_a_backend_refuses_what_it_can_not_honour_on_fake_tensors_too() -> None:
    long = Boundaries.from_doc_ids(torch.zeros(1, 8320).int())
    with pytest.raises(JobError, match="at most 8192 tokens"):
        attention_output("sdpa", long, heads=2, kv_heads=2, width=64)
