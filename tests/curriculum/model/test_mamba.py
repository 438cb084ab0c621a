import functools
import math
from collections.abc import Callable, Sequence
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from curriculum.leakcheck import check_decoder
from curriculum.model import mamba
from curriculum.model import masks as chunking
from curriculum.model.conv import masked_conv
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.loss import loss_sums
from curriculum.model.mamba import Mamba, decays_between, entering_states, scan_states
from curriculum.model.masks import Boundaries, Chunks, LayerInputs
from curriculum.model.presets import model_spec
from schemas.errors import JobError
from schemas.job import MambaSpec

DTYPES = [torch.float64, torch.float32, torch.bfloat16]
CHUNK = 16
LAYOUTS = [
    [1, 2, 3, 15, 16, 17, 31, 32, 33, 10],
    [16, 16, 16, 112],
    [17, 15, 128],
    [160],
    [70, 70, 20],
]
"""Rows of 160 around chunks of 16, the last document often read as padding."""
SPEC = model_spec("tiny", 97).model_copy(
    update={
        "blocks": "MFAF",
        "width": 32,
        "mlp_width": 48,
        "mamba": MambaSpec(state=8, head_width=16, chunk=CHUNK),
    }
)
Numbers = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""x_NHP, step_NH, rate_H, b_NE, c_NE"""


def cut(*layouts: Sequence[int]) -> Boundaries:
    return Boundaries.from_doc_ids(
        torch.stack(
            [torch.arange(len(each)).repeat_interleave(torch.tensor(each)) for each in layouts]
        )
    )


def numbers(
    length: int, dtype: torch.dtype, *, heads: int = 4, features: int = 8, state: int = 8
) -> Numbers:
    generator = torch.Generator().manual_seed(length)
    wide = torch.promote_types(dtype, torch.float32)
    x, b, c = (
        torch.randn(shape, generator=generator).to(dtype)
        for shape in ((length, heads, features), (length, state), (length, state))
    )
    step = torch.randn(length, heads, generator=generator).to(wide)
    rate = -torch.rand(heads, generator=generator).to(wide) * 2
    return x, step, rate, b, c


def sequential(given: Numbers, boundaries: Boundaries) -> Tensor:
    """The recurrence as it is defined, position after position."""
    x_NHP, step_NH, rate_H, b_NE, c_NE = given
    dt_NH = F.softplus(step_NH)
    starts, found = set(boundaries.cu_seqlens.tolist()), []
    for t in range(len(x_NHP)):
        if t in starts:
            state_HPE = torch.zeros(*x_NHP.shape[1:], b_NE.shape[1], dtype=x_NHP.dtype)
        added_HPE = (dt_NH[t, :, None] * x_NHP[t])[..., None] * b_NE[t]
        state_HPE = torch.exp(dt_NH[t] * rate_H)[:, None, None] * state_HPE + added_HPE
        found.append(state_HPE @ c_NE[t])
    return torch.stack(found)


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    size=st.sampled_from([1, 2, 7, 16, 64]),
    span=st.sampled_from([1, 2, 3, 32]),
)
def test_chunks_compute_the_recurrence(lengths: list[int], size: int, span: int) -> None:
    boundaries = cut(lengths)
    given = numbers(sum(lengths), torch.float64, heads=2, features=3, state=5)
    with mock.patch.object(chunking, "SPAN", span):
        found = scan_states(*given, Chunks.from_boundaries(boundaries, size))
    assert torch.allclose(found, sequential(given, boundaries), rtol=0, atol=1e-12)


def test_gradients_are_those_of_the_recurrence() -> None:
    boundaries = cut([1, 2, 37, 20])
    given = _leaves(numbers(60, torch.float64, heads=2, features=3, state=5))
    with mock.patch.object(chunking, "SPAN", 2):
        found = scan_states(*given, Chunks.from_boundaries(boundaries, 4))
    weights = torch.randn(found.shape, dtype=torch.float64)
    ours = torch.autograd.grad((found * weights).sum(), given)
    theirs = torch.autograd.grad((sequential(given, boundaries) * weights).sum(), given)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("at_once", [1, 1 << 25])
def test_gradients_pass_gradcheck(at_once: int) -> None:
    given = numbers(7, torch.float64, heads=2, features=2, state=2)
    with mock.patch.object(chunking, "SPAN", 2):
        chunks = Chunks.from_boundaries(cut([1, 6]), 2)
    with mock.patch.object(mamba, "MAX_DECAYS", at_once):
        assert torch.autograd.gradcheck(functools.partial(_scanned, chunks), _leaves(given))


def _scanned(
    chunks: Chunks, x_NHP: Tensor, step_NH: Tensor, rate_H: Tensor, b_NE: Tensor, c_NE: Tensor
) -> Tensor:
    return scan_states(x_NHP, step_NH, rate_H, b_NE, c_NE, chunks)


def test_heads_in_groups_give_what_heads_at_once_give() -> None:
    """A few at a time, and computed again in backward."""
    chunks = Chunks.from_boundaries(cut([30, 70]), CHUNK)
    given = _leaves(numbers(100, torch.float64))
    found: list[list[Tensor]] = []
    for at_once, groups in ((1 << 25, 0), (2 * sum(chunks.sizes) * CHUNK**2, 2)):
        with (
            mock.patch.object(mamba, "MAX_DECAYS", at_once),
            mock.patch.object(mamba, "checkpoint", wraps=checkpoint) as recomputed,
        ):
            y_NHP = scan_states(*given, chunks)
        assert recomputed.call_count == groups
        found.append([y_NHP, *torch.autograd.grad(y_NHP.square().sum(), given)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-13, atol=1e-13)


def _leaves(given: Numbers) -> Numbers:
    x, step, rate, b, c = (each.detach().requires_grad_() for each in given)
    return x, step, rate, b, c


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [*LAYOUTS, [50, 50, 50, 90, 90, 90]])
def test_a_document_packed_equals_it_alone_bitwise(lengths: list[int], dtype: torch.dtype) -> None:
    """Outputs, and the gradients of all that it is computed from."""
    given = numbers(sum(lengths), dtype)
    weights = torch.randn(given[0].shape, generator=torch.Generator().manual_seed(1))
    together = _with_gradients(given, weights, cut(lengths))
    start = 0
    for length in lengths:
        part = slice(start, start + length)
        x, step, rate, b, c = given
        alone = _with_gradients(
            (x[part], step[part], rate, b[part], c[part]), weights[part], cut([length])
        )
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one, other[part])
        start += length


def _with_gradients(given: Numbers, weights: Tensor, boundaries: Boundaries) -> list[Tensor]:
    x, step, rate, b, c = _leaves(given)
    y_NHP = scan_states(x, step, rate, b, c, Chunks.from_boundaries(boundaries, CHUNK))
    return [y_NHP.detach(), *torch.autograd.grad((y_NHP * weights).sum(), [x, b, c, step])]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_copy_of_a_document_gives_the_same(dtype: torch.dtype) -> None:
    """[A A A | B B B]: where a document lies in a row, and beside what, doesn't matter."""
    a, b = numbers(37, dtype), numbers(50, dtype)
    rate = a[2]
    x, step, _, left, right = (
        torch.cat([one] * 3 + [other] * 3) for one, other in zip(a, b, strict=True)
    )
    y_NHP = scan_states(
        x, step, rate, left, right, Chunks.from_boundaries(cut([37] * 3 + [50] * 3), CHUNK)
    )
    first, second = torch.split(y_NHP, [3 * 37, 3 * 50])
    for copies in (*first.chunk(3), *second.chunk(3)):
        assert torch.equal(copies, first[:37] if len(copies) == 37 else second[:50])


def _layer(dtype: torch.dtype) -> Mamba:
    torch.manual_seed(0)
    layer = Mamba(SPEC)
    with torch.no_grad():
        layer.start(torch.Generator().manual_seed(0))
    return layer.to(dtype)


def _inputs(boundaries: Boundaries, *, chunks: Chunks | None = None) -> LayerInputs:
    return LayerInputs(
        ids=boundaries.doc_ids,
        boundaries=boundaries,
        rotation=(torch.empty(0), torch.empty(0)),
        attend=mock.Mock(side_effect=AssertionError("nothing attends here")),
        chunks=chunks or Chunks.from_boundaries(boundaries, CHUNK),
    )


def _leaks(dtype: torch.dtype, inputs: LayerInputs) -> set[str]:
    """Return which results of a document change when all other inputs change and grow 50-fold."""
    layer, found = _layer(dtype), set()
    doc_ids_BT = inputs.boundaries.doc_ids
    x_BTD, other_BTD, weights_BTD = torch.randn(3, *doc_ids_BT.shape, SPEC.width).to(dtype)
    for number in range(int(doc_ids_BT.max()) + 1):
        witness_BT1 = (doc_ids_BT == number % (doc_ids_BT.amax(1, keepdim=True) + 1))[..., None]
        witness_BT1[-1] = False
        runs = []
        for outside_BTD in (x_BTD, other_BTD * 50):
            stream_BTD = torch.where(witness_BT1, x_BTD, outside_BTD).requires_grad_()
            y_BTD = layer(stream_BTD, inputs)
            loss = torch.where(witness_BT1, y_BTD * weights_BTD, 0).sum()
            gradient, *rest = torch.autograd.grad(loss, [stream_BTD, *layer.parameters()])
            runs.append((torch.where(witness_BT1, y_BTD, 0), gradient, rest))
        (calm, calm_gradient, calm_rest), (loud, loud_gradient, loud_rest) = runs
        assert calm_gradient.abs().sum() > 0
        if not torch.equal(calm, loud):
            found.add("outputs")
        if not torch.equal(calm_gradient, loud_gradient):
            found.add("gradients")
        if torch.where(witness_BT1, 0, loud_gradient).abs().max() > 0:
            found.add("gradients elsewhere")
        if not all(map(torch.equal, calm_rest, loud_rest)):
            found.add("gradients of weights")
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_of_a_document_changes_with_others_forward_or_backward(dtype: torch.dtype) -> None:
    assert _leaks(dtype, _inputs(cut(*LAYOUTS))) == set()


def _not_reset() -> set[str]:
    boundaries = cut(*LAYOUTS)
    row = Chunks.from_boundaries(
        Boundaries.from_doc_ids(torch.zeros_like(boundaries.doc_ids)), CHUNK
    )
    return _leaks(torch.float32, _inputs(boundaries, chunks=row))


def _handed_on() -> set[str]:
    def leaking(left_nHPE: Tensor, decay_nH: Tensor, chunks: Chunks) -> Tensor:
        return entering_states(left_nHPE, decay_nH, chunks) + 1e-3 * left_nHPE.sum(0)

    with mock.patch.object(mamba, "entering_states", leaking):
        return _leaks(torch.float32, _inputs(cut(*LAYOUTS)))


def _unmasked() -> set[str]:
    def leaking(x_BTC: Tensor, weight_CK: Tensor, boundaries: Boundaries) -> Tensor:
        row = Boundaries.from_doc_ids(torch.zeros_like(boundaries.doc_ids))
        return masked_conv(x_BTC, weight_CK, row)

    with mock.patch.object(mamba, "masked_conv", leaking):
        return _leaks(torch.float32, _inputs(cut(*LAYOUTS)))


@pytest.mark.parametrize("mutation", [_not_reset, _handed_on, _unmasked])
def test_a_layer_that_leaks_is_found(mutation: Callable[[], set[str]]) -> None:
    assert mutation() == {"outputs", "gradients", "gradients elsewhere", "gradients of weights"}


def test_the_example_of_decays() -> None:
    a, b, c = -1.0, -2.0, -4.0
    found = decays_between(torch.tensor([[[a, b, c]]], dtype=torch.float64))
    expected = [[1, math.exp(b), math.exp(b + c)], [0, 1, math.exp(c)], [0, 0, 1]]
    assert torch.allclose(found[0, 0], torch.tensor(expected, dtype=torch.float64), rtol=1e-15)


def test_a_decay_carries_no_rounding_of_what_came_before() -> None:
    """A difference of sums from the start would be off by half: 1e7 is known to 1 in float32."""
    logs = torch.tensor([[[-1e7, -0.1, -0.1]]])
    assert torch.allclose(decays_between(logs)[0, 0, 0, 1:], torch.tensor([-0.1, -0.2]).exp())
    sums = logs.cumsum(-1)[0, 0]
    assert not torch.allclose((sums[1] - sums[0]).exp(), torch.tensor(-0.1).exp(), rtol=0.05)


def test_the_example_of_entering_states() -> None:
    a, b, c, p, q, r = 2.0, 3.0, 5.0, 0.5, 0.25, 0.125
    left = torch.tensor([a, b, c])[:, None, None, None]
    decay = torch.tensor([p, q, r])[:, None]
    for span in (32, 1):
        with mock.patch.object(chunking, "SPAN", span):
            chunks = Chunks.from_boundaries(cut([3]), 1)
        at = chunks.slots
        entering = entering_states(left[at.argsort()], decay[at.argsort()], chunks)
        assert entering.flatten()[at].tolist() == [0, a, q * a + b]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [-1e4, -80.0, 80.0, 1e4])
def test_extreme_steps_give_finite_numbers(step: float, dtype: torch.dtype) -> None:
    x, steps, rate, b, c = numbers(100, dtype)
    steps[::3] = step
    given = _leaves((x, steps, rate - 16, b, c))
    y_NHP = scan_states(*given, Chunks.from_boundaries(cut([1, 40, 59]), CHUNK))
    gradients = torch.autograd.grad(y_NHP.sum(), given)
    assert all(bool(each.isfinite().all()) for each in (y_NHP, *gradients))


def test_bfloat16_is_float32_but_for_its_inputs_and_weights() -> None:
    exact = _layer(torch.bfloat16).float()
    boundaries = cut(*LAYOUTS)
    x_BTD = torch.randn(5, 160, SPEC.width, generator=torch.Generator().manual_seed(0)).bfloat16()
    found, expected = (
        layer(x.to(layer.kernel.dtype), _inputs(boundaries)).float().detach()
        for layer, x in ((_layer(torch.bfloat16), x_BTD), (exact, x_BTD))
    )
    assert float((found - expected).abs().max() / expected.abs().max()) < 0.02


@pytest.mark.parametrize("at_once", [1, 1 << 25])
def test_autocast_leaves_the_state_space_in_float32(at_once: int) -> None:
    given, chunks = (
        _leaves(numbers(60, torch.float32)),
        Chunks.from_boundaries(cut([20, 40]), CHUNK),
    )
    runs = []
    for enabled in (False, True):
        with (
            mock.patch.object(mamba, "MAX_DECAYS", at_once),
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled),
        ):
            y_NHP = scan_states(*given, chunks)
        runs.append((y_NHP, *torch.autograd.grad(y_NHP.sum(), given)))
    assert all(map(torch.equal, *runs))


def test_a_layer_runs_under_autocast() -> None:
    x_BTD = torch.randn(5, 160, SPEC.width, generator=torch.Generator().manual_seed(0))
    layer, inputs = _layer(torch.float32), _inputs(cut(*LAYOUTS))
    expected = layer(x_BTD, inputs).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x_BTD, inputs).float().detach()
    assert 0 < float((found - expected).abs().max() / expected.abs().max()) < 0.02


def test_fresh_heads_have_the_rates_and_steps_of_the_paper() -> None:
    one, same = _layer(torch.float32), _layer(torch.float32)
    wide = Mamba(SPEC.model_copy(update={"width": 2048}))
    with torch.no_grad():
        wide.start(torch.Generator().manual_seed(3))
    assert torch.equal(one.step, same.step)
    assert torch.equal(one.kernel, same.kernel)
    rates, steps = wide.log_rate.detach().exp(), F.softplus(wide.step.detach())
    assert 1 <= float(rates.min()) < 1.5 < 15 < float(rates.max()) <= 16.001
    assert 0.99e-3 <= float(steps.min()) < 2e-3 < 0.05 < float(steps.max()) <= 0.1001
    assert bool((wide.skip == 1).all())
    assert float(wide.kernel.detach().abs().max()) <= 0.5


def test_heads_that_do_not_divide_are_refused() -> None:
    wrong = SPEC.model_copy(update={"mamba": MambaSpec(head_width=48)})
    with pytest.raises(JobError, match="head_width"):
        Decoder(wrong, "documents")


def test_only_a_pattern_with_mamba_pays_for_chunks() -> None:
    with mock.patch.object(
        Chunks, "from_boundaries", side_effect=AssertionError("chunks were cut")
    ):
        plain = initialise(Decoder(SPEC.model_copy(update={"blocks": "AF"}), "documents"), 0)
        plain(torch.zeros(1, 5, dtype=torch.int64), cut([2, 3]))
        with pytest.raises(AssertionError, match="chunks were cut"):
            Decoder(SPEC, "documents")(torch.zeros(1, 5, dtype=torch.int64), cut([2, 3]))


def test_a_hybrid_learns() -> None:
    model = initialise(Decoder(SPEC, "documents"), 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    ids_BT = torch.arange(200).view(2, 100) % 23
    boundaries, losses = cut([30, 70], [100]), []
    for _ in range(12):
        hidden_BTD = model.hidden(ids_BT, boundaries)
        targets_BT = (ids_BT + 1) % 23
        sums = loss_sums(hidden_BTD, model.head.weight, targets_BT, torch.ones_like(ids_BT))
        losses.append(float(sums.nll.detach()) / ids_BT.numel())
        optimizer.zero_grad()
        (sums.total / ids_BT.numel()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]
    assert all(weight.grad is not None for weight in model.parameters())


def test_the_leakcheck_of_a_hybrid_is_green() -> None:
    report = check_decoder(SPEC, "documents", dtypes=[torch.float32])
    assert report.passed, report.table()
