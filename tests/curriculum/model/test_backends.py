import itertools

import pytest
import torch

from curriculum.model.backends import Attention, attention, for_each_head
from curriculum.model.masks import Boundaries
from schemas.errors import JobError
from schemas.job import Backend

LENGTHS = ((1, 126, 1, 127, 1), (100, 28, 128), (256,))
OTHERS: tuple[Backend, ...] = ("sdpa", "documents", "flex")


def boundaries() -> Boundaries:
    rows = [torch.arange(len(each)).repeat_interleave(torch.tensor(each)) for each in LENGTHS]
    return Boundaries.of(torch.stack([row for row in rows if len(row) == 256]))


def run(attend_within: Attention) -> list[torch.Tensor]:
    """Output and the gradients of q, k, v, in float64 with 4 heads over 2."""
    generator = torch.Generator().manual_seed(1)
    cut = boundaries()
    B, T = cut.doc_ids.shape
    q, k, v = (
        torch.randn(B, heads, T, 16, generator=generator, dtype=torch.float64, requires_grad=True)
        for heads in (4, 2, 2)
    )
    out = attend_within(cut)(q, k, v)
    weights = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    gradients = torch.autograd.grad((out * weights).sum(), (q, k, v))
    return [out.detach(), *gradients]


@pytest.mark.parametrize("backend", OTHERS)
def test_backends_agree_with_math_forward_and_backward(backend: Backend) -> None:
    for ours, reference in zip(run(attention(backend)), run(attention("math")), strict=True):
        assert reference.abs().max() > 0.1
        assert (ours - reference).abs().max() < 1e-12


@pytest.mark.parametrize("backend", ["documents", "flex"])
def test_backends_agree_with_math_under_a_softcap(backend: Backend) -> None:
    capped = run(attention("math", softcap=2.0))
    assert (capped[0] - run(attention("math"))[0]).abs().max() > 1e-3
    for ours, reference in zip(run(attention(backend, softcap=2.0)), capped, strict=True):
        assert (ours - reference).abs().max() < 1e-12


@pytest.mark.parametrize("backend", ["sdpa", "varlen"])
def test_a_backend_that_has_no_softcap_raises(backend: Backend) -> None:
    with pytest.raises(JobError, match="its kernel has no softcap"):
        attention(backend, softcap=30.0)


def test_sdpa_refuses_rows_whose_mask_would_be_too_large() -> None:
    long = Boundaries.of(torch.zeros(1, 8320).int())
    with pytest.raises(JobError, match="rows of at most 8192"):
        attention("sdpa")(long)


def test_each_head_gets_the_keys_of_its_group() -> None:
    k = torch.tensor([10.0, 20.0]).view(1, 2, 1, 1)
    keys, _ = for_each_head(torch.zeros(1, 4, 1, 1), k, k)
    assert keys.flatten().tolist() == [10, 10, 20, 20]


def test_a_mask_that_is_off_by_one_disagrees_with_math() -> None:
    """The agreement above would see a boundary that is moved by one token."""
    cut = boundaries()
    moved = Boundaries.of(torch.cat([cut.doc_ids[:, :1], cut.doc_ids[:, :-1]], dim=1))
    right = run(attention("math"))
    for backend in ("math", *OTHERS):
        wrong = run(lambda _, name=backend: attention(name)(moved))
        assert all((a - b).abs().max() > 1e-3 for a, b in zip(wrong, right, strict=True))


def test_lengths_of_the_test_rows_touch_block_edges() -> None:
    edges = {edge for each in LENGTHS for edge in itertools.accumulate(each)}
    assert {1, 127, 128, 255, 256} <= edges
