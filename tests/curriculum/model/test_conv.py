"""The convolution equals a naive one, and what lies in other documents can't be told from its results."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curriculum.model import conv
from curriculum.model.conv import masked_conv
from curriculum.model.masks import Boundaries

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
RowLayout = tuple[tuple[int, ...], ...]
EXAMPLE: RowLayout = ((1, 2, 3, 7, 11), (24,), (21, 1, 1, 1), (4, 3, 17))


@st.composite
def layouts(draw: st.DrawFn) -> RowLayout:
    """Rows of one length, cut into documents of which many are of 1, 2 and 3 tokens."""
    rows = draw(st.lists(st.lists(st.integers(1, 3) | st.integers(1, 12), min_size=1, max_size=6)))
    rows = [*rows[:2], draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))]
    longest = max(map(sum, rows))
    return tuple(tuple(row) + (longest - sum(row),) * (sum(row) < longest) for row in rows)


def boundaries_of(layout: RowLayout) -> Boundaries:
    ids = [torch.arange(len(row)).repeat_interleave(torch.tensor(row)) for row in layout]
    return Boundaries.from_doc_ids(torch.stack(ids))


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def naive(x: Tensor, weight: Tensor, layout: RowLayout) -> Tensor:
    """Each document by itself, each of its positions one after the other."""
    rows = []
    for row, lengths in zip(x, layout, strict=True):
        for document in row.split(lengths):
            for t in range(len(document)):
                reach = min(weight.shape[1], t + 1)
                rows.append(
                    (weight[:, :reach].t() * document[t + 1 - reach : t + 1].flip(0)).sum(0)
                )
    return torch.stack(rows).view_as(x)


def test_the_example_of_the_docstring() -> None:
    x = torch.tensor([1.0, 2, 3, 4, 5]).view(1, 5, 1)
    y = masked_conv(x, torch.tensor([[10.0, 1.0]]), boundaries_of(((3, 2),)))
    assert y.flatten().tolist() == [10, 21, 32, 40, 54]
    assert conv._heads(torch.tensor([0, 3, 5]), 2).tolist() == [0, 1, 3, 4]
    assert conv._tails(torch.tensor([0, 3, 5]), 2).tolist() == [2, 1, 4, 3]
    assert conv.reaches_back(torch.tensor([0, 1, 2, 0, 1]), 1).tolist() == [
        False,
        True,
        True,
        False,
        True,
    ]


@settings(max_examples=25, deadline=None)
@given(layouts(), st.sampled_from([1, 2, 4, 7, 40]))
def test_it_equals_the_naive_one_forward_and_backward(layout: RowLayout, kernel: int) -> None:
    boundaries = boundaries_of(layout)
    B, T = boundaries.doc_ids.shape
    x, weight, g = numbers(B, T, 3), numbers(3, kernel, seed=1), numbers(B, T, 3, seed=2)
    x.requires_grad_(), weight.requires_grad_()
    y, expected = masked_conv(x, weight, boundaries), naive(x, weight, layout)
    ours = (y, *torch.autograd.grad(y, (x, weight), g))
    theirs = (expected, *torch.autograd.grad(expected, (x, weight), g))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(layouts(), st.sampled_from(DTYPES), st.integers(1, 6))
def test_a_document_packed_equals_it_alone_bitwise(
    layout: RowLayout, dtype: torch.dtype, kernel: int
) -> None:
    boundaries = boundaries_of(layout)
    B, T = boundaries.doc_ids.shape
    weight, g = numbers(7, kernel, dtype=dtype), numbers(B, T, 7, seed=2, dtype=dtype)
    x = numbers(B, T, 7, seed=1, dtype=dtype).requires_grad_()
    y = masked_conv(x, weight, boundaries)
    (back,) = torch.autograd.grad(y, x, g)
    for row, lengths in enumerate(layout):
        for start, length in zip(
            torch.tensor([0, *lengths]).cumsum(0).tolist(), lengths, strict=False
        ):
            here = (slice(row, row + 1), slice(start, start + length))
            alone_x = x[here].detach().requires_grad_()
            alone = masked_conv(alone_x, weight, boundaries_of(((length,),)))
            assert torch.equal(alone, y[here])
            assert torch.equal(torch.autograd.grad(alone, alone_x, g[here])[0], back[here])


def observed(
    x: Tensor, weight: Tensor, boundaries: Boundaries, witness_BT: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, and the gradients of x and of the weight, of a loss on the witnesses."""
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = masked_conv(x, weight, boundaries)
    g = torch.where(witness_BT[..., None], numbers(*x.shape, seed=5).to(x), 0)
    back = torch.autograd.grad(y, (x, weight), g)
    return y.detach(), back[0], back[1]


@settings(max_examples=25, deadline=None)
@given(layouts(), st.sampled_from(DTYPES), st.integers(0, 5))
def test_a_document_sees_no_other_forward_or_backward(
    layout: RowLayout, dtype: torch.dtype, number: int
) -> None:
    boundaries = boundaries_of(layout)
    B, T = boundaries.doc_ids.shape
    inside = boundaries.doc_ids == number % len(layout[0])
    inside[1:] = False
    x, other = numbers(B, T, 5, dtype=dtype), 50 * numbers(B, T, 5, seed=3, dtype=dtype)
    weight = numbers(5, 4, seed=1, dtype=dtype)
    calm = observed(x, weight, boundaries, inside)
    loud = observed(torch.where(inside[..., None], x, other), weight, boundaries, inside)
    assert torch.equal(calm[0][inside], loud[0][inside])
    assert torch.equal(calm[1], loud[1])
    assert torch.equal(calm[2], loud[2])
    assert calm[1][inside].any()
    assert not calm[1][~inside].any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_even_nan_does_not_pass_a_boundary(dtype: torch.dtype) -> None:
    boundaries = boundaries_of(EXAMPLE)
    inside = boundaries.doc_ids == 2
    x = numbers(4, 24, 5, dtype=dtype)
    weight = numbers(5, 4, seed=1, dtype=dtype)
    poisoned = torch.where(inside[..., None], x, torch.nan)
    y = masked_conv(poisoned, weight, boundaries)
    assert inside.any()
    assert torch.equal(y[inside], masked_conv(x, weight, boundaries)[inside])
    assert y[~inside].isnan().all()


def test_a_mask_that_lets_all_pass_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    boundaries = boundaries_of(EXAMPLE)
    x, weight = numbers(4, 24, 5), numbers(5, 4, seed=1)
    masked = masked_conv(x, weight, boundaries)
    monkeypatch.setattr(
        conv, "reaches_back", lambda positions, k: torch.ones_like(positions).bool()
    )
    differs = (masked_conv(x, weight, boundaries) != masked).any(-1)
    assert torch.equal(differs.flatten()[1:], (boundaries.position_ids < 3).flatten()[1:])


def test_weights_of_autocast_take_the_dtype_of_the_stream() -> None:
    boundaries = boundaries_of(EXAMPLE)
    x = numbers(4, 24, 5, dtype=torch.bfloat16).requires_grad_()
    weight = numbers(5, 4, seed=1, dtype=torch.float32).requires_grad_()
    y = masked_conv(x, weight, boundaries)
    (back,) = torch.autograd.grad(y.sum(), weight)
    assert y.dtype == torch.bfloat16
    assert back.dtype == torch.float32
    sums = x.detach().double().sum((0, 1))
    torch.testing.assert_close(back[:, 0].double(), sums, rtol=1e-5, atol=1e-5)
