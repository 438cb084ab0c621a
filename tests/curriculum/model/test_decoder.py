import dataclasses

import pytest
import torch

from curriculum.model.decoder import Decoder, initialise, rotate, rotation_of
from curriculum.model.masks import Boundaries
from curriculum.model.presets import PRESETS, model_spec
from schemas.errors import JobError

SPEC = model_spec("tiny", 64).model_copy(update={"blocks": "AFAF", "width": 32, "mlp_width": 48})
IDS = torch.arange(40).view(2, 20) % 64
CUT = Boundaries.from_doc_ids(torch.tensor([[0] * 7 + [1] * 13, [0] * 20]))


def test_weights_follow_from_the_seed_alone() -> None:
    torch.manual_seed(99)
    one = initialise(Decoder(SPEC, "math"), 5)
    torch.manual_seed(7)
    same, other = initialise(Decoder(SPEC, "documents"), 5), initialise(Decoder(SPEC, "math"), 6)
    for (name, a), b, c in zip(
        one.named_parameters(), same.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(a, b)
        assert a.ndim < 2 or not torch.equal(a, c), name


def test_logits_are_the_head_over_the_hidden_stream() -> None:
    model = initialise(Decoder(SPEC, "documents"), 0)
    logits = model(IDS, CUT)
    assert logits.shape == (2, 20, 64)
    assert torch.equal(logits, model.head(model.hidden(IDS, CUT)))


def test_rotation_of_position_zero_changes_nothing_and_keeps_lengths() -> None:
    cos, sin = rotation_of(torch.tensor([[0, 1, 0, 1, 2]]), 4, 10_000.0)
    x = torch.arange(20, dtype=torch.float64).view(1, 1, 5, 4)
    turned = rotate(x, (cos, sin))
    assert torch.equal(turned[0, 0, 0], x[0, 0, 0])
    assert torch.equal(turned[0, 0, 2], x[0, 0, 2])
    assert not torch.equal(turned[0, 0, 1], x[0, 0, 1])
    assert torch.allclose(turned.norm(dim=-1), x.norm(dim=-1))


def test_positions_that_do_not_restart_are_another_model() -> None:
    """If positions differ within a document, the logits must depend on the rotary base."""
    model = initialise(Decoder(SPEC, "math"), 0).double()
    stretched = dataclasses.replace(CUT, position_ids=CUT.position_ids * 2)
    assert not torch.equal(model(IDS, CUT), model(IDS, stretched))
    before = model(IDS, CUT)
    model.rope_base = 100.0
    assert not torch.equal(before, model(IDS, CUT))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_about_as_many_weights_as_its_name_says(name: str) -> None:
    with torch.device("meta"):
        model = Decoder(model_spec(name, 32_768), "math")
    millions = sum(weight.numel() for weight in model.parameters()) / 1e6
    inside = sum(weight.numel() for weight in model.blocks.parameters()) / 1e6
    said = {"60m": 60, "300m": 300, "1b": 1000, "tiny": None}[name.removeprefix("attention-")]
    assert said is None or 0.9 < millions / said < 1.11
    assert said is not None or 0.5 < inside < 1.5


def test_a_wrong_model_name_brings_the_likely_one() -> None:
    with pytest.raises(JobError, match="'60m'"):
        model_spec("6Om", 64)


@pytest.mark.parametrize("wrong", [{"width": 36}, {"kv_heads": 3}])
def test_sizes_that_do_not_divide_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(JobError, match="width"):
        Decoder(SPEC.model_copy(update=wrong), "math")
