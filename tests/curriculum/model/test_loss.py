import functools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from curriculum.model import loss
from curriculum.model.loss import loss_sums, token_nll

Case = tuple[Tensor, Tensor, Tensor, Tensor]


def case_of(seed: int = 0, ids: int = 11, dtype: torch.dtype = torch.float64) -> Case:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 50, 8, generator=generator, dtype=dtype, requires_grad=True)
    head = torch.randn(ids, 8, generator=generator, dtype=dtype, requires_grad=True)
    targets = torch.randint(ids, (2, 50), generator=generator, dtype=torch.int32)
    mask = (torch.rand(2, 50, generator=generator) < 0.6).to(torch.uint8)
    return x, head, targets, mask


@pytest.fixture
def case() -> Case:
    return case_of()


def plain(x: Tensor, head: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Σ nll and Σ z by autograd, all logits at once."""
    logits, scored = x @ head.T, mask.flatten().bool()
    nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), reduction="none")
    return nll[scored].sum(), logits.logsumexp(-1).square().flatten()[scored].sum()


@given(
    seed=st.integers(0, 1000),
    ids=st.integers(1, 40),
    chunk=st.sampled_from([1, 7, 64, 1000, None]),
    z_weight=st.sampled_from([0.0, 1e-5, 0.1]),
    scale=st.sampled_from([1.0, 30.0]),
)
@settings(max_examples=60, deadline=None)
def test_chunked_cross_entropy_and_its_gradient_equal_autograds(
    seed: int, ids: int, chunk: int | None, z_weight: float, scale: float
) -> None:
    x, head, targets, mask = case_of(seed, ids)
    nll, z = plain(x * scale, head, targets, mask)
    ours = loss_sums(x * scale, head, targets, mask, z_weight=z_weight, chunk=chunk)
    assert torch.allclose(ours.nll, nll, rtol=1e-12)
    assert torch.allclose(ours.z, z, rtol=1e-12)
    assert torch.allclose(ours.total, nll + z_weight * z, rtol=1e-12)
    # As a step divides by what the global batch scores.
    gradients = torch.autograd.grad(ours.total / 7, (x, head))
    references = torch.autograd.grad((nll + z_weight * z) / 7, (x, head))
    for found, reference in zip(gradients, references, strict=True):
        assert (found - reference).abs().max() <= 1e-13 * max(1, float(reference.abs().max()))
    assert (gradients[0][mask == 0] == 0).all()


def test_token_nll_lists_the_scored_targets_in_order(case: Case) -> None:
    x, head, targets, mask = case
    listed = token_nll(x, head, targets, mask, chunk=9)
    assert len(listed) == mask.sum()
    assert torch.allclose(listed.sum(), loss_sums(x, head, targets, mask).nll)
    first = mask.flatten().nonzero()[0, 0]
    expected = F.cross_entropy(x.flatten(0, 1)[first] @ head.T, targets.flatten()[first].long())
    assert torch.allclose(listed[0], expected)


def test_a_batch_that_scores_nothing_has_a_loss_of_zero_that_can_go_back(case: Case) -> None:
    x, head, targets, mask = case
    sums = loss_sums(x, head, targets, torch.zeros_like(mask), z_weight=0.1)
    assert sums.nll.item() == sums.z.item() == sums.total.item() == 0.0
    gradients = torch.autograd.grad(sums.total, (x, head))
    assert all((each == 0).all() for each in gradients)


def test_an_evaluation_takes_no_gradient(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_become_gradient", None)
    monkeypatch.setattr(loss, "_add_product", None)
    assert not token_nll(*case).requires_grad
    with torch.no_grad():
        assert not loss_sums(*case).total.requires_grad
    with pytest.raises(TypeError):
        loss_sums(*case)


def test_what_is_frozen_gets_no_gradient(case: Case) -> None:
    x, head, targets, mask = case
    loss_sums(x, head.detach(), targets, mask).total.backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    alone = head.clone().detach().requires_grad_()
    loss_sums(x.detach(), alone, targets, mask).total.backward()  # type: ignore[no-untyped-call]
    assert alone.grad is not None


def test_a_second_backward_is_refused_and_not_wrong(case: Case) -> None:
    total = loss_sums(*case).total
    total.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()  # type: ignore[no-untyped-call]


def test_logits_beyond_the_range_of_exponentials_are_finite() -> None:
    x, head, targets, mask = case_of(dtype=torch.float32)
    sums = loss_sums(x * 1e3, head, targets, mask, z_weight=1e-5)
    nll, _ = plain(x * 1e3, head, targets, mask)
    assert torch.isfinite(sums.total)
    assert sums.nll.item() == pytest.approx(nll.item(), rel=1e-4)


def test_sums_are_float32_where_products_are_bfloat16() -> None:
    x, head, targets, mask = case_of(ids=300, dtype=torch.float32)
    exact = loss_sums(x, head, targets, mask, z_weight=1e-3)
    wanted = torch.autograd.grad(exact.total, (x, head))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sums = loss_sums(x, head, targets, mask, z_weight=1e-3, chunk=5)
    assert sums.total.dtype == sums.token_nll.dtype == sums.token_z.dtype == torch.float32
    assert sums.nll.item() == pytest.approx(exact.nll.item(), rel=2e-2)
    found = torch.autograd.grad(sums.total, (x, head))
    for ours, reference in zip(found, wanted, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - reference).norm() < 2e-2 * reference.norm()


def test_a_chunk_is_bounded_by_bytes_and_holds_enough_positions() -> None:
    def largest(ids: int, positions: int) -> int:
        x, head = torch.empty(positions, 2), torch.empty(ids, 2)
        parts = [*loss._chunks(x, head, None)]
        assert sum(part.stop - part.start for part in parts[:-1]) < positions
        return int(parts[0].stop)

    assert largest(4096, 2000) * 4096 * 4 == loss.CHUNK_BYTES["cpu"]
    assert largest(131_072, 2000) == loss.MIN_POSITIONS


def test_no_chunk_of_logits_is_computed_twice(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    products: list[int] = []
    plainly = F.linear

    def counted(x: Tensor, *rest: Any) -> Tensor:
        products.append(len(x))
        return plainly(x, *rest)

    monkeypatch.setattr(F, "linear", counted)
    x, head, targets, mask = case
    loss_sums(x, head, targets, mask, chunk=7).total.backward()  # type: ignore[no-untyped-call]
    assert sum(products) == int(mask.sum())


def test_a_stream_that_is_recomputed_gets_the_same_gradient(case: Case) -> None:
    x, head, targets, mask = case
    found = []
    for block in (torch.tanh, functools.partial(checkpoint, torch.tanh, use_reentrant=False)):
        total = loss_sums(block(x), head, targets, mask, z_weight=0.1).total
        found.append(torch.autograd.grad(total, (x, head)))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
