"""Measured models and layers, built in the same way as the trainer builds its model."""

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
    """Decoder to measure, and the loss at which its backward pass starts."""

    name: str
    spec: ModelSpec
    loss: Loss
    is_whole: bool
    """True for a whole model with its head, False for layers of one type."""


def whole_models(setting: Setting) -> Iterator[Subject]:
    """Yield the whole models of a setting."""
    for name in setting.models:
        yield Subject(name=name, spec=setting.spec(name), loss=loss_of, is_whole=True)


def layer_families(setting: Setting) -> Iterator[Subject]:
    """Yield, for each layer type, a few layers of this type alone, with the width of the first model."""
    for name, letter in FAMILIES.items():
        streams = STREAMS if "mHC" in name else 1
        yield layers(setting, name, letter, streams)


def layers(setting: Setting, name: str, letter: str, streams: int = 1) -> Subject:
    """Return `setting.layers` layers of one type, with the width of the first model."""
    changes = {"blocks": letter * setting.layers, "streams": streams}
    spec = setting.spec(setting.models[0]).model_copy(update=changes)
    return Subject(name=name, spec=spec, loss=_mean_square, is_whole=False)


@functools.lru_cache(maxsize=1)
def model_of(
    spec: ModelSpec, backend: Backend, device: torch.device, *, recomputes: bool = False
) -> Decoder:
    """Return a seeded model on a device; the latest model is cached for the next measurement."""
    model = initialise(Decoder(spec, backend), 0).to(device)
    if recomputes:
        recompute(model)
    return model


def _mean_square(model: Decoder, x_BTD: Tensor, batch: Batch) -> Tensor:
    """Return the mean square of the stream, so that every layer is trained, but not the head."""
    return x_BTD.float().square().mean()
