"""Agreement: losses and weights after twenty steps on the device, compared with the CPU."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from unittest import mock

import torch
from torch import Tensor

from benchmarks.on_device.jobs import job_of, step
from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.masking import RowKind, build_on_rows
from benchmarks.on_device.schedule import Measurement, Outcome
from benchmarks.on_device.setting import Setting
from curriculum.train import step as trainer_step
from curriculum.train.optimizer import TrainState, new_train_state
from schemas.job import Backend

SECTION = "agreement"
MODEL, LENGTH, MEAN = "tiny", 256, 30
STEPS = 20
REFERENCE: Backend = "documents"
HOST = torch.device("cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """Losses of all steps, and all weights before and after them."""

    losses: list[float]
    fresh: Tensor
    """Initial weights, as one vector on the CPU."""
    weights: Tensor
    """Trained weights, as one vector on the CPU."""


def measurements(setting: Setting) -> Iterator[Measurement]:
    """Yield a measurement for the main backend, for flex and, on a GPU, for the reference backend.

    On a CPU, the reference backend would be compared with itself.
    """
    chosen = [
        backend
        for backend in setting.backends
        if backend in (setting.backend, REFERENCE, "flex")
        and (setting.on_gpu or backend != REFERENCE)
    ]
    for number, backend in enumerate(chosen):
        name = f"{MODEL}, {backend} against {REFERENCE} on the CPU, float32"
        kind = RowKind(length=LENGTH, mean=MEAN)
        yield Measurement(
            wave=1 if number == 0 else 3,
            line=ResultLine(section=SECTION, subject=name, row_length=LENGTH, documents=str(kind)),
            work=functools.partial(_compare, setting, backend),
            build=functools.partial(build_on_rows, setting, setting.spec(MODEL), backend, kind),
        )


def _compare(setting: Setting, backend: Backend, share: float) -> Outcome:
    """Train the same weights on the same rows on the device and on the CPU, without autocast and TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        ours = _train(setting, setting.device, backend)
        theirs = _reference(setting)
    finally:
        torch.set_float32_matmul_precision(before)
    losses = [abs(our - their) for our, their in zip(ours.losses, theirs.losses, strict=True)]
    difference = ours.weights - theirs.weights
    return Outcome(
        figures=(
            Figure(name="max loss difference", value=max(losses)),
            Figure(name="last loss", value=theirs.losses[-1]),
            Figure(name="max weight difference", value=float(difference.abs().max())),
            Figure(
                name="weight difference ÷ change by training",
                value=float(difference.norm() / (theirs.weights - theirs.fresh).norm()),
            ),
            Figure(name="steps", value=STEPS),
        )
    )


@functools.cache
def _reference(setting: Setting) -> Trained:
    return _train(setting, HOST, REFERENCE)


def _train(setting: Setting, device: torch.device, backend: Backend) -> Trained:
    small = replace(setting, device=device, positions=LENGTH)
    job = job_of(small, small.spec(MODEL), LENGTH, backend=backend, steps=STEPS)
    train_state = new_train_state(job, device)
    fresh = _weights(train_state)
    # The step of the trainer, without its autocast to bfloat16 on a GPU.
    with mock.patch.object(trainer_step, "mixed_precision", _without_autocast):
        losses = [
            step(train_state, [RowKind(length=LENGTH, mean=MEAN).batch(small, number)], job, number)
            for number in range(1, STEPS + 1)
        ]
    return Trained(losses=losses, fresh=fresh, weights=_weights(train_state))


def _without_autocast(device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, enabled=False)


def _weights(train_state: TrainState) -> Tensor:
    """Return all weights as one float64 vector on the CPU."""
    return torch.cat(
        [
            weight.detach().to(HOST, torch.float64).flatten()
            for weight in train_state.model.parameters()
        ]
    )
