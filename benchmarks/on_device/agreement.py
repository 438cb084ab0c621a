"""Agreement: losses and weights after twenty steps on the device against those of the CPU."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from unittest import mock

import torch
from torch import Tensor

from benchmarks.on_device.jobs import job_of, step
from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.masking import Rows, built_rows
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
    """Losses of all steps, and all weights in one vector on the host, fresh and trained."""

    losses: list[float]
    fresh: Tensor
    weights: Tensor


def measurements(setting: Setting) -> Iterator[Measurement]:
    """The main backend, flex and the reference's own, but the reference against itself on a CPU."""
    chosen = [
        each
        for each in setting.backends
        if each in (setting.backend, REFERENCE, "flex") and (setting.on_gpu or each != REFERENCE)
    ]
    for number, backend in enumerate(chosen):
        name = f"{MODEL}, {backend} against {REFERENCE} on the CPU, float32"
        kind = Rows(length=LENGTH, mean=MEAN)
        yield Measurement(
            wave=1 if number == 0 else 3,
            line=ResultLine(section=SECTION, subject=name, row_length=LENGTH, documents=str(kind)),
            work=functools.partial(_compared, setting, backend),
            build=functools.partial(built_rows, setting, setting.spec(MODEL), backend, kind),
        )


def _compared(setting: Setting, backend: Backend, share: float) -> Outcome:
    """Train the same weights on the same rows on both, without autocast and TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        ours = _trained(setting, setting.device, backend)
        theirs = _reference(setting)
    finally:
        torch.set_float32_matmul_precision(before)
    losses = [abs(one - other) for one, other in zip(ours.losses, theirs.losses, strict=True)]
    apart = ours.weights - theirs.weights
    return Outcome(
        figures=(
            Figure(name="largest difference of losses", value=max(losses)),
            Figure(name="last loss", value=theirs.losses[-1]),
            Figure(name="largest difference of weights", value=float(apart.abs().max())),
            Figure(
                name="difference of weights ÷ what training changed",
                value=float(apart.norm() / (theirs.weights - theirs.fresh).norm()),
            ),
            Figure(name="steps", value=STEPS),
        )
    )


@functools.cache
def _reference(setting: Setting) -> Trained:
    return _trained(setting, HOST, REFERENCE)


def _trained(setting: Setting, device: torch.device, backend: Backend) -> Trained:
    small = replace(setting, device=device, positions=LENGTH)
    job = job_of(small, small.spec(MODEL), LENGTH, backend=backend, steps=STEPS)
    train_state = new_train_state(job, device)
    fresh = _weights(train_state)
    # The trainer's own step, but for its autocast to bfloat16 on a GPU.
    with mock.patch.object(trainer_step, "mixed_precision", _exact):
        losses = [
            step(train_state, [Rows(length=LENGTH, mean=MEAN).batch(small, number)], job, number)
            for number in range(1, STEPS + 1)
        ]
    return Trained(losses=losses, fresh=fresh, weights=_weights(train_state))


def _exact(device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, enabled=False)


def _weights(train_state: TrainState) -> Tensor:
    """All weights in float64 on the host."""
    return torch.cat(
        [
            weight.detach().to(HOST, torch.float64).flatten()
            for weight in train_state.model.parameters()
        ]
    )
