"""Mixing matrices are doubly stochastic, follow from one token each, and start as a plain residual."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curriculum.model import hyper_connections
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.hyper_connections import (
    HyperConnection,
    copy_to_streams,
    doubly_stochastic,
    mean_of_streams,
    mix_streams,
    token_features,
)
from curriculum.model.masks import Boundaries
from curriculum.model.presets import model_spec

SPEC = model_spec("tiny", 64).model_copy(
    update={"blocks": "AF", "width": 16, "heads": 2, "kv_heads": 1, "mlp_width": 24, "streams": 4}
)
IDS = torch.arange(40).view(2, 20) % 64
CUT = Boundaries.from_doc_ids(torch.tensor([[0] * 7 + [1] * 13, [0] * 20]))


def connection(streams: int = 4, gain: float = 1.0) -> HyperConnection:
    spec = SPEC.model_copy(update={"streams": streams})
    found = initialise(Decoder(spec, "math"), 0).blocks[0].connection
    assert isinstance(found, HyperConnection)
    found.gains_3.data.fill_(gain)
    return found


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_streams_are_mixed_by_each_token_s_own_matrix() -> None:
    a, b = torch.tensor([2.0, 4.0]), torch.tensor([6.0, 0.0])
    weights = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    found = mix_streams(weights[None, None], torch.stack([a, b])[None, None])
    assert found.tolist() == [[[[2.0, 4.0], [4.0, 2.0]]]]
    weights, streams = numbers(2, 5, 4, 3).double(), numbers(2, 5, 3, 8, seed=1).double()
    torch.testing.assert_close(mix_streams(weights, streams), weights @ streams, rtol=0, atol=1e-14)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.sampled_from([0.0, 0.1, 1.0, 5.0, 50.0]), st.integers(0, 9))
def test_rows_and_columns_sum_to_one_whatever_the_logits(n: int, loud: float, seed: int) -> None:
    mixed = doubly_stochastic(loud * numbers(n, n, 20, seed=seed))
    assert (mixed >= 0).all()
    for side in (0, 1):
        torch.testing.assert_close(mixed.sum(side), torch.ones(n, 20), rtol=0, atol=2e-6)


def test_sinkhorn_finds_the_matrix_with_the_proportions_of_the_logits() -> None:
    """Scaling rows and columns keeps a00 · a11 / (a01 · a10), which tells the 2 × 2 matrix."""
    logits = torch.tensor([[1.0, -0.3], [0.2, 0.5]], dtype=torch.float64)[..., None]
    proportion = torch.exp((logits[0, 0] + logits[1, 1] - logits[0, 1] - logits[1, 0]) / 2)
    mixed = doubly_stochastic(logits)[..., 0]
    torch.testing.assert_close(mixed[0, 0], (proportion / (1 + proportion))[0], rtol=1e-5, atol=0)
    assert torch.equal(doubly_stochastic(torch.zeros(2, 2, 1))[..., 0], torch.full((2, 2), 0.5))


@pytest.mark.parametrize("loud", [0.01, 1.0, 4.0])
def test_the_gradient_flows_through_sinkhorn(loud: float) -> None:
    logits = (loud * numbers(3, 3, 4).double()).requires_grad_()
    assert torch.autograd.gradcheck(doubly_stochastic, (logits,))
    (back,) = torch.autograd.grad(doubly_stochastic(logits)[0, 0].sum(), logits)
    assert back.abs().sum((0, 1)).all()


def test_a_loss_moves_every_weight_of_a_connection() -> None:
    model = initialise(Decoder(SPEC, "math"), 0)
    logits = model(IDS, CUT)
    weights = list(model.blocks.parameters())
    backs = torch.autograd.grad(logits.square().mean(), weights, allow_unused=True)
    assert all(back is not None and back.any() for back in backs)


def test_weights_are_of_one_token_each() -> None:
    one, x = connection(), numbers(2, 20, 4, 16)
    other = x.clone()
    other[:, 5:] = 50 * numbers(2, 15, 4, 16, seed=1)
    other[1] = 50 * numbers(20, 4, 16, seed=2)
    for calm, loud in zip(one.weights(x), one.weights(other), strict=True):
        assert torch.equal(calm[0, :5], loud[0, :5])
        assert not torch.equal(calm[0, 5:], loud[0, 5:])


def test_no_gradient_passes_between_tokens() -> None:
    x = numbers(2, 20, 4, 16).requires_grad_()
    read, write, mixed = connection()(x)
    back = torch.autograd.grad((read[0, 7] + mixed[0, 7].sum(0)).sum() + write[0, 7].sum(), x)[0]
    assert back[0, 7].any()
    back[0, 7] = 0
    assert not back.any()


def test_weights_pooled_over_the_row_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def pooled(x: Tensor) -> Tensor:
        return token_features(x).mean(1, keepdim=True).expand(-1, x.shape[1], -1)

    one, x = connection(), numbers(2, 20, 4, 16)
    later = x.clone()
    later[:, 10:] *= 50
    monkeypatch.setattr(hyper_connections, "token_features", pooled)
    for calm, loud in zip(one.weights(x), one.weights(later), strict=True):
        assert not torch.equal(calm[:, :5], loud[:, :5])


def test_a_connection_reads_mixes_and_writes_as_its_weights_say() -> None:
    one, x = connection(), numbers(2, 20, 4, 16)
    read, write, mix = one.weights(x)
    found_read, found_write, found_mixed = one(x)
    assert torch.equal(found_write[..., 0], write)
    for n in range(4):
        expected = sum((mix[:, :, n, m, None] * x[:, :, m] for m in range(4)), torch.zeros(()))
        torch.testing.assert_close(found_mixed[:, :, n], expected)
    expected = sum((read[:, :, n, None] * x[:, :, n] for n in range(4)), torch.zeros(()))
    torch.testing.assert_close(found_read, expected)


def test_weights_stay_in_their_bounds() -> None:
    read, write, mix = connection(gain=5.0).weights(numbers(2, 20, 4, 16))
    assert read.min() > 0
    assert read.max() < 1
    assert 0 < write.min() < write.max() < 2
    assert mix.shape == (2, 20, 4, 4)
    torch.testing.assert_close(mix.sum(-1), torch.ones(2, 20, 4))
    torch.testing.assert_close(mix.sum(-2), torch.ones(2, 20, 4))


def test_mixing_keeps_the_mean_of_the_streams() -> None:
    x = numbers(2, 20, 4, 16)
    torch.testing.assert_close(mean_of_streams(connection()(x)[2]), mean_of_streams(x))
    assert torch.equal(copy_to_streams(x[:, :, 0], 3)[:, :, 2], x[:, :, 0])


@pytest.mark.parametrize("streams", [2, 4])
def test_at_first_several_streams_are_nearly_the_plain_residual(streams: int) -> None:
    plain = initialise(Decoder(SPEC.model_copy(update={"streams": 1}), "math"), 0)
    several = initialise(Decoder(SPEC.model_copy(update={"streams": streams}), "math"), 1)
    several.load_state_dict(plain.state_dict(), strict=False)
    expected, found = plain(IDS, CUT), several(IDS, CUT)
    assert not torch.equal(expected, found)
    assert (expected - found).norm() / expected.norm() < 0.01


def test_streams_become_different() -> None:
    model = initialise(Decoder(SPEC, "math"), 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        model(IDS, CUT)[..., 0].mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    connections = [each for each in model.modules() if isinstance(each, HyperConnection)]
    written = [each.weights(numbers(1, 8, 4, 16))[1] for each in connections]
    assert len(written) == 2
    assert all((each[..., 0] != each[..., 1]).all() for each in written)


def test_one_stream_has_no_connection() -> None:
    model = Decoder(SPEC.model_copy(update={"streams": 1}), "math")
    assert not any("connection" in name for name, _ in model.named_parameters())


def test_autocast_leaves_sinkhorn_and_the_streams_in_float32() -> None:
    one, x = connection(), numbers(2, 20, 4, 16)
    outside = [*one.weights(x), *one(x)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (numbers(2, 2) @ numbers(2, 2)).dtype == torch.bfloat16
        read, write, mixed = one(x)
    assert read.dtype == write.dtype == mixed.dtype == torch.float32
    assert all(map(torch.equal, (read, write, mixed), outside[3:]))
    halves = one.bfloat16().weights(x.bfloat16())
    assert {each.dtype for each in halves} == {torch.float32}
    torch.testing.assert_close(halves[2].sum(-2), torch.ones(2, 20, 4))
