import dataclasses

import pytest
import torch
from torch import Tensor

from curriculum.model import conv
from curriculum.model.conv import ConvMixer
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.masks import Boundaries, LayerInputs
from curriculum.model.presets import model_spec
from schemas.job import ModelSpec

SPEC = model_spec("tiny", 64).model_copy(update={"blocks": "C", "width": 16, "conv_kernel": 3})
CUT = Boundaries.from_doc_ids(torch.tensor([[0] * 7 + [1] * 2 + [2] * 3, [0] * 1 + [1] * 11]))


def mixer(spec: ModelSpec = SPEC) -> ConvMixer:
    layer = initialise(Decoder(spec, "math"), 0).double().blocks[0].layer
    assert isinstance(layer, ConvMixer)
    return layer


def inputs(boundaries: Boundaries = CUT) -> LayerInputs:
    model = Decoder(SPEC, "math")
    return model._inputs(torch.zeros_like(boundaries.doc_ids), boundaries, torch.float64)


def stream(seed: int = 0) -> Tensor:
    return torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(seed)).double()


def test_it_is_a_gated_convolution_of_each_document() -> None:
    layer, x = mixer(), stream()
    before, after, value = (x @ layer.input.weight.t()).chunk(3, dim=-1)
    expected = torch.zeros_like(x)
    for row, t in torch.cartesian_prod(torch.arange(2), torch.arange(12)).tolist():
        for k in range(min(3, int(CUT.position_ids[row, t]) + 1)):
            expected[row, t] += layer.taps_DK[:, k] * (before * value)[row, t - k]
    expected = (after * expected) @ layer.output.weight.t()
    torch.testing.assert_close(layer(x, inputs()), expected, rtol=1e-12, atol=1e-14)


def test_a_document_sees_no_other_and_no_other_is_moved() -> None:
    layer, inside = mixer(), CUT.doc_ids == 1
    results = []
    for x in (stream(), torch.where(inside[..., None], stream(), 50 * stream(1))):
        x.requires_grad_()
        y = layer(x, inputs())
        loss = torch.where(inside[..., None], y * stream(2), 0).sum()
        results.append((y[inside], *torch.autograd.grad(loss, (x, *layer.parameters()))))
    assert all(torch.equal(calm, loud) for calm, loud in zip(*results, strict=True))
    assert results[0][1][inside].any()
    assert not results[0][1][~inside].any()


def test_without_the_mask_it_is_another_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = mixer()(stream(), inputs())
    monkeypatch.setattr(
        conv, "reaches_back", lambda positions, k: torch.ones_like(positions).bool()
    )
    differs = (mixer()(stream(), inputs()) != masked).any(-1)
    assert torch.equal(differs.flatten()[2:], (CUT.position_ids < 2).flatten()[2:])


def test_any_kernel_goes_even_one_longer_than_the_row() -> None:
    for kernel in (1, 2, 40):
        layer = mixer(SPEC.model_copy(update={"conv_kernel": kernel}))
        assert layer.taps_DK.shape == (16, kernel)
        assert layer(stream(), inputs()).isfinite().all()


def test_taps_start_from_the_seed_and_keep_the_variance() -> None:
    wide = SPEC.model_copy(update={"width": 512, "conv_kernel": 4})
    one, same = mixer(wide).taps_DK, mixer(wide).taps_DK
    assert torch.equal(one, same)
    assert 0.9 < float(one.detach().square().sum(1).mean()) < 1.1


def test_it_reads_documents_and_no_rotation() -> None:
    other = dataclasses.replace(inputs(), rotation=(torch.empty(0), torch.empty(0)))
    assert torch.equal(mixer()(stream(), other), mixer()(stream(), inputs()))
