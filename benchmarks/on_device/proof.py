"""Leakcheck on the device: claims about a model, and REPACKED about its training."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.masking import Rows, built_rows
from benchmarks.on_device.schedule import Measurement, Outcome
from benchmarks.on_device.setting import Setting
from curriculum.leakcheck.claims import ROW_LENGTH
from curriculum.leakcheck.decoders import small_model, whole
from curriculum.leakcheck.packings import Packing, packings
from curriculum.leakcheck.proof import ProofScope, many_findings, prove, repacked_findings
from curriculum.leakcheck.proof_documents import proof_documents
from curriculum.leakcheck.recorder import Recorder, train_plainly
from curriculum.leakcheck.repacked import ProofSetting
from curriculum.leakcheck.subject import dtype_name, spread_constant_weights
from curriculum.train.batch import Batch
from curriculum.train.optimizer import new_train_state
from curriculum.train.step import optimizer_step
from schemas.job import Backend, Job
from schemas.leak import Finding

SECTION = "leakcheck"
Prover = Callable[[Setting, Backend, torch.dtype], tuple[Finding, ...]]
TF32 = "high"
EXACT = "highest"
_SHOWN = 3
"""Failures that are named in a line."""


def measurements(setting: Setting) -> Iterator[Measurement]:
    """A model and its step by the main backend in bfloat16 and float32, then models by the others.

    On a GPU float32 is tried twice: exact, and with products in TF32 as the trainer sets it.
    """
    first, *others = setting.backends[: setting.proofs]
    for dtype in (torch.bfloat16, torch.float32):
        yield _measurement(setting, first, dtype, EXACT, of_model, wave=1)
    yield _measurement(setting, first, torch.float32, EXACT, of_training, wave=1)
    yield _measurement(setting, "documents", torch.float64, EXACT, of_training, wave=1)
    if setting.on_gpu:
        yield _measurement(setting, first, torch.bfloat16, EXACT, of_training, wave=1)
        yield _measurement(setting, first, torch.float32, TF32, of_model, wave=2)
        yield _measurement(setting, first, torch.float32, TF32, of_training, wave=2)
    for backend in others:
        yield _measurement(setting, backend, torch.bfloat16, EXACT, of_model, wave=3)


def _measurement(
    setting: Setting,
    backend: Backend,
    dtype: torch.dtype,
    precision: str,
    prover: Prover,
    *,
    wave: int,
) -> Measurement:
    suffix = ", TF32" if precision == TF32 else ""
    name = f"{backend}, {dtype_name(dtype)}{suffix}{', training' if prover is of_training else ''}"
    return Measurement(
        wave=wave,
        line=ResultLine(
            section=SECTION, subject=name, row_length=ROW_LENGTH, documents="edge cases"
        ),
        work=functools.partial(_proven, setting, backend, dtype, precision, prover),
        build=functools.partial(
            built_rows,
            setting,
            setting.spec(setting.models[-1]),
            backend,
            Rows(length=ROW_LENGTH, mean=100),
        ),
    )


def of_model(setting: Setting, backend: Backend, dtype: torch.dtype) -> tuple[Finding, ...]:
    """Prove every claim about the layers of the hybrid, all in one small decoder."""
    scope = ProofScope(
        cases=(whole(setting.spec(setting.models[-1])),),
        backends=(backend,),
        dtypes=(dtype,),
        uneven=False,
        device=setting.device,
    )
    return prove(scope).findings


def of_training(setting: Setting, backend: Backend, dtype: torch.dtype) -> tuple[Finding, ...]:
    """Prove that packings of the same documents train a small hybrid alike."""
    proven = ProofSetting(
        model=small_model(setting.spec(setting.models[-1])),
        backend=backend,
        recompute=False,
        dtype=dtype,
        device=setting.device,
    )
    steps = proof_documents(proven.model, longest=ROW_LENGTH, steps=2)
    return (
        *repacked_findings(proven, steps, packings(steps, ROW_LENGTH), train=_by_steps),
        *many_findings(proven, train=_by_steps),
    )


def _by_steps(
    proven: ProofSetting, job: Job, workspace: Path, recorder: Recorder, _: Packing
) -> None:
    """Train by the step of training jobs, without a run's files."""
    train_plainly(_Steps(proven, job), job, workspace, recorder)


class _Steps:
    """Our train state, advanced step by step."""

    def __init__(self, proven: ProofSetting, job: Job) -> None:
        self.job, self.number = job, 0
        self.train_state = new_train_state(job, proven.device, dtype=proven.dtype)
        spread_constant_weights(self.train_state.model).train()

    def step(
        self, batches: Sequence[Batch]
    ) -> tuple[list[list[float]], Mapping[str, torch.Tensor]]:
        """Make one optimizer step; return Σ nll of each segment of each batch, and gradients."""
        gradients: dict[str, torch.Tensor] = {}

        def note(*_: Any) -> None:
            for name, weight in self.train_state.model.named_parameters():
                if weight.grad is not None:
                    gradients[name] = weight.grad.detach().clone()

        self.number += 1
        hook = self.train_state.optimizer.register_step_pre_hook(note)
        made = optimizer_step(self.train_state, batches, self.job, step=self.number, rate=1e-3)
        hook.remove()
        return [sums.tolist() for sums in made.documents], gradients

    def weights(self) -> Mapping[str, torch.Tensor]:
        """Return copies of the weights."""
        named = self.train_state.model.named_parameters()
        return {name: weight.detach().clone() for name, weight in named}


def _proven(
    setting: Setting,
    backend: Backend,
    dtype: torch.dtype,
    precision: str,
    prover: Prover,
    share: float,
) -> Outcome:
    """Prove all claims whatever the share of the time: a part proves nothing."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        found = prover(setting, backend, dtype)
    finally:
        torch.set_float32_matmul_precision(before)
        # Its many small shapes would use up the number of shapes that flex is compiled for.
        torch.compiler.reset()
    failed = [each for each in found if not each.passed]
    return Outcome(
        figures=(
            Figure(name="claims that hold", value=len(found) - len(failed)),
            Figure(name="claims that fail", value=len(failed)),
        ),
        note=_note(failed),
    )


def _note(failed: Sequence[Finding]) -> str:
    named = [f"LEAK {each.claim} ({each.detail})" for each in failed]
    rest = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return "; ".join(named[:_SHOWN]) + rest
