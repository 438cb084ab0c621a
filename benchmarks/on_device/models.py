"""Models and layers that are measured, each made as the trainer makes its own."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.on_device.setting import Setting
from curriculum.model.decoder import Decoder, initialise
from curriculum.train.batch import Batch
from curriculum.train.masking_cost import Loss, loss_of
from curriculum.train.optimizer import recompute
from schemas.job import Backend, ModelSpec

FAMILIES = {
    "A attention": "A",
    "M Mamba-2": "M",
    "C gated convolution": "C",
    "E Engram": "E",
    "F feed-forward": "F",
    "mHC around F": "F",
}
STREAMS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A decoder, and the loss from which its backward begins."""

    name: str
    spec: ModelSpec
    loss: Loss
    is_whole: bool
    """True for a whole model with its head, false for layers of one family."""


def wholes(setting: Setting) -> Iterator[Subject]:
    """The models of a setting."""
    for name in setting.models:
        yield Subject(name=name, spec=setting.spec(name), loss=loss_of, is_whole=True)


def families(setting: Setting) -> Iterator[Subject]:
    """Layers of each family alone, at the width of the first model."""
    for name, letter in FAMILIES.items():
        streams = STREAMS if "mHC" in name else 1
        yield layers(setting, name, letter, streams)


def layers(setting: Setting, name: str, letter: str, streams: int = 1) -> Subject:
    """Some layers of one family at the width of the first model."""
    changes = {"blocks": letter * setting.layers, "streams": streams}
    spec = setting.spec(setting.models[0]).model_copy(update=changes)
    return Subject(name=name, spec=spec, loss=_squares, is_whole=False)


@functools.lru_cache(maxsize=1)
def model_of(
    spec: ModelSpec, backend: Backend, device: torch.device, *, recomputes: bool = False
) -> Decoder:
    """A seeded model on a device; the latest one is kept for the next line."""
    model = initialise(Decoder(spec, backend), 0).to(device)
    if recomputes:
        recompute(model)
    return model


def _squares(model: Decoder, x_BTD: Tensor, batch: Batch) -> Tensor:
    """Mean square of the stream: every layer works, the head doesn't."""
    return x_BTD.float().square().mean()
