import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.model.loss import loss_sums, token_nll

Case = tuple[Tensor, Tensor, Tensor, Tensor]


@pytest.fixture
def case() -> Case:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 50, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    head = torch.randn(11, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (2, 50), generator=generator, dtype=torch.int32)
    mask = (torch.rand(2, 50, generator=generator) < 0.6).to(torch.uint8)
    return x, head, targets, mask


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_chunked_cross_entropy_equals_plain(case: Case, chunk: int) -> None:
    x, head, targets, mask = case
    logits = x @ head.T
    plain = F.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), reduction="none")
    scored = mask.flatten().bool()
    expected = plain[scored].sum(), logits.logsumexp(-1).square().flatten()[scored].sum()
    ours = loss_sums(x, head, targets, mask, chunk=chunk)
    assert torch.allclose(ours.nll, expected[0], rtol=1e-13)
    assert torch.allclose(ours.z, expected[1], rtol=1e-13)
    gradients = torch.autograd.grad(ours.nll + 0.1 * ours.z, (x, head))
    references = torch.autograd.grad(expected[0] + 0.1 * expected[1], (x, head))
    for ours_, reference in zip(gradients, references, strict=True):
        assert (ours_ - reference).abs().max() < 1e-12
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
    sums = loss_sums(x, head, targets, torch.zeros_like(mask))
    assert sums.nll.item() == sums.z.item() == 0.0
